"""What becomes of instants that passed without a row: the five recovery strategies (R1, R5).

    execute_all       ● ● ● ● ●     all of them run, in order
    execute_last      ○ ○ ○ ○ ●     the last one runs, the earlier ones are missed
    mark_as_missed    ○ ○ ○ ○ ○
    bounded_window    ○ ○ ● ● ●     the most recent ones run: by age first, then by count
    compressed        └─────┴ ●     one run, told the window that it answers for

Every instant is answered for exactly once: by a row of its own, or by one row whose window it lies in. A window never
reaches over an instant that has a row already, since that would be answered for twice; so a *block* ends where one
begins. In the usual outage nothing has a row, and there is one block. Rows that were claimed and have not started count
as missing (`overlooked`): a compressed window covers them, and a stretch leaves them their own rows.

    a stretch     more than 1,000 missed or skipped instants in a block: one row, with the key of the *first* of them
    compressed    one row, with the key of the *last* of them: it runs as that instant's occurrence

Either key is that of an instant which has no row, so it stands for that instant itself, and whoever comes late to claim
that instant finds it taken. The window reaches from the first instant to a second after the last.

The strategy is that of the version in force at the last missing instant: an operator who chose `mark_as_missed` while
nobody ran expects it to hold for the whole outage. The rows carry the version in force at their own instants. A
compressed run enumerates its window by the schedule of its version, so where the schedule changed in the middle there
are two of them.

Texts and rows follow from the instants, the versions and the plan's end alone, never from how far an earlier try came:
whoever goes on after a crash writes the same.
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
from itinerary.model.writes import Wanted
from itinerary.schedules import Schedule, format_duration
from itinerary.schedules.durations import SECOND

__all__ = [
    "STRETCH_MIN",
    "Missing",
    "Policy",
    "late",
    "overlap_of_recovery",
    "recovered",
    "settled",
    "settled_each",
    "to_run",
]

STRETCH_MIN: Final = 1_000
"""More skipped or missed instants than this, in a block, are one row."""

Numbers: TypeAlias = NDArray[np.int64]


class Policy(msgspec.Struct, frozen=True):
    """What one version of a job says about its instants, as far as it matters here."""

    version: int
    schedule: Schedule
    recovery: EffectiveRecovery
    priority: int = 0
    overlap: Overlap = Overlap.SKIP

    @property
    def recovers_as(self) -> OccurrenceState:
        """What its recovery runs are created as: standing in line for the job's slot, one behind the other, unless they
        may overlap (R2)."""
        return OccurrenceState.QUEUED if overlap_of_recovery(self.overlap).queues else OccurrenceState.PRERUN


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """Instants of one job that have no row, in order."""

    instants: Numbers
    places: Numbers
    """Their places among all that the job expected: those of two neighbours differ by one."""
    versions: Numbers

    def __len__(self) -> int:
        return len(self.instants)

    def where(self, which: NDArray[np.bool_]) -> Missing:
        """Some of them."""
        return Missing(self.instants[which], self.places[which], self.versions[which])

    def among(self, instants: Collection[int]) -> NDArray[np.bool_]:
        """Which of them are among these instants."""
        return np.isin(self.instants, np.fromiter(instants, np.int64, len(instants)))

    def blocks(self, kinds: Numbers | None = None) -> Iterator[Missing]:
        """What lies side by side, and is of one kind if kinds are given."""
        apart = np.diff(self.places) != 1
        if kinds is not None:
            apart |= np.diff(kinds) != 0
        bounds = [0, *(np.flatnonzero(apart) + 1).tolist(), len(self)]
        for low, high in pairwise(bounds):
            if low < high:
                yield Missing(self.instants[low:high], self.places[low:high], self.versions[low:high])

    @property
    def window(self) -> Window:
        """The window that holds all of them."""
        return Window(int(self.instants[0]), int(self.instants[-1]) + SECOND, len(self))


def recovered(
    job: JobRow,
    missing: Missing,
    policies: Mapping[int, Policy],
    now: int,
    claimed: Collection[int] = (),
) -> list[Wanted]:
    """What should be written for a job's missing instants that are older than the grace period, in order.

    `policies` are those of every version among them. `now` is the end of the sweep's plan. `claimed` are the instants
    that have a row, which was claimed before the outage.
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
    """Which of a job's missed instants are run, of each for itself. `instants` are in order.

    Rows that were claimed just before an outage, and never started, go the same way as what has no row (protocol rule
    17): ask with the instants of both. Of a compressed run only the last instant has a run, which answers for the
    others.
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


def late(job: JobRow, missing: Missing, policies: Mapping[int, Policy]) -> list[Wanted]:
    """What should be written for missing instants that are younger than the grace period: they simply run, late."""
    why = "late: nobody had claimed it, and the sweep found it missing"
    return [_row(job, instant, policies[version], OccurrenceState.PRERUN, why) for instant, version in _pairs(missing)]


def settled(
    job: JobRow,
    block: Missing,
    policies: Mapping[int, Policy],
    status: OccurrenceState,
    reason: str,
    *,
    is_recovery: bool = False,
    as_stretch: bool = False,
) -> list[Wanted]:
    """A block of instants that do not run: a row for each, or one for all of them if they are many."""
    if len(block) > STRETCH_MIN or as_stretch:
        instant, version = next(_pairs(block))
        row = _row(job, instant, policies[version], status, reason, is_recovery=is_recovery)
        return [msgspec.structs.replace(row, window=block.window)]
    return settled_each(job, block, policies, status, reason, is_recovery=is_recovery)


def settled_each(
    job: JobRow,
    missing: Missing,
    policies: Mapping[int, Policy],
    status: OccurrenceState,
    reason: str,
    *,
    is_recovery: bool = False,
) -> list[Wanted]:
    """Instants that do not run: a row for each."""
    return [
        _row(job, instant, policies[version], status, reason, is_recovery=is_recovery)
        for instant, version in _pairs(missing)
    ]


def overlap_of_recovery(overlap: Overlap) -> Overlap:
    """How recovery runs of a job overlap: one after another, whatever it chose, unless that is `allow` (R2)."""
    return overlap if overlap.is_parallel else Overlap.QUEUE


def _compressed(job: JobRow, block: Missing, policies: Mapping[int, Policy]) -> Wanted:
    instant, version = int(block.instants[-1]), int(block.versions[-1])
    why = f"recovered by {Recovery.COMPRESSED}: nobody was there, and this run answers for the whole window"
    row = _row(job, instant, policies[version], policies[version].recovers_as, why, is_recovery=True)
    return msgspec.structs.replace(row, window=block.window) if len(block) > 1 else row


def _schedules_in(missing: Missing, policies: Mapping[int, Policy]) -> Numbers:
    """For each instant which schedule made it due, as a number: versions may differ in everything else."""
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


def _pairs(missing: Missing) -> Iterator[tuple[int, int]]:
    return zip(missing.instants.tolist(), missing.versions.tolist(), strict=True)


def _row(
    job: JobRow, instant: int, policy: Policy, status: OccurrenceState, reason: str, *, is_recovery: bool = False
) -> Wanted:
    due_at = instant
    if policy.schedule.jitter:
        due_at += jitter_for(occurrence_id(job_id(job.name), instant), policy.schedule.jitter)
    return Wanted(
        Key(instant, job.number, Kind.SCHEDULED),
        policy.version,
        due_at,
        status,
        is_recovery,
        policy.priority,
        reason=reason,
    )
