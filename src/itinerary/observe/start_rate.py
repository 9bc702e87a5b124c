"""The start rate of a node: the number of starts and their lateness, for each ten seconds of the last ten minutes.

    engine's thread      hear(news) ──► set a batch aside              one append, for any number of events
    a reader             beats(now) ──► count all waiting batches, and forget the old

As with the metrics (see `counters`), the engine does not count, unless too many events wait because there is no reader.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from itinerary.core.loop.events import OccurrenceStarted, SchedulerEvent
from itinerary.model.occurrence import Kind
from itinerary.observe.counters import LATENESS, Histogram
from itinerary.schedules.durations import SECOND

__all__ = ["BEAT", "BEATS", "RateInterval", "StartRate"]

BEAT: Final = 10 * SECOND
BEATS: Final = 60
"""The number of intervals that are kept: ten minutes."""
_WAITING_MAX: Final = 20_000
"""The maximum number of events that wait to be counted."""
_NEARLY_ALL: Final = 0.99


class RateInterval(msgspec.Struct, frozen=True):
    """An interval of ten seconds."""

    at: int
    """The start of the interval."""
    starts: int
    late_for: int | None
    """The 99th percentile of start lateness, in microseconds; None: no scheduled occurrence started.

    The value is the upper bound of a histogram bucket, so it is approximate and not too low.
    """


class StartRate:
    """The starts of a node, by interval."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[SchedulerEvent]] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._starts: dict[int, int] = {}
        self._lateness: dict[int, Histogram] = {}

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Set events aside. Called on the engine's loop."""
        self._batches.append(news)
        self._waiting += len(news)
        if self._waiting > _WAITING_MAX:
            with self._lock:
                self._count()

    def beats(self, now: int) -> list[RateInterval]:
        """Return the last ten minutes, the oldest first, without the current interval."""
        last = now // BEAT
        with self._lock:
            self._count()
            for number in [number for number in self._starts if number < last - BEATS]:
                del self._starts[number]
                self._lateness.pop(number, None)
            return [self._beat(number) for number in range(last - BEATS, last)]

    def _beat(self, number: int) -> RateInterval:
        late = self._lateness.get(number)
        return RateInterval(number * BEAT, self._starts.get(number, 0), None if late is None else _nearly_all(late))

    def _count(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._waiting = max(self._waiting - len(batch), 0)
            for item in batch:
                if type(item) is OccurrenceStarted:
                    number = item.started_at // BEAT
                    self._starts[number] = self._starts.get(number, 0) + 1
                    if item.recovery is None and item.key.kind is Kind.SCHEDULED:
                        if number not in self._lateness:
                            self._lateness[number] = Histogram(LATENESS)
                        self._lateness[number].add(item.started_at - item.due_at)
        for number in sorted(self._starts)[: -2 * BEATS]:  # without a reader, old intervals would accumulate
            del self._starts[number]
            self._lateness.pop(number, None)


def _nearly_all(histogram: Histogram) -> int:
    """Return the upper bound of the bucket with the 99th percentile; beyond the last bound, that bound."""
    wanted, seen = sum(histogram.counts) * _NEARLY_ALL, 0
    for bound, count in zip(histogram.buckets, histogram.counts, strict=False):
        seen += count
        if seen >= wanted:
            return bound
    return histogram.buckets[-1]
