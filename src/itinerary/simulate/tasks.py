"""The executor of a simulated process: tasks that take virtual time, fail, hang, and do not listen.

What an attempt will do is decided by its name and the seed, never by when or where it runs: the same attempt would do
the same on another node. It writes into the world's log as it begins and ends, so what really ran is known without
asking anybody who could be wrong.

A task lives in its process. It stands still while that is frozen, and dies with it. One that is deaf goes on after it
has been asked to end, and even after it has been given up; whatever it does then counts for nothing.

A task runs in a thread of its own: it goes on while the node's event loop is held up, and its report waits until the
loop runs again. A task with a huge result holds up the loop itself, for as long as its report takes to be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped, Succeeded
from itinerary.simulate.clock import StoreClock
from itinerary.simulate.history import History
from itinerary.simulate.processes import Process, ProcessState, in_process, thread_of
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
    holds_up_for: float = 0.0
    """Seconds that the loop of its node needs for its report, since its result is huge."""
    called_after: float = 0.0
    """Seconds for which it waits in the queue of its executor before its function is called."""


class Manners(Protocol):
    """Who knows how tasks behave."""

    def behaviour(self, assignment: Assignment) -> Behaviour:
        """What this attempt will do, wherever it runs."""


class _Work:
    """An attempt that runs here."""

    __slots__ = ("behaviour", "is_over", "run", "timer", "was_called")

    def __init__(self, run: Run, behaviour: Behaviour) -> None:
        self.run = run
        self.behaviour = behaviour
        self.was_called = False
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False
        """It has been reported; it may still be going on, if it was given up."""


class SimulatedExecutor:
    """A `ports.Executor`. Everything in it happens on the virtual loop, in the process that owns it."""

    def __init__(
        self,
        process: Process,
        manners: Manners,
        log: RunLog,
        clock: StoreClock,
        history: History,
        hold_up: Callable[[Process, float], None] = lambda _process, _seconds: None,
    ) -> None:
        """`hold_up` stops the event loop of a process for so many seconds."""
        self._process = process
        self._manners = manners
        self._log = log
        self._clock = clock
        self._history = history
        self._works: dict[AttemptKey, _Work] = {}
        self._report: Callable[[Sequence[Report]], None] | None = None
        self._hold_up = hold_up
        self._context = thread_of(process)
        process.at_crash(self._die)

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self._report = report

    async def close(self) -> None:
        for work in list(self._works.values()):
            if work.was_called:
                self._end(work, Ending.STOPPED, None if work.is_over else Stopped(abandoned=True))
            else:
                self._take_back(work)

    def begin(self, assignments: Sequence[Assignment]) -> None:
        loop = asyncio.get_running_loop()
        for assignment in assignments:
            facts, behaviour = assignment.facts, self._manners.behaviour(assignment)
            run = Run(assignment.key, facts.job, facts.task, facts.key, self._process, self._clock())
            work = _Work(run, behaviour)
            self._works[assignment.key] = work
            if behaviour.called_after:
                self._note("is in the queue", run)
                work.timer = loop.call_later(behaviour.called_after, self._call, work, context=self._context)
            else:
                self._call(work)

    def _call(self, work: _Work) -> None:
        """Call its function: from now on it really runs."""
        work.was_called = True
        work.run.began_at = work.run.allowed_at = self._clock()
        self._log.begin(work.run)
        self._note("begins", work.run)
        work.timer = None
        if not work.behaviour.hangs:
            loop = asyncio.get_running_loop()
            work.timer = loop.call_later(work.behaviour.takes, self._finish, work, context=self._context)

    def _take_back(self, work: _Work) -> None:
        """Take it out of the queue: its function is never called."""
        assert work.timer is not None, "it is in the queue"
        work.timer.cancel()
        del self._works[work.run.attempt]
        self._note("is taken out of the queue", work.run)
        self._tell(work, Stopped(was_called=False))

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        loop = asyncio.get_running_loop()
        for key in attempts:
            work = self._works.get(key)
            if work is None or work.run.asked_at is not None or work.is_over:
                continue
            if not work.was_called:
                self._take_back(work)
                continue
            work.run.asked_at = self._clock()
            self._note("is asked to end", work.run)
            if not work.behaviour.is_deaf:
                if work.timer is not None:
                    work.timer.cancel()
                work.timer = loop.call_later(
                    work.behaviour.ends_after, self._end, work, Ending.STOPPED, Stopped(), context=self._context
                )

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            work = self._works.get(key)
            if work is None or work.is_over:
                continue
            if not work.was_called:
                self._take_back(work)
                continue
            self._note("is given up", work.run)
            work.is_over = True
            work.run.given_up_at = self._clock()
            self._tell(work, Stopped(abandoned=True))

    def _finish(self, work: _Work) -> None:
        if work.behaviour.fails:
            self._end(work, Ending.FAILED, Failed("SimulatedFailure: it was to be", ("SimulatedFailure", "Exception")))
        else:
            holds_up_for = 0.0 if work.is_over else work.behaviour.holds_up_for
            self._end(work, Ending.SUCCEEDED, Succeeded(result_of(work.run.attempt)))
            if holds_up_for:
                self._hold_up(self._process, holds_up_for)

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
        with in_process(self._process):
            if self._process.state is ProcessState.HELD_UP:  # a thread reports at once, and the loop hears of it later
                self._report([Ended(work.run.attempt, outcome)])
            else:
                asyncio.get_running_loop().call_soon(self._report, [Ended(work.run.attempt, outcome)])

    def _die(self) -> None:
        """The process has crashed, and its tasks with it."""
        works, self._works = self._works, {}
        for work in works.values():
            if not work.was_called:
                continue
            self._log.end(work.run, self._clock(), Ending.DIED)
            self._note(Ending.DIED, work.run)

    def _note(self, what: str, run: Run) -> None:
        self._history.note(self._process.incarnation, what, run.name)


def result_of(attempt: AttemptKey) -> str:
    """What an attempt returns when it succeeds: its own name, so that one can tell whose result is in a row."""
    return f'"{attempt.ref}/{attempt.place}/{attempt.number}"'
