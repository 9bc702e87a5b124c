"""Count the scheduler events of a node (U7).

    engine's thread        hear(news) ──► set a batch aside                      one append, for any number of events
    listener's thread      counted() ──► count all waiting batches

At a peak, ten thousand occurrences start and end in a second, and each of them changes five numbers. So the engine does
not count: it sets a batch aside, and the publisher counts it a moment later. If too many events wait because there is
no publisher, the engine's thread counts them.

**Labels are bounded.** The first `jobs_max` jobs that do anything are counted by name, and all others together as
`(other)`. For tasks the limit is twice that.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Final

from itinerary.core.loop.events import (
    AttemptEnded,
    LoadSampled,
    OccurrenceDecided,
    OccurrenceEnded,
    OccurrenceStarted,
    SchedulerEvent,
)
from itinerary.model.occurrence import Kind
from itinerary.schedules.durations import SECOND

__all__ = ["DURATIONS", "LATENESS", "OTHER", "Histogram", "MetricCounters"]

OTHER: Final = "(other)"
"""The label of all jobs or tasks without a label of their own."""
_MILLISECOND: Final = SECOND // 1_000
DURATIONS: Final = tuple(
    bound * _MILLISECOND
    for bound in (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
)
LATENESS: Final = tuple(
    bound * _MILLISECOND
    for bound in (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
)
"""The upper bounds of buckets, in microseconds."""
_WAITING_MAX: Final = 20_000
"""The maximum number of events that wait to be counted."""
_TASKS_A_JOB: Final = 2


class Histogram:
    """A histogram of durations in microseconds. Its buckets become cumulative only when they are published."""

    __slots__ = ("buckets", "counts", "total")

    def __init__(self, buckets: Sequence[int]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.total = 0

    def add(self, took: int) -> None:
        """Count one duration."""
        took = max(took, 0)
        self.counts[bisect_left(self.buckets, took)] += 1
        self.total += took

    def copy(self) -> Histogram:
        """Return a copy."""
        copied = Histogram(self.buckets)
        copied.counts, copied.total = list(self.counts), self.total
        return copied


class Counts:
    """The counts of a job or a task: ends by status, and durations."""

    __slots__ = ("durations", "recoveries", "statuses")

    def __init__(self) -> None:
        self.statuses: defaultdict[str, int] = defaultdict(int)
        self.recoveries: defaultdict[str, int] = defaultdict(int)
        """For a job: runs that make up for missed instants, by strategy."""
        self.durations = Histogram(DURATIONS)

    def copy(self) -> Counts:
        """Return a copy."""
        copied = Counts()
        copied.statuses, copied.recoveries = self.statuses.copy(), self.recoveries.copy()
        copied.durations = self.durations.copy()
        return copied


class MetricCounters:
    """The counts of one node."""

    def __init__(self, jobs_max: int) -> None:
        self._batches: deque[Sequence[SchedulerEvent]] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs_max = jobs_max
        self.running = self.retrying = 0
        self.jobs: dict[str, Counts] = {}
        self.tasks: dict[tuple[str, str], Counts] = {}
        """The counts by job and task."""
        self.lateness = Histogram(LATENESS)
        self.refusals: Counter[tuple[str, str]] = Counter()
        """Refused HTTP requests and connections, by server and status."""

    def count_refusal(self, server: str, status: str) -> None:
        """Count a refused request or connection. May be called from any thread."""
        with self._lock:
            self.refusals[server, status] += 1

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Set events aside. Called on the engine's loop."""
        self._batches.append(news)
        self._waiting += len(news)
        if self._waiting > _WAITING_MAX:
            self.count()

    def count(self) -> None:
        """Count the waiting events."""
        with self._lock:
            while self._batches:
                batch = self._batches.popleft()
                self._waiting = max(self._waiting - len(batch), 0)
                self._add(batch)

    def counted(self) -> MetricCounters:
        """Count the waiting events and return a copy of all counts."""
        self.count()
        with self._lock:
            copied = MetricCounters(0)
            copied.running, copied.retrying, copied.lateness = self.running, self.retrying, self.lateness.copy()
            copied.refusals = self.refusals.copy()
            copied.jobs = {job: one.copy() for job, one in self.jobs.items()}
            copied.tasks = {task: one.copy() for task, one in self.tasks.items()}
            return copied

    def _add(self, batch: Sequence[SchedulerEvent]) -> None:
        """Count a batch. Up to tens of thousands of events come in a second, so this dispatches by type."""
        jobs, tasks = self.jobs, self.tasks
        for item in batch:
            if type(item) is AttemptEnded:
                counts = tasks.get((item.job, item.task)) or self._task(item.job, item.task)
                counts.statuses[item.status] += 1
                if item.started_at is not None:
                    counts.durations.add(item.ended_at - item.started_at)
            elif type(item) is OccurrenceEnded:
                counts = jobs.get(item.job) or self._job(item.job)
                counts.statuses[item.outcome] += 1
                if item.started_at is not None:
                    counts.durations.add(item.ended_at - item.started_at)
            elif type(item) is OccurrenceStarted:
                if item.recovery is not None:
                    self._job(item.job).recoveries[item.recovery] += 1
                elif item.key.kind is Kind.SCHEDULED:
                    self.lateness.add(item.started_at - item.due_at)
            elif type(item) is OccurrenceDecided:
                self._job(item.job).statuses[item.outcome] += item.count
            elif type(item) is LoadSampled:
                self.running, self.retrying = item.running, item.retrying

    def _job(self, name: str) -> Counts:
        found = self.jobs.get(name)
        if found is None:
            name = name if len(self.jobs) < self._jobs_max else OTHER
            found = self.jobs.setdefault(name, Counts())
        return found

    def _task(self, job: str, task: str) -> Counts:
        name = (job, task) if len(self.tasks) < self._jobs_max * _TASKS_A_JOB else (OTHER, OTHER)
        return self.tasks.setdefault(name, Counts())
