"""The five recovery strategies, for instants that passed without a row (R1, R5).

    execute_all       ● ● ● ● ●     all of them run, in order
    execute_last      ○ ○ ○ ○ ●     the last one runs, the earlier ones are missed
    mark_as_missed    ○ ○ ○ ○ ○
    bounded_window    ○ ○ ● ● ●     the most recent ones run: limited by age first, then by count
    compressed        └─────┴ ●     one run, which receives the window that it covers

Every instant is covered exactly once: by a row of its own, or by one row whose window contains it. A window never
contains an instant that has a row, since that instant would be covered twice. So a *block* ends before an instant that
has a row. In the usual outage nothing has a row, and there is one block. Rows that were claimed and have not started
count as missing (`unstarted_claims`). A compressed window covers them, and a collapsed range leaves them their own
rows.

    collapsed range   more than 1,000 missed or skipped instants in a block: one row, with the key of the *first* one
    compressed        one row, with the key of the *last* one: it runs as that instant's occurrence

Either key belongs to an instant without a row. The new row therefore stands for that instant too, and a late claim
finds the key taken. The window reaches from the first instant to a second after the last.

The strategy is that of the version in force at the last missing instant. An operator who chose `mark_as_missed` while
no node ran expects it to hold for the whole outage. The rows carry the version in force at their own instants. A
compressed run enumerates its window by the schedule of its version, so a schedule that changed in the middle gives two
runs.

Texts and rows depend only on the instants, the versions and the plan's end, never on the progress of an earlier try. A
node that resumes after a crash writes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias, assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.model.config import EffectiveRecovery
from itinerary.model.ids import jitter_for, job_id, occurrence_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap, Recovery
from itinerary.model.rows import JobRow, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.schedules import Schedule, format_duration
from itinerary.schedules.durations import SECOND

__all__ = [
    "STRETCH_MIN",
    "MissingInstants",
    "RecoveryTerms",
    "late",
    "overlap_of_recovery",
    "recovered",
    "settled",
    "settled_each",
    "to_run",
]

STRETCH_MIN: Final = 1_000
"""The number of skipped or missed instants in a block above which they are one row."""

Numbers: TypeAlias = NDArray[np.int64]


class RecoveryTerms(msgspec.Struct, frozen=True):
    """The parts of a job's version that recovery needs."""

    version: int
    schedule: Schedule
    recovery: EffectiveRecovery
    priority: int = 0
    overlap: Overlap = Overlap.SKIP

    @property
    def recovers_as(self) -> OccurrenceState:
        """The initial state of its recovery runs.

        Recovery runs queue for the overlap slot one after the other, unless they may overlap (R2).
        """
        return OccurrenceState.QUEUED if overlap_of_recovery(self.overlap).queues else OccurrenceState.PRERUN


@dataclass(frozen=True, slots=True, eq=False)
class MissingInstants:
    """Instants of one job that have no row, in order."""

    instants: Numbers
    places: Numbers
    """The positions among all expected instants of the job. Positions of neighbours differ by one."""
    versions: Numbers

    def __len__(self) -> int:
        return len(self.instants)

    def where(self, which: NDArray[np.bool_]) -> MissingInstants:
        """Return the instants that a mask selects."""
        return MissingInstants(self.instants[which], self.places[which], self.versions[which])

    def among(self, instants: Collection[int]) -> NDArray[np.bool_]:
        """Return a mask of the instants that are in `instants`."""
        return np.isin(self.instants, np.fromiter(instants, np.int64, len(instants)))

    def blocks(self, kinds: Numbers | None = None) -> Iterator[MissingInstants]:
        """Yield the blocks of neighbouring instants, each of one kind if kinds are given."""
        apart = np.diff(self.places) != 1
        if kinds is not None:
            apart |= np.diff(kinds) != 0
        bounds = [0, *(np.flatnonzero(apart) + 1).tolist(), len(self)]
        for low, high in pairwise(bounds):
            if low < high:
                yield MissingInstants(self.instants[low:high], self.places[low:high], self.versions[low:high])

    @property
    def window(self) -> Window:
        """The window that contains all of the instants."""
        return Window(int(self.instants[0]), int(self.instants[-1]) + SECOND, len(self))


def recovered(
    job: JobRow,
    missing: MissingInstants,
    policies: Mapping[int, RecoveryTerms],
    now: int,
    claimed: Collection[int] = (),
) -> list[ClaimRequest]:
    """Return the rows to write for a job's missing instants that are older than the grace period, in order.

    Args:
        job: The job.
        missing: Its missing instants.
        policies: The policies of all versions among them.
        now: The end of the sweep's plan.
        claimed: The instants that have a row, claimed before the outage.
    """
    if not len(missing):
        return []
    recovery = policies[int(missing.versions[-1])].recovery
    if recovery.strategy.is_compressed:
        kinds = _schedules_in(missing, policies)
        return [_compressed(job, block, policies) for block in missing.blocks(kinds)]
    runs = to_run(missing.instants, recovery, now)
    why = f"recovered by {recovery.strategy}: nobody was there at its instant"
    rows = [
        _row(job, instant, policies[version], policies[version].recovers_as, why, is_recovery=True)
        for instant, version in _pairs(missing.where(runs))
    ]
    reason = _why_missed(recovery)
    has_row = missing.among(claimed)
    for block in missing.where(~runs & ~has_row).blocks():
        rows += settled(job, block, policies, OccurrenceState.MISSED, reason, is_recovery=True)
    rows += settled_each(
        job, missing.where(~runs & has_row), policies, OccurrenceState.MISSED, reason, is_recovery=True
    )
    return sorted(rows, key=lambda row: row.key)


def to_run(instants: Numbers, recovery: EffectiveRecovery, now: int) -> NDArray[np.bool_]:
    """Return which of a job's missed instants get a run of their own, as a mask.

    Rows that were claimed just before an outage and never started are treated like missing rows (protocol rule 17):
    pass the instants of both. With `compressed`, only the last instant has a run, which covers the others.

    Args:
        instants: The missed instants, in order.
        recovery: The strategy and its bounds.
        now: The end of the sweep's plan.
    """
    count = len(instants)
    match recovery.strategy:
        case Recovery.EXECUTE_ALL:
            return np.ones(count, np.bool_)
        case Recovery.EXECUTE_LAST | Recovery.COMPRESSED:
            return np.equal(np.arange(count), count - 1)
        case Recovery.MARK_AS_MISSED:
            return np.zeros(count, np.bool_)
        case Recovery.BOUNDED_WINDOW:
            runs = np.ones(count, np.bool_)
            if recovery.max_duration is not None:
                runs &= instants >= now - recovery.max_duration
            if recovery.max_occurrences is not None:
                runs &= np.arange(count) >= count - recovery.max_occurrences
            return runs
        case _:
            assert_never(recovery.strategy)


def late(job: JobRow, missing: MissingInstants, policies: Mapping[int, RecoveryTerms]) -> list[ClaimRequest]:
    """Return the rows to write for missing instants within the grace period: they simply run late."""
    why = "late: nobody had claimed it, and the sweep found it missing"
    return [_row(job, instant, policies[version], OccurrenceState.PRERUN, why) for instant, version in _pairs(missing)]


def settled(
    job: JobRow,
    block: MissingInstants,
    policies: Mapping[int, RecoveryTerms],
    status: OccurrenceState,
    reason: str,
    *,
    is_recovery: bool = False,
    as_stretch: bool = False,
) -> list[ClaimRequest]:
    """Return the rows of a block of instants that do not run: one for each, or one for all if there are many."""
    if len(block) > STRETCH_MIN or as_stretch:
        instant, version = next(_pairs(block))
        row = _row(job, instant, policies[version], status, reason, is_recovery=is_recovery)
        return [msgspec.structs.replace(row, window=block.window)]
    return settled_each(job, block, policies, status, reason, is_recovery=is_recovery)


def settled_each(
    job: JobRow,
    missing: MissingInstants,
    policies: Mapping[int, RecoveryTerms],
    status: OccurrenceState,
    reason: str,
    *,
    is_recovery: bool = False,
) -> list[ClaimRequest]:
    """Return a row for each of these instants, which do not run."""
    return [
        _row(job, instant, policies[version], status, reason, is_recovery=is_recovery)
        for instant, version in _pairs(missing)
    ]


def overlap_of_recovery(overlap: Overlap) -> Overlap:
    """Return the overlap policy of a job's recovery runs: `queue`, unless the job has chosen `allow` (R2)."""
    return overlap if overlap.is_parallel else Overlap.QUEUE


def _compressed(job: JobRow, block: MissingInstants, policies: Mapping[int, RecoveryTerms]) -> ClaimRequest:
    instant, version = int(block.instants[-1]), int(block.versions[-1])
    why = f"recovered by {Recovery.COMPRESSED}: nobody was there, and this run answers for the whole window"
    row = _row(job, instant, policies[version], policies[version].recovers_as, why, is_recovery=True)
    return msgspec.structs.replace(row, window=block.window) if len(block) > 1 else row


def _schedules_in(missing: MissingInstants, policies: Mapping[int, RecoveryTerms]) -> Numbers:
    """Return a number for the schedule of each instant. Versions that differ in other ways share a number."""
    numbers: dict[Schedule, int] = {}
    of_version = {
        version: numbers.setdefault(policies[version].schedule, len(numbers))
        for version in sorted(set(missing.versions.tolist()))
    }
    return np.array([of_version[version] for version in missing.versions.tolist()], np.int64)


def _why_missed(recovery: EffectiveRecovery) -> str:
    nobody = "missed: nobody was there at its instant, and"
    match recovery.strategy:
        case Recovery.EXECUTE_LAST:
            return f"{nobody} {recovery.strategy} runs only the last one"
        case Recovery.BOUNDED_WINDOW:
            bounds = []
            if recovery.max_duration is not None:
                bounds.append(f"of the last {format_duration(recovery.max_duration)}")
            if recovery.max_occurrences is not None:
                bounds.append(f"at most {recovery.max_occurrences}")
            return f"{nobody} {recovery.strategy} runs only the most recent ones: {', '.join(bounds)}"
        case Recovery.MARK_AS_MISSED | Recovery.EXECUTE_ALL | Recovery.COMPRESSED:
            return f"{nobody} its recovery is {recovery.strategy}"
        case _:
            assert_never(recovery.strategy)


def _pairs(missing: MissingInstants) -> Iterator[tuple[int, int]]:
    return zip(missing.instants.tolist(), missing.versions.tolist(), strict=True)


def _row(
    job: JobRow, instant: int, policy: RecoveryTerms, status: OccurrenceState, reason: str, *, is_recovery: bool = False
) -> ClaimRequest:
    due_at = instant
    if policy.schedule.jitter:
        due_at += jitter_for(occurrence_id(job_id(job.name), instant), policy.schedule.jitter)
    return ClaimRequest(
        Key(instant, job.number, Kind.SCHEDULED),
        policy.version,
        due_at,
        status,
        is_recovery,
        policy.priority,
        reason=reason,
    )
