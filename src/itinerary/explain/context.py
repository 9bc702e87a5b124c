"""All that a store says about what is asked: what the answer is decided from, and nothing else is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from itinerary.core.timeline.timeline import Timeline
from itinerary.explain.explanation import Fact
from itinerary.explain.formatting import LocalTime
from itinerary.explain.node_presence import Attendance
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Detail
from itinerary.model.reasons import named_occurrences
from itinerary.model.rows import JobRow, NodeNumber, OccurrenceRow, Ref
from itinerary.schedules.instants import shown_instant

__all__ = ["Found", "Ran", "Scene"]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A job, and the time that is asked about."""

    job: JobRow
    timeline: Timeline
    now: int
    watermark: int
    attendance: Attendance
    time: LocalTime
    following: int | None = None
    """The next instant that is to run."""
    notes: tuple[str, ...] = ()
    """What is to be said first: that another instant was found than was asked for, say."""
    outlook: str = ""
    """What is to be said at last: that nothing is to come, and why."""
    stands: str | None = None
    """How the job stands now, if it is not active, as a verdict may have said it already."""

    def fact(self, at: int, what: str) -> Fact:
        """Something that happened at an instant."""
        return Fact(what, shown_instant(at), self.time.dated(at))

    def run_id(self, row: OccurrenceRow) -> str:
        """The name of an occurrence on the command line: a run id of an instant or a replay, an id of the others."""
        name = self.timeline.jobs[row.job].name
        has_run_id = row.kind.is_by_schedule or row.kind is Kind.REPLAY
        return row.key.run_id(name) if has_run_id else str(row.key.id(job_id(name)))


class Ran(NamedTuple):
    """Where an occurrence ran, and until when by the clock of that node."""

    node: NodeNumber | None
    until: int | None
    """When the last attempt ended; None if that is not on record."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An occurrence that answers for the instant that is asked about."""

    scene: Scene
    instant: int
    """The one that is asked about; its own, unless it answers for a window."""
    detail: Detail
    others: Mapping[Ref, OccurrenceRow] = field(default_factory=dict)
    """The occurrences that its trail names."""
    line: Sequence[OccurrenceRow] = ()
    """Who stands in line for its job's slot, in order."""
    holders: Mapping[str, Sequence[OccurrenceRow]] = field(default_factory=dict)
    """Who holds the shares of the limit that it waits for."""
    again: Sequence[OccurrenceRow] = ()
    """Replays and backfills of the same instant."""
    ran: Mapping[Ref, Ran] = field(default_factory=dict)
    """Where and until when the others ran."""

    @property
    def row(self) -> OccurrenceRow:
        """It."""
        return self.detail.row

    def named(self, ref: Ref | None) -> str:
        """Another occurrence, as people know it."""
        row = None if ref is None else self.others.get(ref)
        return "another occurrence, which is no longer kept" if row is None else self.shown(row)

    def shown(self, row: OccurrenceRow) -> str:
        """An occurrence, as people know it."""
        when, named = self.scene.time.brief(row.instant), self.scene.run_id(row)
        if row.kind.is_by_schedule:
            return f"the run due {when} ({named})"
        how = {Kind.TRIGGER: "triggered at", Kind.REPLAY: "replayed for", Kind.BACKFILL: "backfilled for"}[row.kind]
        return f"the run {how} {when} ({named})"

    def in_words(self, text: str) -> str:
        """A sentence of the trail, with names in place of numbers."""
        for ref in named_occurrences(text):
            text = text.replace(f"occurrence {ref}", self.named(ref))
        return text
