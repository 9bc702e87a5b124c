"""The boot plan: what recovery would do if a node started now (R3).

The plan uses the sweep's own decision, without writing it: the same function over the same timeline and the same rows.
A job with nothing to recover is not in the plan. Steps are counted one at a time and not kept, so the plan of a long
outage takes as little memory as its recovery.

Instants that become due between this plan and the real start are recovered too, and are not in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from itinerary.core.recovery.match import GAP
from itinerary.core.recovery.sweep import Sweep
from itinerary.core.recovery.unstarted_claims import unstarted
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.occurrence import Window
from itinerary.model.policies import Recovery
from itinerary.model.queries import Status
from itinerary.model.rows import JobNumber, Key, NodeNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import RangeExtension, SweepPlan
from itinerary.model.writes import ClaimRequest

__all__ = ["BootPlan", "PlannedJob", "boot_plan"]


class PlannedJob(msgspec.Struct, frozen=True):
    """The recovery of one job. Instants are microseconds since the epoch."""

    job: str
    strategy: Recovery
    """The recovery strategy of the newest version among the instants to decide."""
    runs: int
    """The number of recovery runs."""
    covered: int
    """The number of instants that the recovery runs cover. A compressed run covers several."""
    late: int
    """The number of instants within the grace period, which simply run late."""
    missed: int
    skipped: int
    gaps: tuple[str, ...]
    """The reasons why expected instants are unknown, if any."""
    first_at: int
    last_at: int


class BootPlan(msgspec.Struct, frozen=True):
    """The recovery of all jobs from the watermark to now."""

    start: int
    end: int
    jobs: tuple[PlannedJob, ...]

    @property
    def runs(self) -> int:
        """The total number of recovery runs."""
        return sum(job.runs for job in self.jobs)

    @property
    def missed(self) -> int:
        """The total number of missed instants."""
        return sum(job.missed for job in self.jobs)

    @property
    def skipped(self) -> int:
        """The total number of skipped instants."""
        return sum(job.skipped for job in self.jobs)


def boot_plan(
    status: Status,
    timeline: Timeline,
    decided: Sequence[Key],
    windows: Sequence[OccurrenceRow],
    *,
    grace_period: int,
    takeover_after: int,
    active: Sequence[OccurrenceRow] = (),
) -> BootPlan:
    """Return what recovery would do if a node started now.

    Args:
        status: The status of the store.
        timeline: The timeline to recover by.
        decided: The decided keys, as for `Sweep`.
        windows: The rows with windows, as for `Sweep`.
        grace_period: The largest lateness of an instant that still simply runs.
        takeover_after: The time before now at which the plan ends.
        active: The rows that are neither final nor queued. Rows that were claimed before an outage are recovered too.
    """
    start, end = status.watermark, max(status.now - takeover_after, status.watermark)
    plan = SweepPlan(start, end, "", 0, NodeNumber(0), 0)
    found_unstarted = unstarted(plan, timeline, active, grace_period=grace_period, now=status.now)
    sweep = Sweep(plan, timeline, decided, windows, grace_period=grace_period, unstarted=found_unstarted)
    counts = {row.ref: row for row in windows}
    found: dict[JobNumber, _Count] = {}
    for step in sweep.steps():
        for wanted in (*step.wanted, *(row.becomes for row in step.claimed)):
            _of(found, wanted.key.job).add(wanted)
        for extension in step.extensions:
            row = counts[extension.ref]
            _of(found, row.job).extend(row, extension)
    jobs = tuple(count.planned(timeline, job) for job, count in sorted(found.items()))
    return BootPlan(start, end, jobs)


def _of(found: dict[JobNumber, _Count], job: JobNumber) -> _Count:
    if job not in found:
        found[job] = _Count()
    return found[job]


class _Count:
    """The counts of one job, added up row by row."""

    def __init__(self) -> None:
        self.runs = self.covered = self.late = self.missed = self.skipped = self.version = 0
        self.gaps: list[str] = []
        self.span: tuple[int, int] | None = None

    def add(self, wanted: ClaimRequest) -> None:
        instant, window = wanted.key.instant, wanted.window
        count = 1 if window is None else window.count
        self._reach(*((instant, instant) if window is None else (window.start, window.end)))
        self.version = max(self.version, wanted.version)
        if wanted.key.request == GAP:
            self.gaps.append(wanted.reason or "")
        elif wanted.status is OccurrenceState.MISSED:
            self.missed += count
        elif wanted.status is OccurrenceState.SKIPPED:
            self.skipped += count
        elif wanted.is_recovery:
            self.runs += 1
            self.covered += count
        else:
            self.late += 1

    def extend(self, row: OccurrenceRow, extension: RangeExtension) -> None:
        """Count the extension of a collapsed range or a gap."""
        window = row.window or Window(row.instant, row.instant, 0)
        self._reach(window.end, extension.end)
        self.version = max(self.version, row.version)
        if row.request == GAP:
            self.gaps.append(row.reason or "")
        else:
            self.skipped += extension.count - window.count

    def _reach(self, first: int, last: int) -> None:
        begin, end = (first, last) if self.span is None else self.span
        self.span = (min(begin, first), max(end, last))

    def planned(self, timeline: Timeline, job: JobNumber) -> PlannedJob:
        assert self.span is not None, "something was counted"
        strategy = Recovery.EXECUTE_ALL
        if not self.gaps:
            strategy = timeline.definition(job, self.version).config().recovery.strategy
        return PlannedJob(
            timeline.jobs[job].name,
            strategy,
            self.runs,
            self.covered,
            self.late,
            self.missed,
            self.skipped,
            tuple(dict.fromkeys(self.gaps)),
            *self.span,
        )
