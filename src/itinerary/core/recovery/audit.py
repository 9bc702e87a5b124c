"""The audit: every expected instant, compared with every decision (U6).

In a past window, exactly one row must account for each instant that the versions in force made due. This is an
occurrence of its own, or one collapsed range or compressed window around the instant.

    no row or window             lost         or unknown, if it lies below the history's floor or in a gap
    one row, or one window       fine
    more than that               doubled      a row *and* a window, two windows, two rows
    a row that is not expected   unexpected   unless an update withdrew it, or its job has a gap there

The audit compares job and instant, from which the ids of D1 are derived. Two rows of one instant have the same id, and
a store that accepted both has no unique key.

A row with a known window counts through its window, and not again through its key. Counts are always exact. The lists
are cut, so that an audit of a year with many failures can still be printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from itinerary.core.recovery.match import PackedInstants, stands_for_itself, windows_of
from itinerary.core.timeline.expected import Due, Expected, UnknownRange
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState

__all__ = ["LISTED_MAX", "AuditReport", "audit", "excused"]

LISTED_MAX: Final = 10_000
"""The largest number of instants in each list of a report."""

Which: TypeAlias = NDArray[np.bool_]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit of `[start, end)`."""

    start: int
    end: int
    expected: int
    """The number of expected instants."""
    matched: int
    """The number of expected instants with exactly one row or window."""
    lost_count: int
    doubled_count: int
    unknown_count: int
    """The number of instants without a row that lie below a history's floor, or in a gap."""
    lost: tuple[Due, ...]
    doubled: tuple[Due, ...]
    unknown: tuple[Due, ...]
    unexpected: tuple[Key, ...]
    """Rows that no version in force explains. The list is not cut, since `excused` needs all of them."""
    gaps: tuple[UnknownRange, ...]
    """Times in which the expected instants are unknown, so nothing could be checked."""

    @property
    def is_clean(self) -> bool:
        """True if no instant is lost or doubled."""
        return not self.lost_count and not self.doubled_count


def audit(
    expected: Expected,
    decided: Sequence[Key],
    windows: Sequence[OccurrenceRow],
    floors: Mapping[JobNumber, int],
) -> AuditReport:
    """Compare the expected instants of a timeline with the rows of a store.

    Args:
        expected: The expected instants of a window.
        decided: All keys in the same window.
        windows: All rows whose windows end after its start.
        floors: The history floors of jobs. A job that is not listed has no floor.
    """
    matching = PackedInstants(expected)
    rows, unexpected = matching.rows(_own_rows(expected, decided, windows))
    answering, gaps = windows_of(windows)
    answers = rows + matching.spans(answering)
    nobody, doubled = np.equal(answers, 0), np.greater(answers, 1)
    unknown = nobody & (_below_floor(expected, floors) | np.greater(matching.spans(gaps), 0))
    lost = nobody & ~unknown
    return AuditReport(
        start=expected.start,
        end=expected.end,
        expected=len(expected),
        matched=int(np.equal(answers, 1).sum()),
        lost_count=int(lost.sum()),
        doubled_count=int(doubled.sum()),
        unknown_count=int(unknown.sum()),
        lost=_listed(expected, lost),
        doubled=_listed(expected, doubled),
        unknown=_listed(expected, unknown),
        unexpected=_unexplained(unexpected, expected.gaps),
        gaps=expected.gaps,
    )


def excused(report: AuditReport, rows: Mapping[Key, OccurrenceRow]) -> AuditReport:
    """Return the report without the unexpected rows that were cancelled before they started.

    An update or a removal cancels claimed rows of instants that it removes (R7, D10).

    Args:
        report: The report of `audit`.
        rows: The rows of `report.unexpected` (`ByKeyQuery`).
    """
    left = tuple(key for key in report.unexpected if key not in rows or not _was_withdrawn(rows[key]))
    return replace(report, unexpected=left)


def _was_withdrawn(row: OccurrenceRow) -> bool:
    return row.is_withdrawn or (row.status is OccurrenceState.CANCELLED and row.started_at is None)


def _own_rows(expected: Expected, decided: Sequence[Key], windows: Sequence[OccurrenceRow]) -> list[Key]:
    """Return the keys that count for their own instants. Each row with a window is taken out once."""
    with_window = Counter(row.key for row in windows if row.window is not None)
    own = [key for key in decided if expected.start <= key.instant < expected.end and stands_for_itself(key)]
    if not with_window:
        return own  # the usual case
    found = []
    for key in own:
        if with_window[key] > 0:
            with_window[key] -= 1
        else:
            found.append(key)
    return found


def _below_floor(expected: Expected, floors: Mapping[JobNumber, int]) -> Which:
    jobs, places = np.unique(expected.jobs, return_inverse=True)
    floor = np.array([floors.get(JobNumber(job), expected.start) for job in jobs.tolist()], np.int64)
    return np.less(expected.instants, floor[places]) if len(jobs) else np.zeros(0, np.bool_)


def _unexplained(keys: Sequence[Key], gaps: Sequence[UnknownRange]) -> tuple[Key, ...]:
    by_job: dict[JobNumber, list[UnknownRange]] = {}
    for gap in gaps:
        by_job.setdefault(gap.job, []).append(gap)
    return tuple(key for key in keys if not any(gap.start <= key.instant < gap.end for gap in by_job.get(key.job, ())))


def _listed(expected: Expected, which: Which) -> tuple[Due, ...]:
    return tuple(expected.due(place) for place in np.flatnonzero(which)[:LISTED_MAX].tolist())
