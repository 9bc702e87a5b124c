"""Timers of occurrences, and the queue for slots of the node.

Finished occurrences leave the timer queue at once instead of at their timeout. The slot queue never removes an entry
from the middle: an entry whose occurrence no longer waits is skipped when its turn comes.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import Final

from itinerary.core.loop.occurrence import OccurrenceRun

__all__ = ["SlotQueue", "TimerQueue"]

_STALE_MAX: Final = 1_000
"""The most times without occurrences that the heap keeps, before it is rebuilt."""


class TimerQueue:
    """Timer queue: occurrences by the time at which they need attention. Each timer fires once."""

    __slots__ = ("_at", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        """A heap. Some of its times have no occurrences left."""
        self._at: dict[int, dict[OccurrenceRun, None]] = {}

    def put(self, at: int, run: OccurrenceRun) -> None:
        """Wake an occurrence at that time. Many occurrences share a time, so the heap holds times."""
        runs = self._at.get(at)
        if runs is None:
            runs = self._at[at] = {}
            heapq.heappush(self._times, at)
        runs[run] = None

    def drop(self, at: int, run: OccurrenceRun) -> None:
        """Remove the timer of an occurrence at that time, if there is one."""
        runs = self._at.get(at)
        if runs is None or run not in runs:
            return
        del runs[run]
        if not runs:
            del self._at[at]
            if len(self._times) > _STALE_MAX + 2 * len(self._at):
                self._times = sorted(self._at)  # a sorted list is a heap

    def due(self, now: int) -> list[OccurrenceRun]:
        """Remove and return the occurrences whose time has come, in order."""
        found: list[OccurrenceRun] = []
        while self._times and self._times[0] <= now:
            found += self._at.pop(heapq.heappop(self._times), ())
        return found

    @property
    def next_at(self) -> int | None:
        """The earliest time in the queue, or None."""
        while self._times and self._times[0] not in self._at:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))


class SlotQueue:
    """The slots of a node, and the queue for them: by priority, then by instant (X1).

    Many occurrences share an instant. So occurrences of one priority and instant form a group in order of arrival, and
    only the groups are sorted.
    """

    __slots__ = ("_groups", "_length", "_numbers", "_order", "free")

    def __init__(self, slots: int) -> None:
        self.free = slots
        """The number of free slots; negative while more are held than the settings now allow."""
        self._groups: dict[tuple[int, int], deque[tuple[int, OccurrenceRun]]] = {}
        self._order: list[tuple[int, int]] = []
        self._numbers = count(1)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, run: OccurrenceRun, now: int) -> None:
        """Add an occurrence to the queue."""
        assert not run.place, "it waits already"
        run.lined_up_at, run.place = now, next(self._numbers)
        self._length += 1
        order = (-run.start_config.config.job.priority, run.key.instant)
        group = self._groups.get(order)
        if group is None:
            group = self._groups[order] = deque()
            heapq.heappush(self._order, order)
        group.append((run.place, run))

    def leave(self, run: OccurrenceRun) -> None:
        """Remove an occurrence from the queue. Its entry stays, and is skipped when its turn comes."""
        if run.place:
            run.lined_up_at = run.place = 0
            self._length -= 1

    def take(self) -> OccurrenceRun | None:
        """Give a free slot to the next occurrence in the queue, and return it. Return None if there is none."""
        while self._order and self.free > 0:
            group = self._groups[self._order[0]]
            if not group:
                del self._groups[heapq.heappop(self._order)]
                continue
            number, run = group.popleft()
            if run.place == number:
                self.leave(run)
                run.holds_slot = True
                self.free -= 1
                return run
        return None

    @property
    def ready(self) -> int:
        """The number of waiting occurrences for which a slot is free."""
        return max(0, min(self._length, self.free))

    def release(self, run: OccurrenceRun) -> None:
        """Give back the slot of an occurrence, if it has one."""
        if run.holds_slot:
            run.holds_slot = False
            self.free += 1

    def places(self) -> list[OccurrenceRun]:
        """Return the waiting occurrences in order, for display."""
        groups = [self._groups[order] for order in sorted(self._order)]
        return [run for group in groups for number, run in group if run.place == number]
