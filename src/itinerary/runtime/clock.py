"""What time it is at the store, as a node can know it (protocol rule 23).

A node has a clock of its own that only goes forward, sleep of the machine included. Each answer of the store says what
time it was there, at some moment before the answer came: so the store's time is at least that, and the difference to
the node's own clock is a lower bound. The best of the last few is used. Nothing starts early by such a clock.

    asked                      answered
      ├──── the store's time ────┤          somewhere in here it was what the answer says

A measurement that cannot be true if the time that is known here is, give or take two seconds, is not believed at once:
somebody has set one of the clocks. Until three in a row agree, time is `in doubt`, and whoever asks is told the old
one. An answer that was only held up for long says little, but nothing that is strange.

The machine's clock should never go back, and may do so all the same when a virtual machine moves to another host. Times
that are waited for would lie ahead by as much: so here it stands still for a moment instead, and goes on from there.
That is on record like any other jump (N6), though nothing has to be put off for it.
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
    """Microseconds since the machine started, sleep included; where there is no such clock, without sleep."""
    return time.clock_gettime_ns(_BOOT_TIME) // 1_000


def awake_time() -> int:
    """Microseconds since some moment, without the time that the machine slept."""
    return time.monotonic_ns() // 1_000


_BOOT_TIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class StoreClock:
    """A `ports.Clock` that is set by the answers of a store."""

    def __init__(self, elapsed: Callable[[], int] = boot_time, awake: Callable[[], int] | None = None) -> None:
        """`awake` is a clock of the machine that stands still while it sleeps, as the other one does not."""
        self._elapsed, self._awake = elapsed, awake
        self._latest, self._behind = elapsed(), 0
        self._looked_at = (0, 0)
        """How far it was behind, and the store ahead of the machine, when somebody asked whether it had gone back."""
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
        """Time since some moment in the past, without the sleep of the machine, if there is a clock that knows."""
        return self.elapsed() if self._awake is None else self._awake()

    def now(self) -> int:
        assert self._offset is not None, "the store was asked for the time"
        return self.elapsed() + self._offset

    def went_back_by(self) -> int:
        """By how much the machine's clock has gone back since this was last asked: 0, if not by much.

        To be asked after an answer of the store: what passed between the last look at the clock and its step back is
        lost here, and the store knows it.
        """
        assert self._offset is not None, "the store was asked for the time"
        (behind, ahead), self._looked_at = self._looked_at, (self._behind, self._behind + self._offset)
        return self._looked_at[1] - ahead if self._behind - behind > _FAR else 0

    @property
    def is_in_doubt(self) -> bool:
        """Whether measurements disagree."""
        return bool(self._strange)

    def observe(self, store_now: int, asked_at: int | None = None) -> int:
        """An answer has come that was given at this time of the store, to a question that was asked at `asked_at` of
        the node's own clock; None: just now. Returns by how much the time has changed: 0, unless a jump has just been
        confirmed."""
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
        """The store's time has been moved ahead by so much, and nobody has to find out: a test moves its clock."""
        assert self._offset is not None, "the store was asked for the time"
        self._adopt([offset + by for offset in self._offsets])
        self._looked_at = (self._behind, self._behind + self._offset)

    def _adopt(self, offsets: list[int]) -> None:
        self._offsets = deque(offsets, maxlen=_REMEMBERED)
        self._offset = max(offsets)
        self._strange = []
