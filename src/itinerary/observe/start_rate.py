"""The pulse of a node: how many occurrences it started, and how late, in each ten seconds of the last ten minutes.

    engine's thread      hear(news) ──► a batch, put aside             one append, however many there are
    who looks            beats(now) ──► every batch that waits is counted, and what is old is forgotten

As with the metrics (see `tally`), nothing is counted where it happens, unless nobody looks and too much waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.core.loop.events import Began, News
from itinerary.model.occurrence import Kind
from itinerary.observe.counters import LATENESS, Histogram
from itinerary.schedules.durations import SECOND

__all__ = ["BEAT", "BEATS", "Beat", "Pulse"]

BEAT: Final = 10 * SECOND
BEATS: Final = 60
"""How many beats are kept: ten minutes."""
_WAITING_MAX: Final = 20_000
"""How many news may wait to be counted."""
_NEARLY_ALL: Final = 0.99


class Beat(msgspec.Struct, frozen=True):
    """Ten seconds of a node."""

    at: int
    """When they began."""
    starts: int
    late_for: int | None
    """By how much the start of nearly all (99 of 100) was late at most, in microseconds; None: nothing started that was
    due then. It is read off a histogram, so it is near the truth and not below it."""


class Pulse:
    """Hears of everything that a node starts."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[News]] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._starts: dict[int, int] = {}
        self._lateness: dict[int, Histogram] = {}

    def hear(self, news: Sequence[News]) -> None:
        """On the engine's loop: put it aside."""
        self._batches.append(news)
        self._waiting += len(news)
        if self._waiting > _WAITING_MAX:
            with self._lock:
                self._count()

    def beats(self, now: int) -> list[Beat]:
        """The last ten minutes, the oldest first. The ten seconds that are not over are left out."""
        last = now // BEAT
        with self._lock:
            self._count()
            for number in [number for number in self._starts if number < last - BEATS]:
                del self._starts[number]
                self._lateness.pop(number, None)
            return [self._beat(number) for number in range(last - BEATS, last)]

    def _beat(self, number: int) -> Beat:
        late = self._lateness.get(number)
        return Beat(number * BEAT, self._starts.get(number, 0), None if late is None else _nearly_all(late))

    def _count(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._waiting = max(self._waiting - len(batch), 0)
            for item in batch:
                if type(item) is Began:
                    number = item.started_at // BEAT
                    self._starts[number] = self._starts.get(number, 0) + 1
                    if item.recovery is None and item.key.kind is Kind.SCHEDULED:
                        if number not in self._lateness:
                            self._lateness[number] = Histogram(LATENESS)
                        self._lateness[number].add(item.started_at - item.due_at)
        for number in sorted(self._starts)[: -2 * BEATS]:  # nobody looks, and time goes on
            del self._starts[number]
            self._lateness.pop(number, None)


def _nearly_all(histogram: Histogram) -> int:
    """The upper bound of the bucket in which the 99th of 100 lies; beyond the last bound, that bound."""
    wanted, seen = sum(histogram.counts) * _NEARLY_ALL, 0
    for bound, count in zip(histogram.buckets, histogram.counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return histogram.buckets[-1]
