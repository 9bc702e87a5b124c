"""What ran, as the tasks themselves saw it: a line for each attempt that began, in a file of its process.

A line is one write to a file that is only ever appended to, so a process that is killed leaves whole lines. The time is
that of the machine's boot clock, which all processes share, and which goes on while one of them is frozen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from itinerary.schedules.durations import SECOND

__all__ = ["Begun", "Notebook", "clock", "read"]


class Begun(NamedTuple):
    """An attempt that really began."""

    job: str
    instant: int
    attempt: int
    node: str
    process: int
    at: float


def clock() -> float:
    """Seconds, the same for every process of this machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Notebook:
    """Where a process notes what it begins."""

    def __init__(self, directory: Path) -> None:
        path = directory / f"{os.getpid()}.txt"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, job: str, scheduled_at: datetime, attempt: int, node: str) -> None:
        """An attempt has begun."""
        instant = round(scheduled_at.timestamp()) * SECOND
        os.write(self._file, f"{job} {instant} {attempt} {node} {os.getpid()} {clock():.6f}\n".encode())


def read(directory: Path) -> Iterator[Begun]:
    """Everything that has begun."""
    for path in sorted(directory.iterdir()):
        for line in path.read_text("utf-8").splitlines():
            job, instant, attempt, node, process, at = line.split(" ")
            yield Begun(job, int(instant), int(attempt), node, int(process), float(at))
