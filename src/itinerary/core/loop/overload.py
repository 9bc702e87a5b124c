"""Overload detection: whether a node starts its runs in time, and if not, why.

    look ── look ── late ── late ──► node.behind ── … ── in time ── in time ──► node.on_time_again
                                        └─ again every minute while it lasts

A node is *behind* if a due run has not started for `BEHIND_MIN`, at two looks in a row. Looks are five seconds apart,
so an operator is notified within 20 seconds. A short delay that the node makes up for by itself is not reported. A run
that waits for a limit, or for another run of its job, does not count.

The bottleneck is decided from measurements between two looks, never guessed:

    cpu      the thread of the loop ran, or was ready to run, nearly all the time; or threads of the process were ready
             and waited for a core half of the time; or slots were free and the process used a core
    slots    no slot of the node was free while due runs waited for one
    store    a call to the store was in progress nearly all the time
    unknown  none of these
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from itinerary.model.overload import Bottleneck, OverloadExtent
from itinerary.schedules.durations import SECOND

__all__ = [
    "BEHIND_MIN",
    "LOOK_EVERY",
    "REPEAT_AFTER",
    "LoadMeasurement",
    "OnTimeAgain",
    "OverloadDetector",
    "bottleneck",
]

LOOK_EVERY: Final = 5 * SECOND
BEHIND_MIN: Final = 5 * SECOND
"""How long a run may be due and not started."""
REPEAT_AFTER: Final = 60 * SECOND
"""The interval between two reminders for an operator."""
_LOOKS: Final = 2
"""The number of looks in a row that must agree."""
_LOOP_FULL: Final = 0.85
_CORE_FULL: Final = 0.9
_WAITED_LONG: Final = 0.5
_SLOTS_FULL: Final = 0.8
_STORE_FULL: Final = 0.8
"""Fractions of the time between two looks."""


class LoadMeasurement(NamedTuple):
    """Measurements since the last look. Fractions are between 0 and 1, or above."""

    oldest_due_at: int | None
    """The due time of the oldest run that is due and has not started; None if there is none."""
    waiting: int
    slots: float = 0.0
    """The fraction of moments at which no slot was free and due runs waited for one."""
    loop: float = 0.0
    """The fraction of time in which the thread of the loop ran, or was ready to run."""
    process: float = 0.0
    """The number of cores that the process used."""
    waited: float = 0.0
    """The fraction of time in which threads of the process were ready and had no core, added up over threads."""
    store: float = 0.0
    """The fraction of time in which a call to the store was in progress."""


class OnTimeAgain(NamedTuple):
    """The end of an overload: its duration and the worst delay, in microseconds."""

    lasted: int
    worst: int


class OverloadDetector:
    """Overload detector of one node."""

    def __init__(self) -> None:
        self.behind: OverloadExtent | None = None
        """The current overload of the node; None if its runs start in time."""
        self._late = self._in_time = 0
        self._since = 0
        self._worst = self._said_at = 0

    def look(self, now: int, measured: LoadMeasurement) -> OverloadExtent | OnTimeAgain | None:
        """Evaluate one look. Return the change to report, if there is one."""
        by = 0 if measured.oldest_due_at is None else max(now - measured.oldest_due_at, 0)
        if by < BEHIND_MIN:
            self._late, self._in_time = 0, self._in_time + 1
            return self._over(now, by, measured) if self.behind is not None else None
        if not self._late and self.behind is None:
            self._since, self._worst = measured.oldest_due_at or now, 0
        self._late, self._in_time = self._late + 1, 0
        self._worst = max(self._worst, by)
        if self._late < _LOOKS and self.behind is None:
            return None
        is_new = self.behind is None
        self.behind = OverloadExtent(self._since, by, measured.waiting, bottleneck(measured))
        if not is_new and self._said_at <= now < self._said_at + REPEAT_AFTER:
            return None
        self._said_at = now
        return self.behind

    def _over(self, now: int, by: int, measured: LoadMeasurement) -> OnTimeAgain | None:
        if self._in_time < _LOOKS:
            assert self.behind is not None, "only the end of something is looked at twice"
            self.behind = msgspec.structs.replace(self.behind, by=by, waiting=measured.waiting)
            return None
        self.behind = None
        return OnTimeAgain(max(now - self._since, 0), self._worst)


def bottleneck(measured: LoadMeasurement) -> Bottleneck:
    """Return the bottleneck of a node, from the measurements."""
    has_slots = measured.slots < _SLOTS_FULL
    is_starved = measured.loop >= _LOOP_FULL or measured.waited >= _WAITED_LONG
    if is_starved or (has_slots and measured.process >= _CORE_FULL):
        return Bottleneck.CPU
    if not has_slots:
        return Bottleneck.SLOTS
    return Bottleneck.STORE if measured.store >= _STORE_FULL else Bottleneck.UNKNOWN
