"""Executor reports that wait until there is time for them: when many runs start, starts come before ends.

Ten thousand occurrences that are due together begin in batches, and the first have ended long before the last begins.
To process these ends costs as much as the starts, so the last starts would be twice as late. So while hundreds of
starts are to be written, reports wait, for half a second at most. Their wait ends when all these starts are written and
the last ones have had a moment to begin. Then reports are processed in portions, so that the next message does not wait
for all of them. With fewer starts an end does not wait at all: other runs may depend on it (protocol rule 10).

A node that was stopped and catches up is different. Its late runs wait for the ends of earlier ones (`turns`), so an
end is as important as a start. Reports do not wait while any run does.

The wait never causes a wrong decision. All waiting reports are processed first when a timer is due, or when a message
arrives that is not in `_CAN_WAIT_FOR`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from itinerary.core.loop import lifecycle
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.messages import (
    AttemptsReported,
    ClaimsAnswered,
    Heartbeats,
    Message,
    StartsAnswered,
    WritesAnswered,
)
from itinerary.core.loop.state import SchedulerState
from itinerary.model.attempts import Report
from itinerary.schedules.durations import SECOND

__all__ = ["ReportQueue"]

HELD_MAX: Final = SECOND // 2
AT_ONCE: Final = 1_024
HERD: Final = 512
"""The number of starts to be written from which on reports wait."""
_CAN_WAIT_FOR: Final = (StartsAnswered, AttemptsReported, ClaimsAnswered, WritesAnswered, Heartbeats)
"""Messages that may be processed before waiting reports: none of them changes a running attempt."""


class ReportQueue:
    """Executor reports that are not processed yet."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Report] = deque()
        self._since = 0
        self._is_herd = False
        """True if reports wait until the last of many starts is written."""
        self._is_launching = False
        """True if these starts are written, and the last of them are about to begin."""

    def put(self, reports: Sequence[Report], now: int) -> None:
        """Add reports to the queue."""
        if not self._waiting:
            self._since = now
        self._waiting.extend(reports)

    @property
    def at(self) -> int | None:
        """When the reports are processed, if nothing happens before."""
        if not self._waiting:
            return None
        if self._is_herd:
            return self._since + HELD_MAX
        return self._scheduler.launching_until if self._is_launching else 0

    @property
    def can_go_on(self) -> bool:
        """True if there are reports that need not wait."""
        return bool(self._waiting) and not self._is_herd and not self._is_launching

    def before(self, message: Message, now: int, out: CommandBatch) -> None:
        """Process all waiting reports, if the message must not be processed before them."""
        if self._waiting and not isinstance(message, _CAN_WAIT_FOR):
            self._take(len(self._waiting), now, out)

    def take_up(self, now: int, out: CommandBatch) -> None:
        """Process the reports that must not wait longer."""
        scheduler, was_herd = self._scheduler, self._is_herd
        starts = scheduler.starting + scheduler.ready
        self._is_herd = (starts >= HERD or (was_herd and starts > 0)) and not scheduler.turns.waiting
        has_ended = was_herd and not self._is_herd
        self._is_launching = (has_ended or self._is_launching) and scheduler.is_launching(now)
        if not self._waiting:
            return
        alarm_at, is_held = scheduler.alarms.next_at, self._since <= now < self._since + HELD_MAX
        if alarm_at is not None and alarm_at <= now:
            self._take(len(self._waiting), now, out)
        elif not (is_held and (self._is_herd or self._is_launching)):
            self._take(AT_ONCE, now, out)

    def _take(self, count: int, now: int, out: CommandBatch) -> None:
        for _ in range(min(count, len(self._waiting))):
            self._take_one(self._waiting.popleft(), now, out)
        self._since = now

    def _take_one(self, report: Report, now: int, out: CommandBatch) -> None:
        run = self._scheduler.live.get(report.key.ref)
        if run is not None and lifecycle.reported(run, report, now, out):
            self._scheduler.after(run, now, out)
        else:
            out.log(LogLevel.INFO, "attempt.late_report", attempt=tuple(report.key), report=type(report).__name__)
