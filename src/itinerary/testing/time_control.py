"""How time passes for a test node.

    the node has work       the loop runs, one second of virtual time after the other
    the node is idle        time is skipped: to the next timer of a task, or to a second before the next
                            instant, timeout or retry

The loop runs in the calling thread. Inside a coroutine, where a loop already runs, it runs in a separate thread while
the caller waits. So a test node works in both kinds of tests.

The danger is a skip over something that was due. So a skip ends before the first of these: an instant of the timeline,
a timer of the core, a timer of a task. Nothing is skipped while a node has to poll: for dead nodes, for unowned
occurrences, for notifications.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from itinerary.api import Itinerary
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ClockError, WindowError
from itinerary.node.thread import NodeThread
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import LATEST
from itinerary.signal_safe_wait import join_thread
from itinerary.testing.environment import TestNodeEnvironment
from itinerary.testing.test_node_loop import TestNodeLoop

__all__ = ["ClockControl", "looks_ahead"]

_STEP: Final = SECOND
"""The step of the loop between two checks for work."""
_LEAD: Final = SECOND
"""How long before an instant a skip ends."""
_REACHES: Final = tuple(hours * 3_600 * SECOND for hours in (24, 720, 9_600, 96_000, 960_000))
_WAITS_FOR: Final = 86_400 * SECOND
"""The limit for an answer, in virtual time."""
_FOREVER: Final = 2**62


class _Ahead(NamedTuple):
    """The instants of a window that will run, in order, by a timeline."""

    timeline: Timeline
    start: int
    end: int
    instants: list[int]


class ClockControl:
    """The loop of a test node, and its control."""

    def __init__(self, app: Itinerary, begins_at: int, patience: float) -> None:
        self._app = app
        self.loop = TestNodeLoop(patience)
        self.environment = TestNodeEnvironment(self.loop, begins_at, self._asked)
        self.engine: NodeThread | None = None
        """The running node thread."""
        self.is_closed = False
        self._is_turning = False
        self._ahead: _Ahead | None = None

    # -- let time pass -----------------------------------------------------------------------------------------------

    def go(self, target: int) -> None:
        """Run everything up to a time."""
        self._turn(lambda: self._go(target, _never))

    def wait(self, is_over: Callable[[], bool], limit: int = _WAITS_FOR) -> None:
        """Let time pass until `is_over` is true or the limit is reached."""
        self._turn(lambda: self._go(self.environment.now() + limit, is_over))

    def close(self) -> None:
        """End everything that is unfinished."""
        self.is_closed = True
        try:
            _elsewhere(self.loop.end)
        finally:
            self.environment.close()

    def check(self) -> None:
        """Raise ClockError if the caller cannot move the clock."""
        self.check_open()
        if self._is_turning:
            raise ClockError("the clock is moved by the test, and a task cannot do so while it runs")

    def check_open(self) -> None:
        """Raise ClockError if the test node has ended."""
        if self.is_closed:
            raise ClockError("this test node is closed; start another one with itinerary_clock(app)")

    def _asked(self, answer: Future[Any]) -> None:
        """Handle a request to the app: from a task in a thread while the loop runs, or from the test."""
        if self._is_turning:
            self.loop.owes(answer)
        else:
            self.wait(answer.done)

    def _turn(self, work: Callable[[], None]) -> None:
        self.check()
        self._is_turning = True
        try:
            _elsewhere(work)
        finally:
            self._is_turning = False

    def _go(self, target: int, is_over: Callable[[], bool]) -> None:
        while True:
            self.loop.move(self.loop.time(), is_over)  # run what needs no time
            self._complain()
            if is_over() or self.environment.now() >= target:
                return
            self._skip(target)
            until = min(target, self.environment.now() + _STEP)
            self.loop.move(self.environment.seconds(until), is_over)

    def _complain(self) -> None:
        """Raise an error that the test must see."""
        if self.loop.refusal is not None:
            refusal, self.loop.refusal = self.loop.refusal, None
            raise refusal
        if self.engine is not None and self.engine.ended.done() and (failure := self.engine.failure()) is not None:
            raise failure

    # -- skip --------------------------------------------------------------------------------------------------------

    def _skip(self, target: int) -> None:
        """Skip the time in which the node is idle."""
        now = self.environment.now()
        until = min(target - self._settling, self._next_due(now, target) - _LEAD, self._next_alarm)
        if until <= now:
            return
        by = min(self.environment.seconds(until), self.loop.next_of_the_test()) - self.loop.time()
        if by * SECOND <= self._worth_skipping:
            return
        self.loop.skip(by)
        self.environment.skipped += by
        if self.engine is not None:
            self.engine.node.clock.move(round(by * SECOND))
            self.engine.node.builder.rebuild("the test has moved the clock")

    @property
    def _settling(self) -> int:
        """How long before the target a skip ends: time for a sweep, which records the skipped instants."""
        settings = self._app.configuration.settings
        return settings.node_heartbeat_interval + settings.takeover_after + _LEAD

    @property
    def _worth_skipping(self) -> int:
        """The minimum length of a skip.

        While an occurrence runs, a skip is longer than a heartbeat interval. Then the core takes the orchestrators for
        suspended with the node, and not for dead.
        """
        settings = self._app.configuration.settings
        return 0 if self.environment.engine.is_idle else settings.orchestrator_heartbeat_interval + _LEAD

    @property
    def _next_alarm(self) -> int:
        """The time until which active occurrences need no work of the node; 0 if they need it now."""
        engine = self.engine
        if self.loop.is_busy or (engine is not None and engine.has_desks):
            return 0
        if engine is None:
            return 0 if self._app.is_running else _FOREVER  # no skip while a node is starting
        if self.environment.engine.is_idle:
            return _FOREVER
        node = engine.node
        assert node.number is not None, "a node that has started has joined"
        if node.backlog[0] or not self.environment.engine.is_in_hand(node.number):
            return 0
        at = node.scheduler.next_at
        return _FOREVER if at is None else at - _LEAD

    def _next_due(self, now: int, until: int) -> int:
        """Return the next instant that will run, or a time before which there is none."""
        if self.engine is None:
            return _FOREVER
        timeline, known = self.engine.desk.timeline, self._ahead
        if known is None or known.timeline is not timeline or not known.start <= now < known.end:
            known = self._ahead = _looked_ahead(timeline, now, until)
        place = bisect_right(known.instants, now)
        return known.instants[place] if place < len(known.instants) else known.end


def looks_ahead(now: int) -> Iterator[int]:
    """Yield the ends of growing look-ahead windows. The first is short, since most jobs run often."""
    for reach in _REACHES:
        yield min(now + reach, LATEST * SECOND)


def _looked_ahead(timeline: Timeline, now: int, until: int) -> _Ahead:
    """Return the instants after now, up to the first window with an instant or beyond `until`.

    The window stays short if it has too many skipped instants.
    """
    found = _Ahead(timeline, now, now + _STEP, [])
    for end in looks_ahead(now):
        try:
            expected = timeline.expected(now + 1, end)
        except WindowError:
            return found
        found = _Ahead(timeline, now, end, sorted(set(expected.instants[expected.is_to_run].tolist())))
        if found.instants or end > until:
            return found
    return found._replace(end=_FOREVER)


def _never() -> bool:
    return False


def _elsewhere(work: Callable[[], None]) -> None:
    """Run `work`, which runs the loop: here or, if a loop already runs, in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
        return
    over: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller
            over.set_exception(error)
        else:
            over.set_result(None)

    thread = threading.Thread(target=run, name="itinerary-test-node", daemon=True)
    thread.start()
    join_thread(thread)
    over.result()
