"""Bodies of responses that `read` has no type for."""

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
from itinerary.operations.apply import ApplyResult
from itinerary.read.job_detail import JobDetail
from itinerary.read.jobs import JobView
from itinerary.read.loop_statistics import LoopSeen
from itinerary.read.nodes import NodeSeen
from itinerary.read.run_lookup import RunReference
from itinerary.read.runs import RunView
from itinerary.read.snapshot import at
from itinerary.records.batches import Event
from itinerary.records.inspect import DeskSeen, PartitionSeen

__all__ = [
    "AppendResponse",
    "ApplyResponse",
    "BackfillResponse",
    "CancelResponse",
    "ChangeResponse",
    "EventsResponse",
    "JobResponse",
    "JobSummaryResponse",
    "JobsPage",
    "NodesResponse",
    "PartitionsResponse",
    "ProbeResponse",
    "PruneResponse",
    "RecordSchedulersResponse",
    "RunRequestResponse",
    "RunsPage",
    "changed",
    "run_asked",
]


_OTHERS_MAX: Final = 1_000


class JobSummaryResponse(JobView, frozen=True, kw_only=True):
    """A job in a list."""

    id: UUID
    """The id that addresses the job, whatever characters its name has."""

    @classmethod
    def of(cls, seen: JobView) -> JobSummaryResponse:
        """Return the response for a job."""
        return cls(id=job_id(seen.job), **_fields(seen))


class JobsPage(msgspec.Struct, frozen=True):
    """Jobs in the order of their names. A page may be short; more jobs follow while `next` is set."""

    jobs: tuple[JobSummaryResponse, ...]
    next: str | None


class JobResponse(JobDetail, frozen=True, kw_only=True):
    """A job with all details."""

    id: UUID

    @classmethod
    def of(cls, detail: JobDetail) -> JobResponse:
        """Return the response for a job."""
        return cls(id=job_id(detail.seen.job), **_fields(detail))


class RunsPage(msgspec.Struct, frozen=True):
    """Occurrences of a job, latest end first."""

    job: str
    active: tuple[RunView, ...]
    """Unfinished occurrences; on the first page only."""
    runs: tuple[RunView, ...]
    next: str | None


class ChangeResponse(msgspec.Struct, frozen=True, kw_only=True):
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
    """The end of a pause, if the pause has one."""
    instant: datetime | None = None
    """The skipped instant."""
    held: int | None = None
    """For a pause: the number of held occurrences that have not started."""
    released: int | None = None
    """For the end of a pause: the number of held occurrences that run now."""
    skipped: int | None = None
    """For the end of a pause: the number of held occurrences that were skipped."""


class RunRequestResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that a caller requested."""

    job: str
    id: UUID
    number: int
    run: str
    kind: Kind


class CancelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence whose cancellation was requested."""

    number: int
    run: str
    cancelled_by: str
    """The first caller who requested the cancellation, and the reason."""


class AdjustResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that was adjusted before it started."""

    number: int
    run: str
    values: dict[str, Any]
    """The overrides of this run, by key."""


class BackfillResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a backfill."""

    job: str
    key: str | None
    is_dry: bool
    looked_at: int
    """The number of instants in the range."""
    instants: tuple[datetime, ...]
    """The instants to run, in order; at most a thousand are listed."""
    total: int
    """The number of instants to run."""
    made: int
    """The number of instants that have an occurrence."""
    ended: dict[OccurrenceState, int]
    """The number of ended occurrences by state."""
    is_worked_on: bool
    """True if this node runs the backfill. If the node stops, send the same request with the same key again."""
    follow: str | None
    """The address of the backfill's progress."""
    trouble: str | None = None
    """The error that stopped the backfill on this node, if any."""


class ApplyResponse(ApplyResult, frozen=True, kw_only=True):
    """The result of an apply or a plan."""

    is_change: bool
    more_others: int
    """The number of further jobs of the store that are not listed; at most a thousand are."""

    @classmethod
    def of(cls, done: ApplyResult) -> ApplyResponse:
        """Return the response, with a limited list of other jobs."""
        kept = replace(done, others=done.others[:_OTHERS_MAX])
        more = len(done.others) - len(kept.others)
        return cls(**_fields(kept), is_change=done.is_change, more_others=more)


class NodesResponse(msgspec.Struct, frozen=True):
    """Nodes, latest join first."""

    nodes: tuple[NodeSeen, ...]


class StatisticsResponse(msgspec.Struct, frozen=True):
    """A page of a node's loop statistics, newest first."""

    node: str
    number: int
    """The number of this start of the node."""
    rows: tuple[LoopSeen, ...]
    next: str | None
    """The cursor of the next page, with older rows; null on the last page."""


class RecordSchedulersResponse(msgspec.Struct, frozen=True):
    """Record schedulers that have a log."""

    desks: tuple[DeskSeen, ...]


class PartitionsResponse(msgspec.Struct, frozen=True):
    """The partitions of a record scheduler."""

    desk: str
    partitions: tuple[PartitionSeen, ...]


class EventsResponse(msgspec.Struct, frozen=True):
    """Events of a record scheduler in the order of their numbers."""

    desk: str
    events: tuple[Event, ...]
    next: str | None


class AppendResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An event that was appended to a log."""

    desk: str
    sequence: int
    kind: str
    record: str
    key: str


class PruneResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a prune round."""

    occurrences: int
    statistics: int
    """Removed rows of loop statistics; a dry run does not count them."""
    is_dry: bool


class ProbeResponse(msgspec.Struct, frozen=True):
    """The response of a probe."""

    status: str
    why: str


def changed(job: JobRow, entry: EntryRow) -> ChangeResponse:
    """Return the response for a new timeline entry."""
    until = None
    if entry.kind is EntryKind.PAUSE and entry.body is not None:
        until = at(msgspec.json.decode(entry.body)["until"])
    return ChangeResponse(
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


def run_asked(run: RunReference) -> RunRequestResponse:
    """Return the response for a requested occurrence."""
    return RunRequestResponse(job=run.job, id=run.id, number=run.ref, run=run.run_id, kind=run.key.kind)


def _fields(seen: msgspec.Struct) -> dict[str, Any]:
    return asdict(seen)
