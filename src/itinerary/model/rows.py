"""What a store keeps, row by row, with plain values in every field: the declared schema of all stores.

    JobRow 1 ── n EntryRow                       a job, and its timeline: versions, pauses, removal (PROTOCOL 3)
       │ └──── SlotRow 1 ── n ChapterRow         its place to run in, and its history in order
       └─ n OccurrenceRow 1 ── n TaskRow 1 ── n AttemptRow
                 └───────────── n TransitionRow      the audit trail (D3)

Rows are for machines. Things are known by short numbers that the store gives out; the UUIDs of D1, which people and
other systems use, are computed where they are shown (`Key.id`). As keys they were measured: a third of the cost of a
write in memory, and an index of them takes eight times as long to grow at five million rows, since each lands anywhere.
Instants are microseconds since the epoch.

A row is created thousands of times a second, so these are structs without garbage collection or validation; text from
outside is cleaned where it comes in (see `writes`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, NewType
from uuid import UUID

import msgspec

from itinerary.model.ids import JobId, OccurrenceId, backfill_id, occurrence_id, replay_id, trigger_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.states import OccurrenceState, TaskState

__all__ = [
    "ActiveRow",
    "AttemptRow",
    "BooksRow",
    "CauseRow",
    "ChapterRow",
    "ConfigRow",
    "EntryKind",
    "EntryRow",
    "EventRow",
    "JobNumber",
    "JobRow",
    "Key",
    "LimitRow",
    "MailRow",
    "NodeNumber",
    "NodeRow",
    "OccurrenceRow",
    "PartitionRow",
    "Ref",
    "ShareRow",
    "SignalRow",
    "SlotRow",
    "StatisticsRow",
    "StreamRow",
    "SweepRow",
    "TaskRow",
    "TransitionRow",
    "WaitingRow",
    "WindowRow",
]

Ref = NewType("Ref", int)
"""An occurrence, for as long as its row is there; never given out twice."""
JobNumber = NewType("JobNumber", int)
"""A job, for ever, through removal and registration again; 0 stands for what concerns all jobs."""
NodeNumber = NewType("NodeNumber", int)
"""One start of one node (PROTOCOL 1): never given out twice, not even to the same machine."""


class Key(NamedTuple):
    """What makes an occurrence the same one (PROTOCOL 2). `recovery` of an instant has the key of `scheduled`.

    The instant comes first, so that rows which are created together lie together and the index grows at its end.
    """

    instant: int
    job: JobNumber
    kind: Kind
    request: str = ""
    """Of a trigger its request key, of a replay `<original>/<number>`; nothing for the others."""

    def id(self, job: JobId) -> OccurrenceId:
        """The id that people and other systems know it by."""
        match self.kind:
            case Kind.SCHEDULED | Kind.RECOVERY:
                return occurrence_id(job, self.instant)
            case Kind.BACKFILL:
                return backfill_id(job, self.instant)
            case Kind.TRIGGER:
                return trigger_id(job, self.request)
            case Kind.REPLAY:
                original, _, number = self.request.partition("/")
                return replay_id(job, OccurrenceId(UUID(original)), int(number))


class _Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A row of plain values."""


class JobRow(_Row, frozen=True):
    """A job: its number, and what is the same whatever its timeline says."""

    number: JobNumber
    name: str
    registered_at: int
    version: int
    """The newest version, in force or not."""
    history_floor: int
    """Below this instant an absent row means nothing: rows have been pruned, or it was not registered yet."""
    last_run_at: int | None = None
    """The instant of the last started occurrence whose row has been pruned (PROTOCOL 22)."""


class EntryKind(StrEnum):
    """What a timeline entry says (PROTOCOL 3)."""

    VERSION = "version"
    """The job is defined like this, from then on."""
    PAUSE = "pause"
    """Its instants are skipped, from then on."""
    RESUME = "resume"
    STOP = "stop"
    """It expects nothing, from then on."""
    START = "start"
    REMOVE = "remove"
    """It is gone; a later version brings it back."""
    SKIP = "skip"
    """One named instant is skipped."""
    CALENDAR = "calendar"
    """A named calendar of dates and blackouts reads like this, from then on."""
    ZONE = "zone"
    """A time zone's transitions read like this, from then on (PROTOCOL 5)."""


class EntryRow(_Row, frozen=True):
    """One entry on the timeline. They are read in the order of revisions, and never changed."""

    revision: int
    line: int
    """Several entries may be made at once, under one revision."""
    job: JobNumber
    kind: EntryKind
    request: str
    """What makes two requests for it the same one."""
    effective_from: int
    entered_at: int
    entered_by: str
    version: int
    """The job's newest version after it."""
    subject: str = ""
    """The calendar or zone that it is about, the instant that is skipped."""
    body: str | None = None
    """The definition, the calendar, the zone's transitions: JSON."""
    reason: str | None = None


class OccurrenceRow(_Row, frozen=True):
    """One due instant of a job; the row is the lock."""

    ref: Ref
    instant: int
    job: JobNumber
    kind: Kind
    request: str
    version: int
    due_at: int
    """When it may start: its instant, and the jitter on top."""
    is_recovery: bool
    priority: int
    created_at: int
    created_by: NodeNumber | None
    status: OccurrenceState
    owner: NodeNumber | None
    fence: int
    """Raised by everyone who takes it from its owner; writes that carry a lower one are refused."""
    sequence: int = 0
    """How many writes its owner has made: by this a repeated one is known."""
    adjustments: int = 0
    """How often its overrides have changed."""
    started_at: int | None = None
    ended_at: int | None = None
    expires_at: int | None = None
    """When the reaper may end it."""
    overrides: str | None = None
    """What was set for this one alone, as JSON."""
    details: str | None = None
    """What it was asked for with: the tasks of a replay, say; JSON."""
    config: int | None = None
    """What it was started with, as a number of ConfigRow."""
    own_config: str | None = None
    """The same, of one that has overrides: its text, since no other will share it."""
    window_start: int | None = None
    window_end: int | None = None
    window_count: int | None = None
    holds: str | None = None
    """The limits that it holds a share of, as a JSON list."""
    cancelled_by: str | None = None
    """Who asked for it to be cancelled, and why; the request stands until it is final."""
    is_withdrawn: bool = False
    """It was an update that cancelled it, before it started: a later version may bring it back (R7)."""
    reason: str | None = None
    touched_by: NodeNumber | None = None
    """Who intervened last."""
    place: int | None = None
    """Its place in its job's history, counted from 0; None while it has not ended."""

    @property
    def key(self) -> Key:
        """What makes it the same one."""
        return Key(self.instant, self.job, self.kind, self.request)

    @property
    def window(self) -> Window | None:
        """The instants that it answers for, if more than its own."""
        if self.window_start is None or self.window_end is None or self.window_count is None:
            return None
        return Window(self.window_start, self.window_end, self.window_count)


class TaskRow(_Row, frozen=True):
    """One task of an occurrence: keyed by its place in the job."""

    ref: Ref
    place: int
    name: str
    status: TaskState
    retries: int = 0
    cancelled_by: str | None = None
    reason: str | None = None
    result: str | None = None


class AttemptRow(_Row, frozen=True):
    """One try of a task: keyed by the task's place, and its own number from 1."""

    ref: Ref
    place: int
    number: int
    status: TaskState
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    output: str | None = None


class TransitionRow(_Row, frozen=True):
    """One line of the audit trail."""

    ref: Ref
    sequence: int
    """The write that made it; the lines of one write are told apart by `line`."""
    line: int
    before: OccurrenceState | None
    after: OccurrenceState
    at: int
    node: NodeNumber | None
    why: str | None = None


class ActiveRow(_Row, frozen=True):
    """An occurrence that is not final, so that these are found without reading history."""

    job: JobNumber
    ref: Ref
    due_at: int


class WaitingRow(_Row, frozen=True):
    """An occurrence that anybody may start: nobody's, or waiting for a node with room."""

    due_at: int
    ref: Ref


class WindowRow(_Row, frozen=True):
    """An occurrence that answers for more instants than its own (PROTOCOL 20), found by where its window ends."""

    end: int
    ref: Ref


class SlotRow(_Row, frozen=True):
    """A job's place to run in. The row is always there; whoever is named in it runs, or is about to."""

    job: JobNumber
    ref: Ref | None = None
    fence: int = 0
    has_line: bool = False
    """Whether others may stand in line for it: set with the first that does, cleared when nobody is found there."""
    count: int = 0
    """How many of the job's occurrences have ended: the newest part of its history is kept here too."""
    recent: bytes = b""
    """The last few of those, which are not in a chapter yet."""


class ChapterRow(_Row, frozen=True):
    """An older part of a job's history, full and closed."""

    job: JobNumber
    number: int
    refs: bytes


class ConfigRow(_Row, frozen=True):
    """A frozen configuration, kept once however many occurrences were started with it."""

    number: int
    digest: str
    body: str


class LimitRow(_Row, frozen=True):
    """A named limit; the row is there to be locked."""

    name: str


class ShareRow(_Row, frozen=True):
    """One share of a limit, held by an occurrence."""

    name: str
    ref: Ref


class NodeRow(_Row, frozen=True):
    """One start of one node."""

    number: NodeNumber
    incarnation: str
    name: str
    about: str
    """Host, process, version: JSON."""
    joined_at: int
    counter: int = 0
    """Goes up with each heartbeat; nobody compares its clock (PROTOCOL 16)."""
    beat_at: int = 0
    left_at: int | None = None


class MailRow(_Row, frozen=True):
    """Something that a node should look at: an occurrence of its own that somebody has cancelled or adjusted."""

    node: NodeNumber
    ref: Ref


class BooksRow(_Row, frozen=True):
    """The one row that says how far the timeline is."""

    one: int
    revision: int = 0


class SweepRow(_Row, frozen=True):
    """The one row of the sweep (PROTOCOL 19): up to where all is decided, and the plan that is being worked off."""

    one: int
    watermark: int
    owner: NodeNumber | None = None
    fence: int = 0
    step: int = 0
    plan_from: int | None = None
    plan_to: int | None = None
    cursor: str = ""


class SignalRow(_Row, frozen=True):
    """How often something has happened that others should hear of."""

    topic: str
    count: int


class StatisticsRow(_Row, frozen=True):
    """What a node's loop did in one interval (L10)."""

    node: NodeNumber
    at: int
    iterations: int
    longest_us: int
    total_us: int
    active: int
    index_size: int
    inbox_depth: int
    messages: int


class StreamRow(_Row, frozen=True):
    """A log of events: the number of its last one."""

    stream: str
    last: int = 0


class PartitionRow(_Row, frozen=True):
    """A part of a stream, and who may write to it as its scheduler (E8)."""

    stream: str
    partition: str
    holder: NodeNumber | None = None
    fence: int = 0
    lease_until: int = 0


class EventRow(_Row, frozen=True):
    """One event. Numbers are those of the whole stream, without gaps, in the order of commits (PROTOCOL 29)."""

    stream: str
    partition: str
    sequence: int
    kind: str
    record: str
    at: int
    data: str | None = None


class CauseRow(_Row, frozen=True):
    """What brought an event about, so that it is not brought about twice."""

    stream: str
    cause: str
    sequence: int
