"""What was claimed ahead of its instant, when nobody was there at that instant (PROTOCOL 17).

A node claims ten seconds ahead. If all nodes are gone in the middle of that, for hours, these rows are there and nobody
has started them. To whoever comes back they look like work that is a little late; to the job they are instants that it
has missed, like those which have no row at all, and they go the same way: what is older than the grace period goes
through its recovery strategy, together with what is missing.

    execute_all      it runs, as a recovery
    execute_last     it runs if nothing later was missed, else it is missed
    mark_as_missed   it is missed
    bounded_window   it runs if it is among the most recent ones
    compressed       it runs, for itself: no window reaches over an instant that has a row

It is the sweep that does this, before it decides what is missing: its plan says from when to when nobody had decided
anything, and is the same for whoever goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from itinerary.core.recovery import to_run
from itinerary.core.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.config import resolve
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Recovery
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan
from itinerary.model.writes import Intervention

__all__ = ["is_overlooked", "overlooked"]


def is_overlooked(row: OccurrenceRow, plan: SweepPlan, grace_period: int) -> bool:
    """Whether it was claimed for an instant of this plan, and nobody was there then, nor in the grace period.

    What is `pending` had somebody there, who had no room for it.
    """
    return (
        row.status is OccurrenceState.PRERUN
        and row.kind is Kind.SCHEDULED
        and not row.is_recovery
        and plan.start <= row.instant < plan.end
        and row.due_at < plan.end - grace_period
    )


def overlooked(
    plan: SweepPlan,
    timeline: Timeline,
    decided: Sequence[Key],
    rows: Iterable[OccurrenceRow],
    *,
    grace_period: int,
    settings: Overrides = NOTHING,
) -> list[Intervention]:
    """What is to be done about them. `decided` are the keys from the plan's start to its end; a job that cannot be
    enumerated has what it claimed run."""
    by_job: dict[JobNumber, list[OccurrenceRow]] = {}
    for row in rows:
        if is_overlooked(row, plan, grace_period):
            by_job.setdefault(row.job, []).append(row)
    others: dict[JobNumber, set[int]] = {}
    for key in decided:
        if key.job in by_job and key.kind is Kind.SCHEDULED:
            others.setdefault(key.job, set()).add(key.instant)
    grace_from = plan.end - grace_period
    found: list[Intervention] = []
    for job, claimed in sorted(by_job.items()):
        done = others.get(job, set()) - {row.instant for row in claimed}
        try:
            found += _of_job(timeline, job, claimed, done, (plan.start, grace_from, plan.end), settings)
        except ItineraryError:  # the sweep says what is wrong with it
            found += [_run(row, "its job could not be enumerated") for row in claimed]
    return found


def _of_job(
    timeline: Timeline,
    job: JobNumber,
    claimed: Sequence[OccurrenceRow],
    done: set[int],
    times: tuple[int, int, int],
    settings: Overrides,
) -> Iterator[Intervention]:
    start, grace_from, end = times
    expected = [due for due in timeline.expected(start, grace_from, [job]) if due.instant not in done]
    missed = [due for due in expected if due.skipped is None]
    runs: dict[int, bool] = {}
    strategy = Recovery.EXECUTE_ALL
    if missed:
        overrides = timeline.definition(job, missed[-1].version).overrides
        recovery = resolve(settings=settings, job=overrides).recovery
        strategy = recovery.strategy
        which = to_run(np.array([due.instant for due in missed], np.int64), recovery, end).tolist()
        runs = {due.instant: runs or strategy is Recovery.COMPRESSED for due, runs in zip(missed, which, strict=True)}
    skipped = {due.instant: due.skipped for due in expected}
    for row in claimed:
        if (why := skipped.get(row.instant)) is not None:
            yield _as_seen(row, OccurrenceState.SKIPPED, why)
        elif runs.get(row.instant, True):
            yield _run(row, f"recovered by {strategy}")
        else:
            why = f"missed: it was claimed, nobody was there at its instant, and its recovery is {strategy}"
            yield _as_seen(row, OccurrenceState.MISSED, why)


def _run(row: OccurrenceRow, why: str) -> Intervention:
    reason = f"{why}: it was claimed, and nobody was there at its instant"
    return replace(_as_seen(row, None, reason), becomes_recovery=True)


def _as_seen(row: OccurrenceRow, to: OccurrenceState | None, why: str) -> Intervention:
    """Only if nobody has done anything to it since: where somebody has, it is not overlooked any more."""
    return Intervention(row.ref, row.fence, to, why, is_unstarted=True, sequence=row.sequence)
