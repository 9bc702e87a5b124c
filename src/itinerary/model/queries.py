"""What can be read from a store, as values: each query knows the type of its answer.

Pages are bounded: a query has a limit, and its answer says where the next one begins. Nothing here is ever answered
from a node's memory; what a query says was so in the store at one moment.
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
    "Active",
    "Answer",
    "ByKey",
    "ByRef",
    "Decided",
    "Detail",
    "Details",
    "Entries",
    "Events",
    "EventsAt",
    "History",
    "Homes",
    "Jobs",
    "JobsByName",
    "LastRuns",
    "LimitUse",
    "Made",
    "Mail",
    "Nodes",
    "Offers",
    "Open",
    "Overdue",
    "Overtime",
    "Page",
    "Partitions",
    "Query",
    "Recent",
    "Standing",
    "Statistics",
    "Status",
    "Streams",
    "TokenNamed",
    "TokenOf",
    "Tokens",
    "Waiting",
]

PAGE_MAX: Final = 1_000
"""The most rows on a page for people (Q4); machines set their own limit."""

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Query(msgspec.Struct, Generic[Answer_co], frozen=True):
    """Something that can be asked of a store."""


class Page(msgspec.Struct, frozen=True):
    """Some occurrences, and where to go on: None when there are no more."""

    rows: tuple[OccurrenceRow, ...]
    next: int | None


class Status(msgspec.Struct, frozen=True):
    """How far a store is."""

    now: int
    revision: int
    watermark: int


class Standing(Query[Status], frozen=True):
    """How far is it?"""


class Entries(Query[Sequence[EntryRow]], frozen=True):
    """The timeline after a revision, in order. An answer never ends in the middle of a revision."""

    after: int
    limit: int = 10_000


class Jobs(Query[Sequence[JobRow]], frozen=True):
    """Jobs in the order of their numbers, after one."""

    after: JobNumber = JobNumber(0)
    limit: int = 10_000


class JobsByName(Query[Mapping[str, JobRow]], frozen=True):
    """The jobs of these names, where there are such."""

    names: tuple[str, ...]


class History(Query[Page], frozen=True):
    """A job's occurrences that have ended, the last first; `before` is the `next` of the page before.

    What has not ended is `Active(job)`.
    """

    job: JobNumber
    before: int | None = None
    limit: int = PAGE_MAX
    states: frozenset[OccurrenceState] = frozenset()
    """Only these, or all if empty."""
    looked_at_max: int = 10_000
    """How many occurrences are looked at for them, however few there are: a page may be empty and have a `next`."""


class Recent(Query[Mapping[JobNumber, Sequence[OccurrenceRow]]], frozen=True):
    """The last few occurrences that have ended of each of these jobs, the last first: many jobs in one question.

    What has been forgotten is passed over, so there may be fewer; a job that has none is left out.
    """

    jobs: tuple[JobNumber, ...]
    limit: int = 1
    ended_before: int | None = None
    """Of those that ended before this. Nearly: occurrences end in order but for a moment, and a few that ended just
    then may be too many or too few."""


class Active(Query[Sequence[OccurrenceRow]], frozen=True):
    """What is not final: of one job, or of all; with `due_before` what is due before that, the longest due first."""

    job: JobNumber | None = None
    due_before: int | None = None
    limit: int = 10_000
    with_lines: bool = True
    """And what stands in line, which is nobody's, and may be very much."""


class Waiting(Query[Sequence[OccurrenceRow]], frozen=True):
    """What anybody may start, the longest due first."""

    due_before: int
    limit: int


class Offers(msgspec.Struct, frozen=True):
    """Work for anybody, the store's time when it was looked for, and up to where everything was decided then."""

    now: int
    watermark: int
    rows: tuple[OccurrenceRow, ...]


class Open(Query[Offers], frozen=True):
    """What a node may start that is not its own, at most `limit` of each: what has waited longest for anybody, what has
    come last, what others have claimed and left lying for `takeover_after`, and what has begun and is nobody's, so that
    somebody must go on with it. Every node asks once a second, so it is one question.

    Some of the node's own that lie unstarted for as long are among them: the node takes up those that it does not know.

    What was claimed, and is older than the grace period, is left out until a sweep has come by: what nobody was there
    for goes through its job's recovery strategy (protocol rule 17)."""

    node: NodeNumber
    takeover_after: int
    limit: int
    grace_period: int


class Overtime(msgspec.Struct, frozen=True):
    """What is left to the reaper, and the store's time when it was looked for."""

    now: int
    expired: tuple[OccurrenceRow, ...]
    """What has begun and is over its time."""
    stuck: tuple[OccurrenceRow, ...]
    """The first in each line for a slot in which nobody is who still runs."""


class Overdue(Query[Overtime], frozen=True):
    """What has run longer than it may, and who waits for nobody, at most `limit` of each; the longest due first."""

    limit: int = 1_000


class ByKey(Query[Mapping[Key, OccurrenceRow]], frozen=True):
    """The occurrences of these keys, where there are such."""

    keys: tuple[Key, ...]


class ByRef(Query[Mapping[Ref, OccurrenceRow]], frozen=True):
    """These occurrences, where they are still there."""

    refs: tuple[Ref, ...]


class Made(Query[Sequence[OccurrenceRow]], frozen=True):
    """The occurrences after a number, in the order of numbers; without one the newest, and no other. They are given out
    in that order and may be committed in another: what seems to be left out may still come."""

    after: Ref | None = None
    limit: int = 10_000


class Decided(Query[Sequence[Key]], frozen=True):
    """The keys of all occurrences in a window of instants, in order: what the sweep and an audit compare with."""

    start: int
    end: int
    limit: int = 1_000_000
    begin: Key | None = None
    """From this one on, which may have been the last on the page before."""


class Detail(msgspec.Struct, frozen=True):
    """An occurrence with everything that is known of it."""

    row: OccurrenceRow
    config: str | None
    tasks: tuple[TaskRow, ...]
    attempts: tuple[AttemptRow, ...]
    transitions: tuple[TransitionRow, ...]
    last_run_at: int | None = None
    """The instant of the last run before it. `Details` leaves it out: who needs it asks for `LastRuns`."""


class LastRuns(Query[Mapping[Ref, int | None]], frozen=True):
    """The last run before each of these occurrences, where they are still there: the largest instant before its own of
    a scheduled occurrence of the same job that had started when this one started. None: there was none, or history has
    forgotten it."""

    refs: tuple[Ref, ...]


class Details(Query[Sequence[Detail]], frozen=True):
    """These occurrences with everything, where they are still there."""

    refs: tuple[Ref, ...]


class Nodes(Query[Sequence[NodeRow]], frozen=True):
    """The last nodes that joined, newest first."""

    limit: int = PAGE_MAX


class Mail(Query[Sequence[Ref]], frozen=True):
    """What a node should look at."""

    node: NodeNumber
    limit: int = 10_000


class Statistics(Query[Sequence[StatisticsRow]], frozen=True):
    """A node's statistics of `[since, until)`, oldest first, or newest first."""

    node: NodeNumber
    since: int = 0
    limit: int = 10_000
    until: int | None = None
    newest_first: bool = False


class LimitUse(Query[Sequence[Ref]], frozen=True):
    """Who holds the shares of a limit."""

    name: str
    limit: int = 10_000


class Partitions(Query[Sequence[PartitionRow]], frozen=True):
    """The partitions of a stream, and who holds them."""

    stream: str
    limit: int = 100_000


class Events(Query[Sequence[EventRow]], frozen=True):
    """A stream's events after a number: of one partition, or of all."""

    stream: str
    after: int = 0
    partition: str | None = None
    limit: int = 10_000


class EventsAt(Query[Mapping[int, EventRow]], frozen=True):
    """The events of a stream with these numbers, where there are such."""

    stream: str
    sequences: tuple[int, ...]


class Homes(Query[Mapping[str, str]], frozen=True):
    """The partitions that these records of a stream live in, of those that have an event."""

    stream: str
    records: tuple[str, ...]


class Streams(Query[Sequence[StreamRow]], frozen=True):
    """The streams that there are, and how far each of them is; or one of them."""

    stream: str | None = None
    limit: int = PAGE_MAX


class Tokens(Query[TokensSeen], frozen=True):
    """All tokens that are listed, good or not, in the order of their names."""


class TokenOf(Query[TokenSeen], frozen=True):
    """The token whose text has this SHA-256."""

    digest: str


class TokenNamed(Query[TokenSeen], frozen=True):
    """The token of this name."""

    name: str
