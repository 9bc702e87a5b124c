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
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Final

from itinerary.core.loop.events import Began, Counted, Finished, News, Settled, Tried
from itinerary.model.occurrence import Kind
from itinerary.schedules.durations import SECOND

__all__ = ["DURATIONS", "LATENESS", "OTHER", "Histogram", "Tally"]

OTHER: Final = "(other)"
"""Every job, or task, that has no label of its own."""
_MILLISECOND: Final = SECOND // 1_000
DURATIONS: Final = tuple(
    bound * _MILLISECOND
    for bound in (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
)
LATENESS: Final = tuple(
    bound * _MILLISECOND
    for bound in (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
)
"""Upper bounds of buckets, in microseconds."""
_WAITING_MAX: Final = 20_000
"""How many news may wait to be counted."""
_TASKS_A_JOB: Final = 2


class Histogram:
    """How many were how long, in microseconds. Buckets are counted apart here, and added up when they are published."""

    __slots__ = ("buckets", "counts", "total")

    def __init__(self, buckets: Sequence[int]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.total = 0

    def add(self, took: int) -> None:
        """One more."""
        took = max(took, 0)
        self.counts[bisect_left(self.buckets, took)] += 1
        self.total += took

    def copy(self) -> Histogram:
        """As it is now."""
        copied = Histogram(self.buckets)
        copied.counts, copied.total = list(self.counts), self.total
        return copied


class Counts:
    """What came of a job, or of a task: how often which status, and how long it took."""

    __slots__ = ("durations", "recoveries", "statuses")

    def __init__(self) -> None:
        self.statuses: defaultdict[str, int] = defaultdict(int)
        self.recoveries: defaultdict[str, int] = defaultdict(int)
        """Of a job: runs that make up for missed instants, by strategy."""
        self.durations = Histogram(DURATIONS)

    def copy(self) -> Counts:
        """As it is now."""
        copied = Counts()
        copied.statuses, copied.recoveries = self.statuses.copy(), self.recoveries.copy()
        copied.durations = self.durations.copy()
        return copied


class Tally:
    """All that was told of one node."""

    def __init__(self, jobs_max: int) -> None:
        self._batches: deque[Sequence[News]] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._jobs_max = jobs_max
        self.running = self.retrying = 0
        self.jobs: dict[str, Counts] = {}
        self.tasks: dict[tuple[str, str], Counts] = {}
        """By job and task."""
        self.lateness = Histogram(LATENESS)
        self.refusals: Counter[tuple[str, str]] = Counter()
        """Refused HTTP requests and connections, by server and status."""

    def count_refusal(self, server: str, status: str) -> None:
        """Count a refused request or connection. From any thread."""
        with self._lock:
            self.refusals[server, status] += 1

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
                self._add(batch)

    def counted(self) -> Tally:
        """Everything so far, as a copy that stays as it is."""
        self.count()
        with self._lock:
            copied = Tally(0)
            copied.running, copied.retrying, copied.lateness = self.running, self.retrying, self.lateness.copy()
            copied.refusals = self.refusals.copy()
            copied.jobs = {job: one.copy() for job, one in self.jobs.items()}
            copied.tasks = {task: one.copy() for task, one in self.tasks.items()}
            return copied

    def _add(self, batch: Sequence[News]) -> None:
        """Count a batch. There may be tens of thousands in a second, so it goes by type and looks up little."""
        jobs, tasks = self.jobs, self.tasks
        for item in batch:
            if type(item) is Tried:
                counts = tasks.get((item.job, item.task)) or self._task(item.job, item.task)
                counts.statuses[item.status] += 1
                if item.started_at is not None:
                    counts.durations.add(item.ended_at - item.started_at)
            elif type(item) is Finished:
                counts = jobs.get(item.job) or self._job(item.job)
                counts.statuses[item.outcome] += 1
                if item.started_at is not None:
                    counts.durations.add(item.ended_at - item.started_at)
            elif type(item) is Began:
                if item.recovery is not None:
                    self._job(item.job).recoveries[item.recovery] += 1
                elif item.key.kind is Kind.SCHEDULED:
                    self.lateness.add(item.started_at - item.due_at)
            elif type(item) is Settled:
                self._job(item.job).statuses[item.outcome] += item.count
            elif type(item) is Counted:
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
