"""What comes back, where looking from elsewhere has no type for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import asdict, replace

from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.rows import EntryKind, EntryRow, JobRow
from itinerary.model.states import OccurrenceState
from itinerary.operations.apply import Application
from itinerary.read.job_detail import JobDetail
from itinerary.read.jobs import JobSeen
from itinerary.read.loop_statistics import LoopSeen
from itinerary.read.nodes import NodeSeen
from itinerary.read.run_lookup import Run
from itinerary.read.runs import RunSeen
from itinerary.read.snapshot import at
from itinerary.records.batches import Event
from itinerary.records.inspect import DeskSeen, PartitionSeen

__all__ = [
    "AppliedTold",
    "BackfillTold",
    "Cancelled",
    "Changed",
    "DesksTold",
    "EventAppended",
    "EventsPage",
    "Health",
    "JobTold",
    "JobWhole",
    "JobsPage",
    "NodesTold",
    "PartitionsTold",
    "Pruned",
    "RunAsked",
    "RunsPage",
    "changed",
    "run_asked",
]


_OTHERS_MAX: Final = 1_000


class JobTold(JobSeen, frozen=True, kw_only=True):
    """One job in a line."""

    id: UUID
    """By which it can be addressed whatever its name is."""

    @classmethod
    def of(cls, seen: JobSeen) -> JobTold:
        """A job, as it was seen."""
        return cls(id=job_id(seen.job), **_fields(seen))


class JobsPage(msgspec.Struct, frozen=True):
    """Some jobs in the order of their names. A page may be short; there are more as long as `next` says so."""

    jobs: tuple[JobTold, ...]
    next: str | None


class JobWhole(JobDetail, frozen=True, kw_only=True):
    """One job with everything."""

    id: UUID

    @classmethod
    def of(cls, detail: JobDetail) -> JobWhole:
        """A job, as it was seen."""
        return cls(id=job_id(detail.seen.job), **_fields(detail))


class RunsPage(msgspec.Struct, frozen=True):
    """Some of a job's occurrences, those that ended last first."""

    job: str
    active: tuple[RunSeen, ...]
    """What has not ended; on the first page only."""
    runs: tuple[RunSeen, ...]
    next: str | None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """An entry on a job's timeline."""

    job: str
    kind: EntryKind
    version: int
    revision: int
    effective_from: datetime
    entered_at: datetime
    by: str
    reason: str | None
    until: datetime | None = None
    """Of a pause that ends by itself."""
    instant: datetime | None = None
    """The one that is skipped."""
    held: int | None = None
    """Of a pause: how many occurrences that have not started it holds."""
    released: int | None = None
    """Of the end of a pause: how many of those run now."""
    skipped: int | None = None
    """Of the end of a pause: how many of those were skipped."""


class RunAsked(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that was asked for."""

    job: str
    id: UUID
    number: int
    run: str
    kind: Kind


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that was asked to end."""

    number: int
    run: str
    cancelled_by: str
    """Who was first to ask, and why."""


class AdjustedTold(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that was adjusted before it started."""

    number: int
    run: str
    values: dict[str, Any]
    """Every value that is set on this run, by its key."""


class BackfillTold(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backfill is."""

    job: str
    key: str | None
    is_dry: bool
    looked_at: int
    """How many instants the range has."""
    instants: tuple[datetime, ...]
    """What is run, in order; at most a thousand are listed."""
    total: int
    """How many there are."""
    made: int
    """How many have an occurrence by now."""
    ended: dict[OccurrenceState, int]
    """How many have ended, and how."""
    is_worked_on: bool
    """Whether this node works on it; if it ends meanwhile, send the same request with the same key again."""
    follow: str | None
    """Where to look how far it is."""
    trouble: str | None = None
    """Why this node works on it no more, if something kept it from that."""


class AppliedTold(Application, frozen=True, kw_only=True):
    """What applying comes to, or would."""

    is_change: bool
    more_others: int
    """How many more jobs of the store are not named here; at most a thousand of them are listed."""

    @classmethod
    def of(cls, done: Application) -> AppliedTold:
        """The same, with an end."""
        kept = replace(done, others=done.others[:_OTHERS_MAX])
        more = len(done.others) - len(kept.others)
        return cls(**_fields(kept), is_change=done.is_change, more_others=more)


class NodesTold(msgspec.Struct, frozen=True):
    """Nodes, those that joined last first."""

    nodes: tuple[NodeSeen, ...]


class StatisticsTold(msgspec.Struct, frozen=True):
    """A page of what a node's loop did, newest first."""

    node: str
    number: int
    """The number of this start of the node."""
    rows: tuple[LoopSeen, ...]
    next: str | None
    """The cursor of the next page, with older rows; null on the last page."""


class DesksTold(msgspec.Struct, frozen=True):
    """Desks that have a log."""

    desks: tuple[DeskSeen, ...]


class PartitionsTold(msgspec.Struct, frozen=True):
    """The partitions of a desk."""

    desk: str
    partitions: tuple[PartitionSeen, ...]


class EventsPage(msgspec.Struct, frozen=True):
    """Events of a desk in the order of their numbers."""

    desk: str
    events: tuple[Event, ...]
    next: str | None


class EventAppended(msgspec.Struct, frozen=True, kw_only=True):
    """An event that stands in a log."""

    desk: str
    sequence: int
    kind: str
    record: str
    key: str


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a round of forgetting came to."""

    occurrences: int
    statistics: int
    """Rows of what nodes' loops did; they are not counted in a dry run."""
    is_dry: bool


class Health(msgspec.Struct, frozen=True):
    """The answer to a probe."""

    status: str
    why: str


def changed(job: JobRow, entry: EntryRow) -> Changed:
    """An entry, as who made it is told."""
    until = None
    if entry.kind is EntryKind.PAUSE and entry.body is not None:
        until = at(msgspec.json.decode(entry.body)["until"])
    return Changed(
        job=job.name,
        kind=entry.kind,
        version=entry.version,
        revision=entry.revision,
        effective_from=at(entry.effective_from),
        entered_at=at(entry.entered_at),
        by=entry.entered_by,
        reason=entry.reason,
        until=until,
        instant=at(int(entry.subject)) if entry.kind is EntryKind.SKIP else None,
    )


def run_asked(run: Run) -> RunAsked:
    """An occurrence, as who asked for it is told."""
    return RunAsked(job=run.job, id=run.id, number=run.ref, run=run.run_id, kind=run.key.kind)


def _fields(seen: msgspec.Struct) -> dict[str, Any]:
    return asdict(seen)
