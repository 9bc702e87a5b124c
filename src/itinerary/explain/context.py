"""Everything that the store knows about the question. The answer is decided from this alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from itinerary.core.timeline.timeline import Timeline
from itinerary.explain.explanation import Fact
from itinerary.explain.formatting import LocalTime
from itinerary.explain.node_presence import NodePresence
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Detail
from itinerary.model.reasons import named_occurrences
from itinerary.model.rows import JobRow, NodeNumber, OccurrenceRow, Ref
from itinerary.schedules.instants import shown_instant

__all__ = ["ExplainContext", "OccurrenceContext", "RunOnNode"]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainContext:
    """A job, and the time that the question is about."""

    job: JobRow
    timeline: Timeline
    now: int
    watermark: int
    attendance: NodePresence
    time: LocalTime
    following: int | None = None
    """The next instant that will run."""
    notes: tuple[str, ...] = ()
    """Sentences at the start of the answer, for example that the answer is about another instant than the question."""
    outlook: str = ""
    """The last sentence of the answer: that nothing is to come, and why."""
    stands: str | None = None
    """The current status of the job in words, if not active. The verdict may already contain these words."""

    def fact(self, at: int, what: str) -> Fact:
        """Return a fact that happened at an instant."""
        return Fact(what, shown_instant(at), self.time.dated(at))

    def run_id(self, row: OccurrenceRow) -> str:
        """Return the name of an occurrence on the command line.

        Returns:
            The run id of a scheduled occurrence or a replay; the occurrence id of other kinds.
        """
        name = self.timeline.jobs[row.job].name
        has_run_id = row.kind.is_by_schedule or row.kind is Kind.REPLAY
        return row.key.run_id(name) if has_run_id else str(row.key.id(job_id(name)))


class RunOnNode(NamedTuple):
    """The node that ran an occurrence, and the end of the run by the clock of that node."""

    node: NodeNumber | None
    until: int | None
    """The end of the last attempt; None if not recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class OccurrenceContext:
    """An occurrence that covers the instant of the question."""

    context: ExplainContext
    instant: int
    """The instant of the question: the occurrence's own, or another instant of its window."""
    detail: Detail
    others: Mapping[Ref, OccurrenceRow] = field(default_factory=dict)
    """The occurrences that the audit trail names."""
    line: Sequence[OccurrenceRow] = ()
    """The occurrences in the queue for the overlap slot, in order."""
    holders: Mapping[str, Sequence[OccurrenceRow]] = field(default_factory=dict)
    """The occurrences that hold shares of the limit that this occurrence waits for, by the name of the limit."""
    again: Sequence[OccurrenceRow] = ()
    """Replays and backfills of the same instant."""
    ran: Mapping[Ref, RunOnNode] = field(default_factory=dict)
    """The node and the end of the runs in `others`."""

    @property
    def row(self) -> OccurrenceRow:
        """The row of the occurrence."""
        return self.detail.row

    def named(self, ref: Ref | None) -> str:
        """Return another occurrence in words that users know."""
        row = None if ref is None else self.others.get(ref)
        return "another occurrence, which is no longer kept" if row is None else self.shown(row)

    def shown(self, row: OccurrenceRow) -> str:
        """Return an occurrence in words that users know."""
        when, named = self.context.time.brief(row.instant), self.context.run_id(row)
        if row.kind.is_by_schedule:
            return f"the run due {when} ({named})"
        how = {Kind.TRIGGER: "triggered at", Kind.REPLAY: "replayed for", Kind.BACKFILL: "backfilled for"}[row.kind]
        return f"the run {how} {when} ({named})"

    def in_words(self, text: str) -> str:
        """Return a text of the audit trail with occurrences named in words instead of by number."""
        for ref in named_occurrences(text):
            text = text.replace(f"occurrence {ref}", self.named(ref))
        return text
