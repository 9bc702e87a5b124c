"""Occurrences that were claimed before an outage and have not started: a part of the backlog (protocol rule 17).

A node claims ten seconds ahead. If all nodes end within that time, these rows exist and no node has started them. For
the job, their instants are missed like those without a row. So the sweep treats them as missing: one plan, one
strategy, one order.

    execute_all      the claimed row runs as a recovery, at its place in the queue
    execute_last     the last instant of both runs, and the others are missed
    mark_as_missed   all of both are missed
    bounded_window   the most recent instants of both run
    compressed       one run covers both: the claimed rows inside its window are removed, or it is one of them

The strategy does not decide about other unstarted rows of the job. Some waited as `pending` when their node ended, some
are held by a pause, and some are due late by their jitter. If such a row is older than a recovery run of its job, it
joins the queue with that run. Otherwise the recovery run would start first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from itinerary.core.recovery.pause import held_row
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.occurrence import Kind
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan

__all__ = ["NONE_UNSTARTED", "UnstartedClaims", "is_overlooked", "unstarted"]

_UNSTARTED: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


class UnstartedClaims(NamedTuple):
    """Occurrences that were due and have not started, by job."""

    claimed: Mapping[JobNumber, Mapping[int, OccurrenceRow]]
    """The occurrences that the recovery strategy decides about, by instant."""
    waiting: Mapping[JobNumber, Sequence[OccurrenceRow]]
    """The occurrences that only need their place in the queue."""


NONE_UNSTARTED: Final = UnstartedClaims({}, {})


def is_overlooked(row: OccurrenceRow, plan: SweepPlan, grace_period: int) -> bool:
    """True if a row was claimed for an instant of this plan, and no node was up then or in the grace period.

    A `pending` row does not count: a node was up, and had no free slot for it.
    """
    return (
        row.status is OccurrenceState.PRERUN
        and row.kind is Kind.SCHEDULED
        and not row.is_recovery
        and plan.start <= row.instant < plan.end
        and row.due_at < plan.end - grace_period
    )


def unstarted(
    plan: SweepPlan, timeline: Timeline, rows: Iterable[OccurrenceRow], *, grace_period: int, now: int
) -> UnstartedClaims:
    """Sort the unstarted rows that are due before the plan's end. Started rows are left out.

    Args:
        plan: The plan of the sweep.
        timeline: The timeline in force. A pause holds rows that were due before it.
        rows: The active rows that are due before the plan's end.
        grace_period: The largest lateness of an instant that still simply runs.
        now: The store's time.
    """
    claimed: defaultdict[JobNumber, dict[int, OccurrenceRow]] = defaultdict(dict)
    waiting: defaultdict[JobNumber, list[OccurrenceRow]] = defaultdict(list)
    for row in rows:
        if row.started_at is not None or row.status not in _UNSTARTED or row.kind is not Kind.SCHEDULED:
            continue
        if is_overlooked(row, plan, grace_period) and held_row(timeline, row, now) is None:
            claimed[row.job][row.instant] = row
        elif not _is_unsure(row):
            waiting[row.job].append(row)
    return UnstartedClaims(claimed, waiting)


def _is_unsure(row: OccurrenceRow) -> bool:
    """True if a row waits for the status of the run in its overlap slot, and may have to be skipped."""
    reason = read_reason(row.reason)
    return reason is not None and reason.kind is ReasonKind.UNSURE
