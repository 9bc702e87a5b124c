"""What executors report, taken up when there is time for it: in a herd, starts come before ends.

Ten thousand occurrences that are due together begin one batch after another, and the first have ended long before the
last has begun. To work off these ends costs as much as the starts do, so it would make the last ones twice as late. So
while hundreds of starts are to be written reports wait, until all of these are and the last have had a moment to begin,
but half a second at the most; and then they are taken up some at a time, so that whatever comes next does not wait for
all of them. With fewer starts an end is
not held up at all: what follows it may depend on it (protocol rule 10).

A node that was stopped catches up: then late runs wait for the ends of earlier ones (`turns`), and an end is worth as
much as a start. So reports do not wait while any run does.

Nothing is judged wrongly for that: as soon as time has come for anything, or anybody asks or tells anything but how
starts, claims and writes went, all that has been reported is taken up before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from itinerary.core.loop import lifecycle
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.messages import (
    AttemptsReported,
    ClaimsAnswered,
    Heartbeats,
    Message,
    StartsAnswered,
    WritesAnswered,
)
from itinerary.core.loop.state import Board
from itinerary.model.attempts import Report
from itinerary.schedules.durations import SECOND

__all__ = ["Reports"]

HELD_MAX: Final = SECOND // 2
AT_ONCE: Final = 1_024
HERD: Final = 512
"""So many starts that are to be written are worth it."""
_CAN_WAIT_FOR: Final = (StartsAnswered, AttemptsReported, ClaimsAnswered, WritesAnswered, Heartbeats)
"""Messages that reports may stay behind: none of them says anything about an attempt that runs."""


class Reports:
    """What has been reported, and is not taken up yet."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._waiting: deque[Report] = deque()
        self._since = 0
        self._is_herd = False
        """Whether so many starts were to be written that reports wait for the last of them."""
        self._is_launching = False
        """Whether these are written, and the last of them are about to begin."""

    def put(self, reports: Sequence[Report], now: int) -> None:
        """Some more."""
        if not self._waiting:
            self._since = now
        self._waiting.extend(reports)

    @property
    def at(self) -> int | None:
        """When they are taken up, if nothing happens before."""
        if not self._waiting:
            return None
        if self._is_herd:
            return self._since + HELD_MAX
        return self._board.launching_until if self._is_launching else 0

    @property
    def can_go_on(self) -> bool:
        """Whether some wait that need not."""
        return bool(self._waiting) and not self._is_herd and not self._is_launching

    def before(self, message: Message, now: int, out: Outbox) -> None:
        """Take up all of them, if this is a message that they must not stay behind."""
        if self._waiting and not isinstance(message, _CAN_WAIT_FOR):
            self._take(len(self._waiting), now, out)

    def take_up(self, now: int, out: Outbox) -> None:
        """Take up what should not wait any longer."""
        board, was_herd = self._board, self._is_herd
        starts = board.starting + board.ready
        self._is_herd = (starts >= HERD or (was_herd and starts > 0)) and not board.turns.waiting
        has_ended = was_herd and not self._is_herd
        self._is_launching = (has_ended or self._is_launching) and board.is_launching(now)
        if not self._waiting:
            return
        alarm_at, is_held = board.alarms.next_at, self._since <= now < self._since + HELD_MAX
        if alarm_at is not None and alarm_at <= now:
            self._take(len(self._waiting), now, out)
        elif not (is_held and (self._is_herd or self._is_launching)):
            self._take(AT_ONCE, now, out)

    def _take(self, count: int, now: int, out: Outbox) -> None:
        for _ in range(min(count, len(self._waiting))):
            self._take_one(self._waiting.popleft(), now, out)
        self._since = now

    def _take_one(self, report: Report, now: int, out: Outbox) -> None:
        course = self._board.live.get(report.key.ref)
        if course is not None and lifecycle.reported(course, report, now, out):
            self._board.after(course, now, out)
        else:
            out.log(Level.INFO, "attempt.late_report", attempt=tuple(report.key), report=type(report).__name__)
