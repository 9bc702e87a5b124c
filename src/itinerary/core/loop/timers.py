"""Times at which something is to be done, and who waits for a slot of the node.

Whoever is over leaves the agenda: an occurrence that took a millisecond is not kept for the minutes that it might have
taken. Of the line an entry is never taken out of the middle: what has become of a course is looked at when its turn
comes, and one that has nothing to do any more is passed over.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import Final

from itinerary.core.loop.occurrence import Course

__all__ = ["Agenda", "Line"]

_STALE_MAX: Final = 1_000
"""Times of which nobody is left, before an agenda is rid of them."""


class Agenda:
    """Courses by the time at which something is to be done about them; each is woken once for each time."""

    __slots__ = ("_at", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        """A heap; of some of these times nobody is left."""
        self._at: dict[int, dict[Course, None]] = {}

    def put(self, at: int, course: Course) -> None:
        """Wake a course at that time. Many are due at one and the same: so the heap holds times, not courses."""
        courses = self._at.get(at)
        if courses is None:
            courses = self._at[at] = {}
            heapq.heappush(self._times, at)
        courses[course] = None

    def drop(self, at: int, course: Course) -> None:
        """Do not wake it at that time, if it was to be."""
        courses = self._at.get(at)
        if courses is None or course not in courses:
            return
        del courses[course]
        if not courses:
            del self._at[at]
            if len(self._times) > _STALE_MAX + 2 * len(self._at):
                self._times = sorted(self._at)  # a sorted list is a heap

    def due(self, now: int) -> list[Course]:
        """Those whose time has come, in order."""
        found: list[Course] = []
        while self._times and self._times[0] <= now:
            found += self._at.pop(heapq.heappop(self._times), ())
        return found

    @property
    def next_at(self) -> int | None:
        """The first time that is on it."""
        while self._times and self._times[0] not in self._at:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))


class Line:
    """The slots of a node, and who waits for one: by priority, then by instant (X1).

    Many are due at one and the same instant, so those of one priority and instant stand behind each other, and only
    these groups are kept in order.
    """

    __slots__ = ("_groups", "_length", "_numbers", "_order", "free")

    def __init__(self, slots: int) -> None:
        self.free = slots
        """Below nothing, while more are held than there are by now."""
        self._groups: dict[tuple[int, int], deque[tuple[int, Course]]] = {}
        self._order: list[tuple[int, int]] = []
        self._numbers = count(1)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, course: Course, now: int) -> None:
        """Let a course wait."""
        assert not course.place, "it waits already"
        course.lined_up_at, course.place = now, next(self._numbers)
        self._length += 1
        order = (-course.terms.config.job.priority, course.key.instant)
        group = self._groups.get(order)
        if group is None:
            group = self._groups[order] = deque()
            heapq.heappush(self._order, order)
        group.append((course.place, course))

    def leave(self, course: Course) -> None:
        """It does not wait any more. Its entry stays, and is passed over when its turn comes."""
        if course.place:
            course.lined_up_at = course.place = 0
            self._length -= 1

    def take(self) -> Course | None:
        """The next one, if there is a slot for it: it has it from now on."""
        while self._order and self.free > 0:
            group = self._groups[self._order[0]]
            if not group:
                del self._groups[heapq.heappop(self._order)]
                continue
            number, course = group.popleft()
            if course.place == number:
                self.leave(course)
                course.holds_slot = True
                self.free -= 1
                return course
        return None

    @property
    def ready(self) -> int:
        """How many wait for whom there is a slot."""
        return max(0, min(self._length, self.free))

    def release(self, course: Course) -> None:
        """Give back the slot of a course, if it has one."""
        if course.holds_slot:
            course.holds_slot = False
            self.free += 1

    def places(self) -> list[Course]:
        """Who waits, in order, for people to see."""
        groups = [self._groups[order] for order in sorted(self._order)]
        return [course for group in groups for number, course in group if course.place == number]
