"""The boot plan: what recovery would do if a node started now, before it does (R3).

It is the sweep's own decision, gone through and not written: the same function over the same timeline and the same
rows, so what is shown is what happens. A job that has nothing to be made up for is not in it. Steps are counted as they
come and let go, so the plan of a long outage takes no more memory than its recovery.

What it cannot know is what happens between the look and the start: instants that come due meanwhile are recovered too.
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
from itinerary.model.sweeps import Extension, SweepPlan
from itinerary.model.writes import Wanted

__all__ = ["BootPlan", "PlannedJob", "boot_plan"]


class PlannedJob(msgspec.Struct, frozen=True):
    """What recovery would do about one job. Instants are microseconds since the epoch."""

    job: str
    strategy: Recovery
    """That of its newest version among what is to be decided."""
    runs: int
    """How many recovery runs it would have."""
    covered: int
    """How many instants those answer for: more than one each, if they are compressed."""
    late: int
    """How many are young enough that they simply run, late."""
    missed: int
    skipped: int
    gaps: tuple[str, ...]
    """Why nobody can say what it expected, if so."""
    first_at: int
    last_at: int


class BootPlan(msgspec.Struct, frozen=True):
    """What recovery would do about everything from the watermark to now."""

    start: int
    end: int
    jobs: tuple[PlannedJob, ...]

    @property
    def runs(self) -> int:
        """How many recovery runs there would be in all."""
        return sum(job.runs for job in self.jobs)

    @property
    def missed(self) -> int:
        """How many instants would be missed in all."""
        return sum(job.missed for job in self.jobs)

    @property
    def skipped(self) -> int:
        """How many instants would be skipped in all."""
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
    """What a node that starts now would do. `decided` and `windows` are as `Sweep` wants them. `active` are the rows
    that are neither final nor queued: those that were claimed before an outage are recovered too."""
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
    """One job, as its rows come."""

    def __init__(self) -> None:
        self.runs = self.covered = self.late = self.missed = self.skipped = self.version = 0
        self.gaps: list[str] = []
        self.span: tuple[int, int] | None = None

    def add(self, wanted: Wanted) -> None:
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

    def extend(self, row: OccurrenceRow, extension: Extension) -> None:
        """A stretch or a gap that goes on."""
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
