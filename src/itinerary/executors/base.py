"""What executors have in common: who is in flight, and one `Ended` for each of them.

    begin ──► in flight ──► taken out, by exactly one of these, which then reports
                              ├─ the attempt itself, when it is over
                              ├─ kill, when it is given up
                              └─ close

Taking out of a dictionary happens once, whichever threads try it at the same time: that is the whole of the promise
that there is one `Ended` for each assignment. What comes too late is logged, and changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import structlog

from itinerary.executors.cancellation import Standing
from itinerary.executors.outcomes import could_not_begin
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped

__all__ = ["BaseExecutor", "InFlight"]

_log: Final = structlog.stdlib.get_logger()


class InFlight(Standing):
    """An attempt that has begun and is not over.

    Its function may be in a queue. `was_called` says so truthfully: who is about to call it sets `was_called` first and
    then looks at `is_stop_asked`; who stops it sets `is_stop_asked` first and then looks at `was_called`. So if the
    second finds that it was not called, it never will be, in whatever threads the two are.
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
    """An executor that keeps an `A` of each attempt in flight."""

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
        """Report the end of an attempt, unless that was done already. From any thread."""
        if self._in_flight.pop(key, None) is None:
            return False
        self._say(Ended(key, outcome))
        return True

    def _say(self, *reports: Report) -> None:
        assert self._report is not None, "nobody to report to: the executor was never opened"
        self._report(reports)

    @staticmethod
    def _came_back(assignment: Assignment, outcome: Outcome) -> None:
        """Take note of an attempt that ended after it was given up."""
        _log.warning(
            "attempt.ended_after_it_was_given_up",
            job=assignment.facts.job,
            task=assignment.facts.task,
            attempt=assignment.facts.attempt,
            outcome=type(outcome).__name__,
        )

    async def _prepare(self) -> None:
        """Get ready, on the engine's loop."""

    @abstractmethod
    async def _shut_down(self) -> None:
        """End by force what still runs. What is in flight after that is given up."""

    @abstractmethod
    def _accept(self, assignment: Assignment) -> A:
        """What to keep of an attempt. May raise: then it cannot begin."""

    @abstractmethod
    def _launch(self, attempt: A) -> None:
        """Begin. May raise: then it cannot begin."""

    @abstractmethod
    def _stop(self, attempt: A) -> None:
        """Ask it to end, unless that was done already."""

    @abstractmethod
    def _kill(self, attempt: A) -> None:
        """End it by force, or give it up."""
