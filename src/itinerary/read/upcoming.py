"""Upcoming runs: how often each job is due in the next hours, when first, and the distribution over time.

A list of three million instants is of no use. So all instants are counted, and only those of the listed jobs are
enumerated; the rest is one sum. A window with more instants than one call may return is split into parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.expected import Expected
from itinerary.errors import WindowError
from itinerary.model.rows import JobNumber
from itinerary.read.snapshot import StoreSnapshot, at
from itinerary.schedules.durations import SECOND

__all__ = ["GapSeen", "UpcomingJob", "UpcomingRuns", "growing", "upcoming"]

Numbers: TypeAlias = NDArray[np.int64]
INSTANTS_MAX: Final = 1_000
"""The limit of listed instants of one job."""
_GAPS_MAX: Final = 100
_FIRST_PART: Final = 60 * SECOND


class UpcomingJob(msgspec.Struct, frozen=True, kw_only=True):
    """The upcoming instants of one job."""

    job: str
    timezone: str
    runs: int
    skipped: int
    """The number of instants that will be skipped, because of a pause or a skip request."""
    first_at: datetime
    counts: tuple[int, ...]
    """The number of runs in each part of the window, in order; if there are none, the number of skipped instants."""
    instants: tuple[datetime, ...]
    """The first instants that will run."""


class GapSeen(msgspec.Struct, frozen=True):
    """A job whose instants cannot be computed, and why."""

    job: str
    reason: str


class UpcomingRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The upcoming runs in `[start, end)`."""

    start: datetime
    end: datetime
    parts: int
    jobs: tuple[UpcomingJob, ...]
    """The jobs that are due first."""
    more_jobs: int
    more_runs: int
    more_counts: tuple[int, ...]
    """The number of runs of the other jobs in each part of the window."""
    gaps: tuple[GapSeen, ...]


def growing(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive parts of a window, each as long as all parts before it.

    So a caller that counts instants exceeds a limit after about twice as many, however long the window is.
    """
    since, until = start, start + _FIRST_PART
    while since < end:
        yield since, min(until, end)
        since, until = until, until + (until - start)


def upcoming(
    snapshot: StoreSnapshot,
    span: int,
    *,
    parts: int,
    pattern: str | None = None,
    limit: int = 20,
    start: int | None = None,
    check_count: Callable[[int], None] = lambda _: None,
) -> UpcomingRuns:
    """Count the upcoming runs.

    Args:
        ground: The snapshot of the store.
        span: The length of the window, in microseconds.
        parts: The number of parts of equal length, with a count for each.
        pattern: Only jobs whose names match.
        limit: The number of jobs that are listed; the others are one sum.
        start: The start of the window; None: now.
        check_count: Called with the growing number of instants. An error that it raises ends the count.
    """
    start = snapshot.now if start is None else start
    end, total = start + span, 0
    wanted = None if pattern is None else [row.number for row in snapshot.named(pattern)]
    size = 1 + max(snapshot.timeline.jobs, default=0)
    runs, skipped = np.zeros(size, np.int64), np.zeros(size, np.int64)
    first = np.full(size, end, np.int64)
    everything = np.zeros(parts, np.int64)
    gaps: dict[JobNumber, str] = {}
    for some in (some for since, until in growing(start, end) for some in _windows(snapshot, since, until, wanted)):
        total += len(some)
        check_count(total)
        runs += np.bincount(some.jobs[some.is_to_run], minlength=size)
        skipped += np.bincount(some.jobs[~some.is_to_run], minlength=size)
        np.minimum.at(first, some.jobs, some.instants)
        everything += _counts(some.instants[some.is_to_run], start, span, parts)
        gaps |= {gap.job: gap.reason for gap in some.gaps}
    due = np.flatnonzero(runs + skipped)
    order = due[np.lexsort((due, first[due]))]
    chosen = [JobNumber(int(job)) for job in order[:limit]]
    shown = [_job(snapshot, job, start, span, parts, int(runs[job]), int(skipped[job])) for job in chosen]
    others = order[limit:]
    left = everything - sum((np.array(job.counts, np.int64) for job in shown if job.runs), np.zeros(parts, np.int64))
    return UpcomingRuns(
        start=at(start),
        end=at(end),
        parts=parts,
        jobs=tuple(shown),
        more_jobs=len(others),
        more_runs=int(runs[others].sum()),
        more_counts=tuple(left.tolist()) if len(others) else (),
        gaps=tuple(GapSeen(snapshot.timeline.jobs[job].name, why) for job, why in list(gaps.items())[:_GAPS_MAX]),
    )


def _windows(snapshot: StoreSnapshot, start: int, end: int, jobs: Collection[JobNumber] | None) -> Iterator[Expected]:
    """Yield the expected instants of the window, in as many parts as needed."""
    try:
        found = snapshot.timeline.expected(start, end, None if jobs is None else list(jobs))
    except WindowError:
        if end - start <= SECOND:
            raise
        middle = start + (end - start) // 2 // SECOND * SECOND
        middle = middle if middle > start else start + (end - start) // 2
        yield from _windows(snapshot, start, middle, jobs)
        yield from _windows(snapshot, middle, end, jobs)
        return
    yield found


def _counts(instants: Numbers, start: int, span: int, parts: int) -> Numbers:
    places = np.minimum((instants - start) * parts // span, parts - 1)
    return np.bincount(places, minlength=parts).astype(np.int64)


def _job(
    snapshot: StoreSnapshot, job: JobNumber, start: int, span: int, parts: int, runs: int, skipped: int
) -> UpcomingJob:
    found = list(_windows(snapshot, start, start + span, [job]))
    instants = np.concatenate([some.instants for some in found])
    to_run = np.concatenate([some.instants[some.is_to_run] for some in found])
    return UpcomingJob(
        job=snapshot.timeline.jobs[job].name,
        timezone=snapshot.zone_of(snapshot.segment(job)),
        runs=runs,
        skipped=skipped,
        first_at=at(int(instants[0])),
        counts=tuple(_counts(to_run if runs else instants, start, span, parts).tolist()),
        instants=tuple(at(instant) for instant in to_run[:INSTANTS_MAX].tolist()),
    )
