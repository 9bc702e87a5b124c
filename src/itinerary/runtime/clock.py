"""The store's time, as a node can know it (protocol rule 23).

A node has its own clock, which only goes forward and includes the sleep of the machine. Every answer of the store has a
timestamp from some moment before the answer arrived. The store's time is therefore at least that timestamp, and its
difference from the node's own clock is a lower bound. The clock uses the best of the last few bounds, so nothing starts
early by this clock.

    asked                      answered
      ├──── the store's time ────┤          the timestamp is from some moment in this interval

A measurement may contradict the known time by more than two seconds. Then a clock was set, and the measurement is not
accepted at once. Until three measurements in a row agree, the time is `in doubt`, and callers get the old time. An
answer that was only delayed is a weak bound, but no contradiction.

The machine's clock should never go back, but can do so when a virtual machine moves to another host. All deadlines
would then lie too far ahead. The node's clock stands still for a moment instead, and continues from there. The node
records this like any other jump (N6), but has to postpone nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from itinerary.schedules.durations import SECOND

__all__ = ["StoreClock", "awake_time", "boot_time"]

_REMEMBERED: Final = 12
_FAR: Final = 2 * SECOND
_ENOUGH: Final = 3


def boot_time() -> int:
    """Return the microseconds since the machine started, sleep included. Systems without such a clock exclude sleep."""
    return time.clock_gettime_ns(_BOOT_TIME) // 1_000


def awake_time() -> int:
    """Return the microseconds since some moment, without the time that the machine slept."""
    return time.monotonic_ns() // 1_000


_BOOT_TIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class StoreClock:
    """A `ports.Clock` that is set by the answers of a store."""

    def __init__(self, elapsed: Callable[[], int] = boot_time, awake: Callable[[], int] | None = None) -> None:
        """Create a clock that does not know the store's time yet.

        Args:
            elapsed: The machine's clock, which includes sleep.
            awake: A clock of the machine that stands still while the machine sleeps.
        """
        self._elapsed, self._awake = elapsed, awake
        self._latest, self._behind = elapsed(), 0
        self._looked_at = (0, 0)
        """At the last call of `went_back_by`: how far the machine's clock was behind, and the store ahead of the
        machine."""
        self._offsets: deque[int] = deque(maxlen=_REMEMBERED)
        self._strange: list[int] = []
        self._offset: int | None = None

    def elapsed(self) -> int:
        elapsed = self._elapsed() + self._behind
        if elapsed < self._latest:
            self._behind += self._latest - elapsed
            return self._latest
        self._latest = elapsed
        return elapsed

    def awake(self) -> int:
        """Return the time since some moment in the past, without sleep if a clock of the machine supports that."""
        return self.elapsed() if self._awake is None else self._awake()

    def now(self) -> int:
        assert self._offset is not None, "the store was asked for the time"
        return self.elapsed() + self._offset

    def went_back_by(self) -> int:
        """Return by how much the machine's clock has gone back since the last call: 0 if only a little or not at all.

        Call this after an answer of the store. The time between the last reading of the clock and its step back is lost
        on this node, and the store knows it.
        """
        assert self._offset is not None, "the store was asked for the time"
        (behind, ahead), self._looked_at = self._looked_at, (self._behind, self._behind + self._offset)
        return self._looked_at[1] - ahead if self._behind - behind > _FAR else 0

    @property
    def is_in_doubt(self) -> bool:
        """True if measurements disagree."""
        return bool(self._strange)

    def observe(self, store_now: int, asked_at: int | None = None) -> int:
        """Use the timestamp of an answer to measure the store's time.

        Args:
            store_now: The store's time in the answer.
            asked_at: When the question was sent, by the node's own clock; None for just now.

        Returns:
            By how much the time has changed: 0, unless this measurement confirms a jump.
        """
        elapsed = self.elapsed()
        offset, at_most = store_now - elapsed, store_now - (elapsed if asked_at is None else asked_at)
        if self._offset is None:
            self._adopt([offset])
            self._looked_at = (self._behind, self._behind + offset)
            return 0
        if offset - _FAR <= self._offset <= max(at_most, offset) + _FAR:
            self._strange.clear()
            if offset > self._offset or at_most - offset <= _FAR:
                self._offsets.append(offset)
                self._offset = max(self._offsets)
            return 0
        if self._strange and abs(offset - self._strange[-1]) > _FAR:
            self._strange.clear()
        self._strange.append(offset)
        if len(self._strange) < _ENOUGH:
            return 0
        before = self._offset
        self._adopt(self._strange)
        return self._offset - before

    def move(self, by: int) -> None:
        """Move the store's time ahead without any measurement: a test moves its clock."""
        assert self._offset is not None, "the store was asked for the time"
        self._adopt([offset + by for offset in self._offsets])
        self._looked_at = (self._behind, self._behind + self._offset)

    def _adopt(self, offsets: list[int]) -> None:
        self._offsets = deque(offsets, maxlen=_REMEMBERED)
        self._offset = max(offsets)
        self._strange = []
