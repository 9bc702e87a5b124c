"""The executor of a simulated process: tasks that take virtual time, fail, hang, and do not listen.

What an attempt will do is decided by its name and the seed, never by when or where it runs: the same attempt would do
the same on another node. It writes into the world's log as it begins and ends, so what really ran is known without
asking anybody who could be wrong.

A task lives in its process. It stands still while that is frozen, and dies with it. One that is deaf goes on after it
has been asked to end, and even after it has been given up; whatever it does then counts for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from itinerary.model.work import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped, Succeeded
from itinerary.simulate.clock import StoreClock
from itinerary.simulate.history import History
from itinerary.simulate.processes import Process
from itinerary.simulate.runs import Ending, Run, RunLog

__all__ = ["Behaviour", "Manners", "SimulatedExecutor", "result_of"]


class Behaviour(msgspec.Struct, frozen=True):
    """What one attempt will do."""

    takes: float
    """Seconds."""
    fails: bool = False
    hangs: bool = False
    """It never ends by itself."""
    is_deaf: bool = False
    """It does not end when it is asked to."""
    ends_after: float = 0.0
    """Seconds from being asked to end to the end."""


class Manners(Protocol):
    """Who knows how tasks behave."""

    def behaviour(self, assignment: Assignment) -> Behaviour:
        """What this attempt will do, wherever it runs."""


class _Work:
    """An attempt that runs here."""

    __slots__ = ("behaviour", "is_over", "run", "timer")

    def __init__(self, run: Run, behaviour: Behaviour) -> None:
        self.run = run
        self.behaviour = behaviour
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False
        """It has been reported; it may still be going on, if it was given up."""


class SimulatedExecutor:
    """A `ports.Executor`. Everything in it happens on the virtual loop, in the process that owns it."""

    def __init__(self, process: Process, manners: Manners, log: RunLog, clock: StoreClock, history: History) -> None:
        self._process = process
        self._manners = manners
        self._log = log
        self._clock = clock
        self._history = history
        self._works: dict[AttemptKey, _Work] = {}
        self._report: Callable[[Sequence[Report]], None] | None = None
        process.at_crash(self._die)

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self._report = report

    async def close(self) -> None:
        for work in list(self._works.values()):
            self._end(work, Ending.STOPPED, None if work.is_over else Stopped(abandoned=True))

    def begin(self, assignments: Sequence[Assignment]) -> None:
        loop = asyncio.get_running_loop()
        for assignment in assignments:
            facts, behaviour = assignment.facts, self._manners.behaviour(assignment)
            run = Run(assignment.key, facts.job, facts.task, facts.key, self._process, self._clock())
            self._log.begin(run)
            self._note("begins", run)
            work = _Work(run, behaviour)
            self._works[assignment.key] = work
            if not behaviour.hangs:
                work.timer = loop.call_later(behaviour.takes, self._finish, work)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        loop = asyncio.get_running_loop()
        for key in attempts:
            work = self._works.get(key)
            if work is None or work.run.asked_at is not None or work.is_over:
                continue
            work.run.asked_at = self._clock()
            self._note("is asked to end", work.run)
            if not work.behaviour.is_deaf:
                if work.timer is not None:
                    work.timer.cancel()
                work.timer = loop.call_later(work.behaviour.ends_after, self._end, work, Ending.STOPPED, Stopped())

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            work = self._works.get(key)
            if work is None or work.is_over:
                continue
            self._note("is given up", work.run)
            work.is_over = True
            work.run.given_up_at = self._clock()
            self._tell(work, Stopped(abandoned=True))

    def _finish(self, work: _Work) -> None:
        if work.behaviour.fails:
            self._end(work, Ending.FAILED, Failed("SimulatedFailure: it was to be", ("SimulatedFailure", "Exception")))
        else:
            self._end(work, Ending.SUCCEEDED, Succeeded(result_of(work.run.attempt)))

    def _end(self, work: _Work, ending: Ending, outcome: Outcome | None) -> None:
        if work.timer is not None:
            work.timer.cancel()
        del self._works[work.run.attempt]
        self._log.end(work.run, self._clock(), ending)
        self._note(ending, work.run)
        if outcome is not None and not work.is_over:
            work.is_over = True
            self._tell(work, outcome)

    def _tell(self, work: _Work, outcome: Outcome) -> None:
        """Report it in a turn of its own: nobody is told anything in the middle of asking for it."""
        assert self._report is not None, "an executor is opened before it is used"
        asyncio.get_running_loop().call_soon(self._report, [Ended(work.run.attempt, outcome)])

    def _die(self) -> None:
        """The process has crashed, and its tasks with it."""
        works, self._works = self._works, {}
        for work in works.values():
            self._log.end(work.run, self._clock(), Ending.DIED)
            self._note(Ending.DIED, work.run)

    def _note(self, what: str, run: Run) -> None:
        self._history.note(self._process.incarnation, what, run.name)


def result_of(attempt: AttemptKey) -> str:
    """What an attempt returns when it succeeds: its own name, so that one can tell whose result is in a row."""
    return f'"{attempt.ref}/{attempt.place}/{attempt.number}"'
