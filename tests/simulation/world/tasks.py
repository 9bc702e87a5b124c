"""The executor of a simulated process: tasks that take virtual time, fail, hang, and ignore stop requests.

The attempt's name and the seed determine its behaviour, not the time or the node: the same attempt does the same on
another node. Each attempt writes its start and its end to the world's log. So the checker knows which attempts really
ran, without the nodes or the store.

A task lives in its process: it stops while the process is frozen, and ends when the process crashes. A task with
`is_deaf` continues after a stop request, and even after its node has given it up. Its result does not count then.

A task runs in its own thread, so it continues while the node's event loop is held up. Its report waits until the loop
runs again. A task with a huge result holds up the loop itself while the loop reads the report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped, Succeeded
from itinerary.testing.processes import Process, ProcessState, in_process, thread_of
from tests.simulation.world.clock import SimulatedStoreClock
from tests.simulation.world.history import EventHistory
from tests.simulation.world.run_log import SimulatedEnd, SimulatedRun, SimulatedRunLog

__all__ = ["Behaviour", "Manners", "SimulatedExecutor", "result_of"]


class Behaviour(msgspec.Struct, frozen=True):
    """The behaviour of one attempt."""

    takes: float
    """The duration in seconds."""
    fails: bool = False
    hangs: bool = False
    """True if the attempt never ends by itself."""
    is_deaf: bool = False
    """True if the attempt ignores stop requests."""
    ends_after: float = 0.0
    """Seconds from a stop request to the end."""
    holds_up_for: float = 0.0
    """Seconds that the node's loop needs to read the report, if the result is huge."""
    called_after: float = 0.0
    """Seconds in the executor's queue before the function is called."""


class Manners(Protocol):
    """The source of the behaviour of tasks."""

    def behaviour(self, assignment: Assignment) -> Behaviour:
        """Return the behaviour of an attempt, the same on every node."""


class _Work:
    """An attempt in this executor."""

    __slots__ = ("behaviour", "is_over", "run", "timer", "was_called")

    def __init__(self, run: SimulatedRun, behaviour: Behaviour) -> None:
        self.run = run
        self.behaviour = behaviour
        self.was_called = False
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False
        """True if the end is reported. An attempt that was given up may still run."""


class SimulatedExecutor:
    """A `ports.Executor` that runs on the virtual loop, in its process."""

    def __init__(
        self,
        process: Process,
        manners: Manners,
        log: SimulatedRunLog,
        clock: SimulatedStoreClock,
        history: EventHistory,
        hold_up: Callable[[Process, float], None] = lambda _process, _seconds: None,
    ) -> None:
        """Create an executor. `hold_up` stops the event loop of a process for some seconds."""
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
                self._end(work, SimulatedEnd.STOPPED, None if work.is_over else Stopped(abandoned=True))
            else:
                self._take_back(work)

    def begin(self, assignments: Sequence[Assignment]) -> None:
        loop = asyncio.get_running_loop()
        for assignment in assignments:
            facts, behaviour = assignment.facts, self._manners.behaviour(assignment)
            run = SimulatedRun(assignment.key, facts.job, facts.task, facts.key, self._process, self._clock())
            work = _Work(run, behaviour)
            self._works[assignment.key] = work
            if behaviour.called_after:
                self._note("is in the queue", run)
                work.timer = loop.call_later(behaviour.called_after, self._call, work, context=self._context)
            else:
                self._call(work)

    def _call(self, work: _Work) -> None:
        """Call the function of the task. From now on, the attempt really runs."""
        work.was_called = True
        work.run.began_at = work.run.allowed_at = self._clock()
        self._log.begin(work.run)
        self._note("begins", work.run)
        work.timer = None
        if not work.behaviour.hangs:
            loop = asyncio.get_running_loop()
            work.timer = loop.call_later(work.behaviour.takes, self._finish, work, context=self._context)

    def _take_back(self, work: _Work) -> None:
        """Remove an attempt from the queue. Its function is never called."""
        assert work.timer is not None, "it is in the queue"
        work.timer.cancel()
        del self._works[work.run.attempt]
        self._note("is taken out of the queue", work.run)
        self._notify(work, Stopped(was_called=False))

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
                    work.behaviour.ends_after, self._end, work, SimulatedEnd.STOPPED, Stopped(), context=self._context
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
            self._notify(work, Stopped(abandoned=True))

    def _finish(self, work: _Work) -> None:
        if work.behaviour.fails:
            self._end(
                work, SimulatedEnd.FAILED, Failed("SimulatedFailure: it was to be", ("SimulatedFailure", "Exception"))
            )
        else:
            holds_up_for = 0.0 if work.is_over else work.behaviour.holds_up_for
            self._end(work, SimulatedEnd.SUCCEEDED, Succeeded(result_of(work.run.attempt)))
            if holds_up_for:
                self._hold_up(self._process, holds_up_for)

    def _end(self, work: _Work, ending: SimulatedEnd, outcome: Outcome | None) -> None:
        if work.timer is not None:
            work.timer.cancel()
        del self._works[work.run.attempt]
        self._log.end(work.run, self._clock(), ending)
        self._note(ending, work.run)
        if outcome is not None and not work.is_over:
            work.is_over = True
            self._notify(work, outcome)

    def _notify(self, work: _Work, outcome: Outcome) -> None:
        """Report an end in a separate callback, never inside the call that caused it."""
        assert self._report is not None, "an executor is opened before it is used"
        with in_process(self._process):
            if self._process.state is ProcessState.HELD_UP:  # a thread reports at once; the loop reads it later
                self._report([Ended(work.run.attempt, outcome)])
            else:
                asyncio.get_running_loop().call_soon(self._report, [Ended(work.run.attempt, outcome)])

    def _die(self) -> None:
        """End all attempts because the process has crashed."""
        works, self._works = self._works, {}
        for work in works.values():
            if not work.was_called:
                continue
            self._log.end(work.run, self._clock(), SimulatedEnd.DIED)
            self._note(SimulatedEnd.DIED, work.run)

    def _note(self, what: str, run: SimulatedRun) -> None:
        self._history.note(self._process.incarnation, what, run.name)


def result_of(attempt: AttemptKey) -> str:
    """Return the result of a successful attempt: its own name, so a row shows which attempt's result it has."""
    return f'"{attempt.ref}/{attempt.place}/{attempt.number}"'
