"""Where the contract is played: an executor, attempts for it, and everything that it reports.

    stage.begin("obey") ──► executor ──► reports, from any thread ──► stage.outcome(key)

When the stage is left the executor is closed, and every attempt that was begun must have ended exactly once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from itinerary.model.attempts import Assignment, AttemptInfo, AttemptKey, Ended, Outcome, Report
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.ports import Executor

__all__ = ["INSTANT", "PATIENCE", "Bell", "Stage", "facts", "until"]

PATIENCE: Final = 60.0
"""Seconds after which something has hung. Nothing is measured by it."""
INSTANT: Final = 1_767_225_600_000_000


def facts(**values: Any) -> AttemptInfo:
    given: dict[str, Any] = {
        "job": "nightly",
        "version": 3,
        "task": "main",
        "node": "nowhere",
        "key": Key(INSTANT, JobNumber(1), Kind.SCHEDULED),
        "attempt": 1,
        "started_at": INSTANT + 7,
    }
    return AttemptInfo(**{**given, **values})


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens elsewhere, in another thread or process, and tells nobody."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)


class Bell:
    """A named pipe that tasks write into, wherever they run, to say that they have begun."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._rings = asyncio.Semaphore(0)
        asyncio.get_running_loop().add_reader(self._handle, self._heard)

    def _heard(self) -> None:
        for _ in os.read(self._handle, 1_000):
            self._rings.release()

    async def rung(self, times: int = 1) -> None:
        for _ in range(times):
            await self._rings.acquire()

    def rings(self) -> int:
        """How often it has rung up to now, without what was waited for."""
        with suppress(BlockingIOError):  # all of it was heard before
            self._heard()
        return self._rings._value

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)


class Stage:
    """An executor that is open, and what came out of it."""

    def __init__(self, executor: Executor, tmp_path: Path) -> None:
        self.executor = executor
        self.reports: list[Report] = []
        self.batches: list[int] = []
        self.threads: set[str] = set()
        self.begun: list[AttemptKey] = []
        self._tmp_path = tmp_path
        self._numbers = count(1)
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self.bell = Bell(self._tmp_path / "bell")
        await self.executor.open(self._reported)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.bell.path.unlink()  # what ignores everything ends now
        await self.executor.close()
        self.bell.close()
        if error is None:
            assert Counter(self.ended()) == Counter(self.begun), "one end for each attempt"

    def _reported(self, reports: Sequence[Report]) -> None:
        assert reports, "a report of nothing"
        self.reports += reports
        self.batches.append(len(reports))
        self.threads.add(threading.current_thread().name)
        self._loop.call_soon_threadsafe(self._changed.set)

    def assignment(self, run: Any, executor: str = "auto", **values: Any) -> Assignment:
        key = AttemptKey(Ref(next(self._numbers)), 0, values.get("attempt", 1))
        return Assignment(key, executor, run, facts(node=str(self.bell.path), **values))

    def begin(self, run: Any, executor: str = "auto", **values: Any) -> AttemptKey:
        """Begin one attempt."""
        return self.begin_all([self.assignment(run, executor, **values)])[0]

    def begin_all(self, assignments: Sequence[Assignment]) -> list[AttemptKey]:
        keys = [assignment.key for assignment in assignments]
        self.begun += keys
        self.executor.begin(assignments)
        return keys

    def ended(self) -> list[AttemptKey]:
        return [report.key for report in self.reports if isinstance(report, Ended)]

    async def outcome(self, key: AttemptKey) -> Outcome:
        """What came of an attempt, when it is over."""
        return (await self.outcomes([key]))[0]

    async def outcomes(self, keys: Sequence[AttemptKey]) -> list[Outcome]:
        async with asyncio.timeout(PATIENCE):
            while not set(keys) <= set(self.ended()):
                self._changed.clear()
                if not set(keys) <= set(self.ended()):
                    await self._changed.wait()
        found = {report.key: report.outcome for report in self.reports if isinstance(report, Ended)}
        return [found[key] for key in keys]

    async def rung(self, times: int = 1) -> None:
        """When so many tasks have begun."""
        async with asyncio.timeout(PATIENCE):
            await self.bell.rung(times)
