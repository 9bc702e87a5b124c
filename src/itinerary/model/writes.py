"""Every durable write in the life of an occurrence, as a value: request and answer.

    ClaimRequest ─► Claimed            the row is created, unless another node's row exists (protocol rule 6)
    StartRequest ─► Started | Refused  slots are taken, it starts, its first attempts are written (7, 13–15)
    OwnerWrite ─► Written | Refused    each later launch, each change of state, the end (8–10)
    TakeoverWrite ─► …                 a write by a caller that is not the owner, always with a higher fence (9, 17)
    CancelRequest, AdjustRequest, SkipRequest    requests of people (protocol rule 25)

Requests go in batches. Every request gets an answer of its own, in the order of the requests. A refusal is an answer
and not an exception: it names the obstacle, and the caller stops its work.

Answers can get lost. So the same owner can repeat every request with the same fence, and gets the same answer as the
first time. For that, `sequence` counts the writes of an occurrence.

The store cleans free text when it writes it, so callers need not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.occurrence import Window
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, JobNumber, Key, NodeNumber, Ref, TaskRow
from itinerary.model.states import OccurrenceState

__all__ = [
    "BATCH_MAX",
    "AdjustRequest",
    "CancelRequest",
    "ClaimRequest",
    "Claimed",
    "LastBeat",
    "Limit",
    "OwnerWrite",
    "Refusal",
    "Refused",
    "SkipRequest",
    "StartRequest",
    "Started",
    "Step",
    "TakeoverWrite",
    "Written",
]

BATCH_MAX: Final = 10_000
"""The most requests in one call."""


class _Value(msgspec.Struct, frozen=True, gc=False):
    """A request or an answer."""


class ClaimRequest(_Value, frozen=True):
    """A request to create an occurrence: as `prerun`, `skipped` or `missed`, and by the sweep also as `queued`."""

    key: Key
    version: int
    due_at: int
    """The earliest start: its instant plus the jitter."""
    status: OccurrenceState = OccurrenceState.PRERUN
    is_recovery: bool = False
    priority: int = 0
    window: Window | None = None
    overrides: str | None = None
    """Overrides for this occurrence alone, as JSON."""
    details: str | None = None
    """The request that caused it, as JSON."""
    reason: str | None = None
    config: str | None = None
    """The configuration for its start if nothing changes. A store may prepare it in advance, to make the start
    faster."""


class Claimed(_Value, frozen=True):
    """A row that the caller owns: created now, or by an earlier request whose answer was lost."""

    ref: Ref
    key: Key
    fence: int
    adjustments: int


class Limit(_Value, frozen=True):
    """A named limit: the number of shares that all occurrences which name it have together."""

    name: str
    shares: int


class Step(_Value, frozen=True):
    """An observed change of state: the new state, the time, the reason."""

    to: OccurrenceState
    at: int | None = None
    """The time of the change. None: the time of the write, by the store's clock."""
    why: str | None = None


class StartRequest(_Value, frozen=True):
    """A request to start an occurrence now, with everything that the store needs to decide about it."""

    ref: Ref
    fence: int | None
    """The fence that the caller holds. None: take over an occurrence that has no owner, waits for any node, or is
    overdue."""
    adjustments: int
    """The number of adjustments that `config` includes. A higher number in the row means newer adjustments."""
    config: str
    """The frozen configuration, as JSON."""
    execution_timeout: int
    """The time after which the reaper may end it, including `kill_grace`."""
    overlap: Overlap
    max_queued: int | None = None
    limits: tuple[Limit, ...] = ()
    to: OccurrenceState = OccurrenceState.RUNNING
    """The first state after `pending`."""
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    seen: int | None = None
    """The fence with which an occurrence to take over was offered. An abandoned request may arrive after other nodes
    have owned the row and its caller has dropped it."""
    skip: str | None = None
    """The reason to record it as skipped instead of starting it: a pause, or a skip of this instant. This is decided
    when it is due, by the newest timeline (protocol rule 3)."""
    late_until: int = 0
    """The end of the time in which it is only late. Until then it queues behind a run that got the overlap slot after
    this one was due, under any overlap policy. After that a sweep decides first, if none has, and then the overlap
    policy. 0: it is never late."""
    passes_held: bool = False
    """True if it was requested after its job was paused. Occurrences that the pause holds do not block it. An
    occurrence that got the overlap slot and has not started returns to the queue."""
    job: JobNumber | None = None
    """The job whose overlap slot it needs. Set if the store may start it without reading its row."""
    instant: int | None = None
    """The instant of a scheduled occurrence. Set if the store may start it without reading its row."""
    is_plain: bool = False
    """True if the start needs no further writes, provided that the row is as claimed and the overlap slot is free: see
    `audit_trail.marked`."""


class Started(_Value, frozen=True):
    """The answer to a start. The caller runs the occurrence under this fence, and its next write has `sequence` + 1."""

    ref: Ref
    fence: int
    sequence: int
    started_at: int
    last_run_at: int | None = None
    """The instant of the last scheduled occurrence of the job before this one that started (see `LastRunsQuery`)."""
    knows_last_run: bool = True
    """False if `last_run_at` has to be looked up. A store never answers with False."""


class Refusal(StrEnum):
    """The reason why a write was refused."""

    LOST = "lost"
    """Another node owns it now, or it has ended: stop."""
    EARLY = "early"
    """The occurrence is not due yet, by the store's clock."""
    CANCELLED = "cancelled"
    """The occurrence has a request to cancel it."""
    ADJUSTED = "adjusted"
    """The overrides have changed since: read them and ask again."""
    SKIPPED = "skipped"
    """The job is running, so the occurrence has been skipped."""
    QUEUED = "queued"
    """The job is running, so the occurrence is in the overlap queue."""
    LIMITED = "limited"
    """A limit has no share left. The occurrence waits as `pending`."""
    UNSURE = "unsure"
    """The node of the run in the overlap slot is silent. The occurrence waits as `pending`: ask again until that node
    is known to be alive or dead."""
    OVERDUE = "overdue"
    """The occurrence was claimed for an instant older than the grace period, and no sweep has decided that instant yet.
    The recovery strategy of its job decides: ask again until a sweep has run."""
    MOVED = "moved"
    """The timeline has changed since, or a claimed row about which a sweep decides: read it and ask again."""
    ILLEGAL = "illegal"
    """The transition table does not have that step, or a write was left out: a bug that affects this occurrence
    alone."""
    UNWRITABLE = "unwritable"
    """The store cannot hold the content (protocol rule 12). The occurrence has failed with the reason."""
    GONE = "gone"
    """The occurrence does not exist."""
    ALIVE = "alive"
    """The owner has sent a heartbeat since it was declared dead: restart the failure detector for that node."""
    ELSEWHERE = "elsewhere"
    """The record of an event belongs to another partition of its stream."""


class Refused(_Value, frozen=True):
    """A refused write, and the obstacle."""

    ref: Ref
    why: Refusal
    by: str = ""


class OwnerWrite(_Value, frozen=True):
    """A write by the owner: steps, tasks, attempts.

    This is also the gate of every launch after the first: a new attempt in it may start only after the answer
    `Written`.
    """

    ref: Ref
    fence: int
    sequence: int
    """The number of this write: one higher than that of the previous write."""
    steps: tuple[Step, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    takes: tuple[Limit, ...] = ()
    """Shares that the occurrence gave back and needs again."""
    gives_back: bool = False
    """True if the occurrence waits and gives back its shares of limits, but not the overlap slot. An occurrence that
    ends gives back everything."""


class Written(_Value, frozen=True):
    """The answer to a change. `next` is the occurrence that got the overlap slot, which any node may start now."""

    ref: Ref
    next: Ref | None = None


class LastBeat(_Value, frozen=True):
    """The heartbeat counter of a node when that node was declared dead."""

    node: NodeNumber
    counter: int


class TakeoverWrite(_Value, frozen=True):
    """A write by a caller that is not the owner: release, takeover, orphan, reaping.

    The write raises the fence, so that the store refuses all further writes of the owner.

    A step from `queued` to `pending` gives the occurrence the overlap slot. The occurrence must be the first in the
    queue, and no running occurrence may hold the slot (protocol rule 14).
    """

    ref: Ref
    fence: int
    """The fence with which it was read. The row has changed since if it has another fence."""
    to: OccurrenceState | None
    """The new state. None: keep the state and only take it from its owner."""
    why: str
    owner: NodeNumber | None = None
    """The new owner. None: no owner."""
    gives_back: bool = False
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    by_way_of: tuple[OccurrenceState, ...] = ()
    """Intermediate states, if the table has no direct step to the new one."""
    is_unstarted: bool = False
    """True to write only if it has not started. The fence cannot show that, because a start does not raise it."""
    sequence: int | None = None
    """The sequence that the row must still have. After a newer write of the owner, the tasks and attempts in this
    request may be wrong."""
    expires_after: int | None = None
    """The new time limit from now on, after which the reaper may end it."""
    dead_since: LastBeat | None = None
    """The node that must have sent no heartbeat since. The decision may be older than the write. A rescue reads first,
    its calls may hang, and a frozen node may have resumed (protocol rule 16)."""


class CancelRequest(_Value, frozen=True):
    """A request to cancel. An unstarted occurrence is cancelled at once. A running one is notified and ends soon."""

    ref: Ref
    by: str
    """The requester and the reason: "anna: wrong data"."""


class SkipRequest(_Value, frozen=True):
    """A request to record an unstarted occurrence as skipped, with this reason."""

    ref: Ref
    why: str


class AdjustRequest(_Value, frozen=True):
    """New overrides for an occurrence that has not started, replacing the previous ones."""

    ref: Ref
    overrides: str
    since: int | None = None
    """The number of adjustments in the row when it was read. The store refuses the request if the row has another
    number. None: accept any number."""
    details: str | None = None
    """The details of the row, with the author and the reason of the adjustment. None: keep the details."""
