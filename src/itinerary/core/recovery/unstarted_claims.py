"""What was claimed before an outage and has not started: a part of the backlog (protocol rule 17).

A node claims ten seconds ahead. If all nodes end in the middle of that, these rows exist and no node has started them.
For the job they are instants that it has missed, like those without a row. So the sweep treats them as missing: one
plan, one strategy, one order.

    execute_all      the claimed row runs as a recovery, in its place in the queue
    execute_last     the last instant of both runs, and the others are missed
    mark_as_missed   all of both are missed
    bounded_window   the most recent instants of both run
    compressed       one run answers for both: the claimed rows inside its window are removed, or it is one of them

Other rows of the job have not started either, and the strategy does not decide about them: they waited as `pending`
when their node ended, a pause holds them, or their jitter makes them due late. If they are older than a recovery run of
their job, they join the queue with it. Otherwise the recovery run would start before them.
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

__all__ = ["NONE_UNSTARTED", "Unstarted", "is_overlooked", "unstarted"]

_UNSTARTED: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


class Unstarted(NamedTuple):
    """Occurrences that were due and have not started, by job."""

    claimed: Mapping[JobNumber, Mapping[int, OccurrenceRow]]
    """By instant: those that the recovery strategy decides about."""
    waiting: Mapping[JobNumber, Sequence[OccurrenceRow]]
    """Those that only need their place in the queue."""


NONE_UNSTARTED: Final = Unstarted({}, {})


def is_overlooked(row: OccurrenceRow, plan: SweepPlan, grace_period: int) -> bool:
    """True if a row was claimed for an instant of this plan, and no node was there then, nor in the grace period.

    A node was there for a `pending` row, and had no room for it.
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
) -> Unstarted:
    """Sort the rows of a store that are due before the plan's end. Rows that have started are left out.

    Args:
        plan: What the sweep decides.
        timeline: What is in force: a pause holds what was due before it.
        rows: The active rows that are due before the plan's end.
        grace_period: How late an instant may be and still simply run.
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
    return Unstarted(claimed, waiting)


def _is_unsure(row: OccurrenceRow) -> bool:
    """True if a row waits to learn whether the run in its job's slot is alive: it may have to be skipped for that."""
    reason = read_reason(row.reason)
    return reason is not None and reason.kind is ReasonKind.UNSURE
