"""The common part of all executors: the attempts in flight, and one `Ended` for each of them.

    begin ──► in flight ──► removed, by exactly one of these, which then reports
                              ├─ the attempt itself, when it has ended
                              ├─ kill, when it is abandoned
                              └─ close

A key can be removed from a dictionary only once, even if several threads try at the same time. This alone guarantees
one `Ended` for each assignment. A later result is logged, and changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import structlog

from itinerary.executors.cancellation import CancelFlags
from itinerary.executors.outcomes import could_not_begin
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped

__all__ = ["BaseExecutor", "InFlight"]

_log: Final = structlog.stdlib.get_logger()


class InFlight(CancelFlags):
    """An attempt that has begun and not ended.

    Its function may still be in a queue, and `was_called` is reliable about that. The caller of the function sets
    `was_called` first and then reads `is_stop_asked`. A stop sets `is_stop_asked` first and then reads `was_called`. If
    the stop reads False, the function is never called, in whatever threads the two run.
    """

    __slots__ = ("assignment", "was_called")

    def __init__(self, assignment: Assignment) -> None:
        self.is_stop_asked = False
        self.is_given_up = False
        self.was_called = False
        self.assignment = assignment

    @property
    def key(self) -> AttemptKey:
        return self.assignment.key


A = TypeVar("A", bound=InFlight)


class BaseExecutor(ABC, Generic[A]):
    """An executor that keeps an `A` for each attempt in flight."""

    def __init__(self) -> None:
        self._in_flight: dict[AttemptKey, A] = {}
        self._report: Callable[[Sequence[Report]], None] | None = None
        self._is_closed = False

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        assert self._report is None, "an executor is opened once"
        self._report = report
        await self._prepare()

    async def close(self) -> None:
        if self._is_closed or self._report is None:
            return
        self._is_closed = True
        try:
            await self._shut_down()
        finally:
            for key in list(self._in_flight):
                self._end(key, Stopped(abandoned=True))

    def begin(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._begin_one(assignment)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            attempt = self._in_flight.get(key)
            if attempt is not None:
                self._stop(attempt)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            attempt = self._in_flight.get(key)
            if attempt is not None:
                self._kill(attempt)

    def _begin_one(self, assignment: Assignment) -> None:
        assert assignment.key not in self._in_flight, "an attempt is begun once"
        if self._is_closed or self._report is None:
            self._say(Ended(assignment.key, Failed(f"the executor of task {assignment.facts.task!r} is closed")))
            return
        try:
            self._in_flight[assignment.key] = attempt = self._accept(assignment)
            self._launch(attempt)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            self._in_flight.pop(assignment.key, None)
            self._say(Ended(assignment.key, could_not_begin(error)))

    def _end(self, key: AttemptKey, outcome: Outcome) -> bool:
        """Report the end of an attempt, unless it was already reported. Callable from any thread."""
        if self._in_flight.pop(key, None) is None:
            return False
        self._say(Ended(key, outcome))
        return True

    def _say(self, *reports: Report) -> None:
        assert self._report is not None, "nobody to report to: the executor was never opened"
        self._report(reports)

    @staticmethod
    def _came_back(assignment: Assignment, outcome: Outcome) -> None:
        """Log an attempt that ended after it was abandoned."""
        _log.warning(
            "attempt.ended_after_it_was_given_up",
            job=assignment.facts.job,
            task=assignment.facts.task,
            attempt=assignment.facts.attempt,
            outcome=type(outcome).__name__,
        )

    async def _prepare(self) -> None:
        """Prepare, on the node's loop."""

    @abstractmethod
    async def _shut_down(self) -> None:
        """Kill the running attempts. Attempts that are still in flight afterwards are abandoned."""

    @abstractmethod
    def _accept(self, assignment: Assignment) -> A:
        """Return the state to keep for an attempt. An exception means that the attempt cannot begin."""

    @abstractmethod
    def _launch(self, attempt: A) -> None:
        """Begin an attempt. An exception means that the attempt cannot begin."""

    @abstractmethod
    def _stop(self, attempt: A) -> None:
        """Ask an attempt to end, unless it was already asked."""

    @abstractmethod
    def _kill(self, attempt: A) -> None:
        """Kill an attempt, or abandon it."""
