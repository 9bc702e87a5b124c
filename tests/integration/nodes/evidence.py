"""What ran, as the tasks themselves saw it: a line for each attempt that began or ended, in a file of its process.

A line is one write to a file that is only ever appended to, so a process that is killed leaves whole lines. Times are
those of the machine's clock, which the database of the tests shares: they can be compared with the rows of the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from itinerary.schedules.durations import SECOND

__all__ = ["Begun", "Notebook", "Try", "clock", "read", "read_ends"]


class Try(NamedTuple):
    """An attempt by its name: there must be one of each."""

    job: str
    instant: int
    attempt: int


class Begun(NamedTuple):
    """An attempt that really began."""

    job: str
    instant: int
    attempt: int
    node: str
    process: int
    at: float

    @property
    def which(self) -> Try:
        """The attempt that it was."""
        return Try(self.job, self.instant, self.attempt)


def clock() -> float:
    """Seconds, the same for every process of this machine and for its database."""
    return time.time()


class Notebook:
    """Where a process notes what it begins and ends."""

    def __init__(self, directory: Path) -> None:
        self._begun = self._file(directory / f"{os.getpid()}.begun")
        self._ended = self._file(directory / f"{os.getpid()}.ended")

    def begin(self, job: str, scheduled_at: datetime, attempt: int, node: str) -> None:
        """An attempt has begun."""
        self._write(self._begun, job, scheduled_at, attempt, node)

    def end(self, job: str, scheduled_at: datetime, attempt: int, node: str) -> None:
        """An attempt has done all that it had to do."""
        self._write(self._ended, job, scheduled_at, attempt, node)

    def _file(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _write(self, file: int, job: str, scheduled_at: datetime, attempt: int, node: str) -> None:
        instant = round(scheduled_at.timestamp()) * SECOND
        os.write(file, f"{job} {instant} {attempt} {node} {os.getpid()} {clock():.6f}\n".encode())


def read(directory: Path) -> Iterator[Begun]:
    """Everything that has begun."""
    return _lines(directory, "*.begun")


def read_ends(directory: Path) -> Mapping[Try, float]:
    """When each attempt ended that did."""
    return {line.which: line.at for line in _lines(directory, "*.ended")}


def _lines(directory: Path, names: str) -> Iterator[Begun]:
    for path in sorted(directory.glob(names)):
        for line in path.read_text("utf-8").splitlines():
            job, instant, attempt, node, process, at = line.split(" ")
            yield Begun(job, int(instant), int(attempt), node, int(process), float(at))
