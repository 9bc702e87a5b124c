"""The queries that a store answers, as values. Every query has the type of its answer.

Pages are bounded: a query has a limit, and its answer contains the start of the next page. No answer comes from a
node's memory. An answer is the content of the store at one moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from itinerary.model.rows import (
    AttemptRow,
    EntryRow,
    EventRow,
    JobNumber,
    JobRow,
    Key,
    NodeNumber,
    NodeRow,
    OccurrenceRow,
    PartitionRow,
    Ref,
    StatisticsRow,
    StreamRow,
    TaskRow,
    TransitionRow,
)
from itinerary.model.states import OccurrenceState
from itinerary.model.tokens import TokenSeen, TokensSeen

__all__ = [
    "PAGE_MAX",
    "ActiveQuery",
    "Answer",
    "ByKeyQuery",
    "ByRefQuery",
    "CreatedQuery",
    "DecidedQuery",
    "Detail",
    "DetailsQuery",
    "EntriesQuery",
    "EventsAtQuery",
    "EventsQuery",
    "HistoryQuery",
    "JobsByNameQuery",
    "JobsQuery",
    "LastRunsQuery",
    "LimitUseQuery",
    "MailQuery",
    "NodesQuery",
    "Offers",
    "OpenQuery",
    "OverdueQuery",
    "Overtime",
    "Page",
    "PartitionsQuery",
    "Query",
    "RecentQuery",
    "RecordPartitionsQuery",
    "StatisticsQuery",
    "Status",
    "StoreStatusQuery",
    "StreamsQuery",
    "TokenByNameQuery",
    "TokenBySecretQuery",
    "TokensQuery",
    "WaitingQuery",
]

PAGE_MAX: Final = 1_000
"""The most rows on a page for people (Q4). Programs set their own limit."""

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Query(msgspec.Struct, Generic[Answer_co], frozen=True):
    """A question to a store."""


class Page(msgspec.Struct, frozen=True):
    """A page of occurrences, and the start of the next page: None on the last page."""

    rows: tuple[OccurrenceRow, ...]
    next: int | None


class Status(msgspec.Struct, frozen=True):
    """The progress of a store."""

    now: int
    revision: int
    watermark: int


class StoreStatusQuery(Query[Status], frozen=True):
    """Query for the progress of the store."""


class EntriesQuery(Query[Sequence[EntryRow]], frozen=True):
    """Query for the timeline after a revision, in order. An answer never ends in the middle of a revision."""

    after: int
    limit: int = 10_000


class JobsQuery(Query[Sequence[JobRow]], frozen=True):
    """Query for the jobs after a number, in the order of their numbers."""

    after: JobNumber = JobNumber(0)
    limit: int = 10_000


class JobsByNameQuery(Query[Mapping[str, JobRow]], frozen=True):
    """Query for jobs by name. Unknown names are left out."""

    names: tuple[str, ...]


class HistoryQuery(Query[Page], frozen=True):
    """Query for a job's ended occurrences, the last first. `before` is the `next` of the previous page.

    `ActiveQuery(job)` has the occurrences that have not ended.
    """

    job: JobNumber
    before: int | None = None
    limit: int = PAGE_MAX
    states: frozenset[OccurrenceState] = frozenset()
    """The states to include. Empty: all."""
    looked_at_max: int = 10_000
    """The most occurrences to examine. A page may be empty and still have a `next`."""


class RecentQuery(Query[Mapping[JobNumber, Sequence[OccurrenceRow]]], frozen=True):
    """Query for the last few ended occurrences of each of many jobs, the last first.

    Pruned occurrences are passed over, so there may be fewer. A job that has none is left out.
    """

    jobs: tuple[JobNumber, ...]
    limit: int = 1
    ended_before: int | None = None
    """Only occurrences that ended before this time, approximately. Occurrences end almost in order, so a few that ended
    close to it may be missing or extra."""


class ActiveQuery(Query[Sequence[OccurrenceRow]], frozen=True):
    """Query for occurrences that are not final: of one job, or of all.

    With `due_before`, only those due before that time, the longest due first.
    """

    job: JobNumber | None = None
    due_before: int | None = None
    limit: int = 10_000
    with_queued: bool = True
    """True to include queued occurrences, which have no owner and may be very many."""


class WaitingQuery(Query[Sequence[OccurrenceRow]], frozen=True):
    """Query for the occurrences that any node may start, the longest due first."""

    due_before: int
    limit: int


class Offers(msgspec.Struct, frozen=True):
    """Occurrences that any node may start, with the store's time and the watermark at the time of the query."""

    now: int
    watermark: int
    rows: tuple[OccurrenceRow, ...]


class OpenQuery(Query[Offers], frozen=True):
    """Query for the occurrences that a node may start besides its own, at most `limit` of each kind.

        waiting      the longest waiting for any node, and the newest
        claimed      claimed by another node and not started within `takeover_after`
        ownerless    started, without an owner: another node must resume them

    Every node asks once a second, so all of this is one query.

    The answer also contains some of the node's own occurrences that have not started for that long. The node takes over
    those that it does not know.

    Claimed occurrences older than the grace period are left out until a sweep has run. The recovery strategy of the job
    decides about instants at which no node was running (protocol rule 17).
    """

    node: NodeNumber
    takeover_after: int
    limit: int
    grace_period: int


class Overtime(msgspec.Struct, frozen=True):
    """Occurrences for the reaper, with the store's time of the query."""

    now: int
    expired: tuple[OccurrenceRow, ...]
    """Occurrences that have started and exceeded their time."""
    stuck: tuple[OccurrenceRow, ...]
    """The first occurrence in each overlap queue whose overlap slot is held by no running occurrence."""


class OverdueQuery(Query[Overtime], frozen=True):
    """Query for overdue occurrences and stuck overlap queues, at most `limit` of each, the longest due first."""

    limit: int = 1_000


class ByKeyQuery(Query[Mapping[Key, OccurrenceRow]], frozen=True):
    """Query for occurrences by key. Missing ones are left out."""

    keys: tuple[Key, ...]


class ByRefQuery(Query[Mapping[Ref, OccurrenceRow]], frozen=True):
    """Query for occurrences by number. Missing ones are left out."""

    refs: tuple[Ref, ...]


class CreatedQuery(Query[Sequence[OccurrenceRow]], frozen=True):
    """Query for the occurrences after a number, in the order of numbers. Without a number: only the newest one.

    Numbers are assigned in that order but may be committed in another: a number that seems to be missing may still
    appear.
    """

    after: Ref | None = None
    limit: int = 10_000


class DecidedQuery(Query[Sequence[Key]], frozen=True):
    """Query for the keys of all occurrences in a window of instants, in order.

    The sweep and an audit compare with them.
    """

    start: int
    end: int
    limit: int = 1_000_000
    begin: Key | None = None
    """The first key, which may have been the last on the previous page."""


class Detail(msgspec.Struct, frozen=True):
    """An occurrence with all of its rows."""

    row: OccurrenceRow
    config: str | None
    tasks: tuple[TaskRow, ...]
    attempts: tuple[AttemptRow, ...]
    transitions: tuple[TransitionRow, ...]
    last_run_at: int | None = None
    """The instant of the last run before it. `DetailsQuery` leaves it out: use `LastRunsQuery`."""


class LastRunsQuery(Query[Mapping[Ref, int | None]], frozen=True):
    """Query for the last run before each of these occurrences. Missing occurrences are left out.

    The last run is a scheduled occurrence of the same job that had started when this one started. Among these it has
    the largest instant before this one. None: there was none, or it was pruned.
    """

    refs: tuple[Ref, ...]


class DetailsQuery(Query[Sequence[Detail]], frozen=True):
    """Query for occurrences with all of their rows. Missing ones are left out."""

    refs: tuple[Ref, ...]


class NodesQuery(Query[Sequence[NodeRow]], frozen=True):
    """Query for the last nodes that joined, newest first."""

    limit: int = PAGE_MAX


class MailQuery(Query[Sequence[Ref]], frozen=True):
    """Query for the occurrences that a node should look at."""

    node: NodeNumber
    limit: int = 10_000


class StatisticsQuery(Query[Sequence[StatisticsRow]], frozen=True):
    """Query for a node's statistics of `[since, until)`, oldest first, or newest first."""

    node: NodeNumber
    since: int = 0
    limit: int = 10_000
    until: int | None = None
    newest_first: bool = False


class LimitUseQuery(Query[Sequence[Ref]], frozen=True):
    """Query for the occurrences that hold the shares of a limit."""

    name: str
    limit: int = 10_000


class PartitionsQuery(Query[Sequence[PartitionRow]], frozen=True):
    """Query for the partitions of a stream, with their holders."""

    stream: str
    limit: int = 100_000


class EventsQuery(Query[Sequence[EventRow]], frozen=True):
    """Query for a stream's events after a number: of one partition, or of all."""

    stream: str
    after: int = 0
    partition: str | None = None
    limit: int = 10_000


class EventsAtQuery(Query[Mapping[int, EventRow]], frozen=True):
    """Query for the events of a stream with these numbers. Missing ones are left out."""

    stream: str
    sequences: tuple[int, ...]


class RecordPartitionsQuery(Query[Mapping[str, str]], frozen=True):
    """Query for the partitions of these records of a stream. Records without an event are left out."""

    stream: str
    records: tuple[str, ...]


class StreamsQuery(Query[Sequence[StreamRow]], frozen=True):
    """Query for the streams with the number of their last event: all streams, or one."""

    stream: str | None = None
    limit: int = PAGE_MAX


class TokensQuery(Query[TokensSeen], frozen=True):
    """Query for all listed tokens, valid or not, in the order of their names."""


class TokenBySecretQuery(Query[TokenSeen], frozen=True):
    """Query for the token whose text has this SHA-256."""

    digest: str


class TokenByNameQuery(Query[TokenSeen], frozen=True):
    """Query for the token of this name."""

    name: str
