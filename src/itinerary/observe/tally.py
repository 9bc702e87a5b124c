"""What a node tells, counted (U7).

    engine's thread        hear(news) ──► a batch, put aside                     one append, however many there are
    listener's thread      counted() ──► every batch that waits is counted

In a herd ten thousand occurrences begin and end in a second, and each is five numbers. They are not counted where they
happen: a batch is put aside as it is, and whoever publishes counts it a moment later. If nobody does, the batches are
counted where they come from as soon as too many wait.

**Labels are bounded.** The first `jobs_max` jobs that do something are counted by name, and all others together as
`(other)`; of tasks, twice as many.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar, assert_never

from itinerary.core.news import Began, Counted, Finished, News, Settled, Tried
from itinerary.model.occurrence import Kind
from itinerary.schedules.durations import SECOND

__all__ = ["DURATIONS", "LATENESS", "OTHER", "Histogram", "Tally"]

OTHER: Final = "(other)"
"""Every job, or task, that has no label of its own."""
DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0)
LATENESS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of buckets, in seconds."""
_WAITING_MAX: Final = 20_000
"""How many news may wait to be counted."""
_TASKS_A_JOB: Final = 2

K = TypeVar("K", bound=Hashable)


class Histogram:
    """How many were how long. Buckets are counted apart here, and added up when they are published."""

    __slots__ = ("buckets", "counts", "total")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.buckets, seconds)] += 1
        self.total += seconds

    def copy(self) -> Histogram:
        """As it is now."""
        copied = Histogram(self.buckets)
        copied.counts, copied.total = list(self.counts), self.total
        return copied


class _Names(Generic[K]):
    """Labels, as many as there may be."""

    __slots__ = ("_known", "_most", "_other")

    def __init__(self, most: int, other: K) -> None:
        self._most, self._other = most, other
        self._known: dict[K, K] = {}

    def __getitem__(self, name: K) -> K:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= self._most:
                return self._other
            known = self._known[name] = name
        return known


class Tally:
    """All that was told of one node."""

    def __init__(self, jobs_max: int) -> None:
        self._batches: deque[Sequence[News]] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs = _Names(jobs_max, OTHER)
        self._tasks = _Names(jobs_max * _TASKS_A_JOB, (OTHER, OTHER))
        self.running = self.retrying = 0
        self.occurrences: dict[tuple[str, str], int] = {}
        """By job and status."""
        self.attempts: dict[tuple[str, str, str], int] = {}
        """By job, task and status."""
        self.recoveries: dict[tuple[str, str], int] = {}
        """By job and strategy."""
        self.job_durations: dict[str, Histogram] = {}
        self.task_durations: dict[tuple[str, str], Histogram] = {}
        self.lateness = Histogram(LATENESS)

    def hear(self, news: Sequence[News]) -> None:
        """On the engine's loop: put it aside."""
        self._batches.append(news)
        self._waiting += len(news)
        if self._waiting > _WAITING_MAX:
            self.count()

    def count(self) -> None:
        """Count what waits."""
        with self._lock:
            while self._batches:
                batch = self._batches.popleft()
                self._waiting = max(self._waiting - len(batch), 0)
                for item in batch:
                    self._add(item)

    def counted(self) -> Tally:
        """Everything so far, as a copy that stays as it is."""
        self.count()
        with self._lock:
            copied = Tally(0)
            copied.running, copied.retrying = self.running, self.retrying
            copied.occurrences, copied.attempts = dict(self.occurrences), dict(self.attempts)
            copied.recoveries, copied.lateness = dict(self.recoveries), self.lateness.copy()
            copied.job_durations = {job: one.copy() for job, one in self.job_durations.items()}
            copied.task_durations = {task: one.copy() for task, one in self.task_durations.items()}
            return copied

    def _add(self, item: News) -> None:
        match item:
            case Tried():
                self._add_attempt(item)
            case Began():
                self._add_start(item)
            case Finished():
                self._add_end(item)
            case Settled():
                label = self._jobs[item.job], item.outcome.value
                self.occurrences[label] = self.occurrences.get(label, 0) + item.count
            case Counted():
                self.running, self.retrying = item.running, item.retrying
            case _:
                assert_never(item)

    def _add_start(self, item: Began) -> None:
        if item.recovery is not None:
            label = self._jobs[item.job], item.recovery.value
            self.recoveries[label] = self.recoveries.get(label, 0) + 1
        elif item.key.kind is Kind.SCHEDULED:
            self.lateness.add(max(item.started_at - item.due_at, 0) / SECOND)

    def _add_attempt(self, item: Tried) -> None:
        task = self._tasks[item.job, item.task]
        label = (*task, item.status.value)
        self.attempts[label] = self.attempts.get(label, 0) + 1
        if item.started_at is not None:
            histogram = self.task_durations.get(task)
            if histogram is None:
                histogram = self.task_durations[task] = Histogram(DURATIONS)
            histogram.add(max(item.ended_at - item.started_at, 0) / SECOND)

    def _add_end(self, item: Finished) -> None:
        job = self._jobs[item.job]
        label = job, item.outcome.value
        self.occurrences[label] = self.occurrences.get(label, 0) + 1
        if item.started_at is not None:
            histogram = self.job_durations.get(job)
            if histogram is None:
                histogram = self.job_durations[job] = Histogram(DURATIONS)
            histogram.add(max(item.ended_at - item.started_at, 0) / SECOND)
