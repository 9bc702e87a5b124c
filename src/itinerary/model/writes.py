"""Every durable write in the life of an occurrence, as a value: what is asked for, and what is answered.

    Wanted ─► Claimed           the row is created, or somebody else's stands (protocol rule 6)
    Start ─► Started | Refused  its slots are taken, it begins, its first attempts are written (7, 13–15)
    Change ─► Written | Refused each later launch, each change of state, the end (8–10)
    Intervention ─► …           what somebody who is not the owner does to it, always with a higher fence (9, 17)
    Cancellation, Adjustment, Passing    what people ask of it (protocol rule 25)

Requests go in batches, and each comes back with an answer of its own, in the order of the requests. A refusal is an
answer and not an exception: it says who is in the way, and the one who asked stops what it was doing.

Answers get lost. So every request can be repeated, by the same owner with the same fence, and is answered as the first
time: that is what `sequence` is for, a number that counts an occurrence's writes.

Free text is cleaned by the store as it is written; whoever asks need not think of it.
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
    "Adjustment",
    "Cancellation",
    "Change",
    "Claimed",
    "Intervention",
    "LastBeat",
    "Limit",
    "Passing",
    "Refusal",
    "Refused",
    "Start",
    "Started",
    "Step",
    "Wanted",
    "Written",
]

BATCH_MAX: Final = 10_000
"""The most requests that one call takes."""


class _Value(msgspec.Struct, frozen=True, gc=False):
    """A request or an answer."""


class Wanted(_Value, frozen=True):
    """An occurrence that should exist. It is created as `prerun`, or at once as `skipped` or `missed`; by the
    sweep also as `queued`."""

    key: Key
    version: int
    due_at: int
    """When it may start: its instant, and the jitter on top."""
    status: OccurrenceState = OccurrenceState.PRERUN
    is_recovery: bool = False
    priority: int = 0
    window: Window | None = None
    overrides: str | None = None
    """Overrides for this one alone, as JSON."""
    details: str | None = None
    """What it was asked for with, as JSON."""
    reason: str | None = None
    config: str | None = None
    """What it will be started with if nothing changes: a store may get ready for that, so that its start need not."""


class Claimed(_Value, frozen=True):
    """A row that is the asker's: created now, or by an earlier try whose answer was lost."""

    ref: Ref
    key: Key
    fence: int
    adjustments: int


class Limit(_Value, frozen=True):
    """A number of shares that all occurrences which name it have together."""

    name: str
    shares: int


class Step(_Value, frozen=True):
    """A change of state that somebody saw: to what, when, why."""

    to: OccurrenceState
    at: int | None = None
    """None: when the write is made, by the store's clock."""
    why: str | None = None


class Start(_Value, frozen=True):
    """Begin an occurrence, now. Everything that has to be decided about it comes along."""

    ref: Ref
    fence: int | None
    """What the asker holds it by, or None to take over what is nobody's, waits for anybody, or is overdue."""
    adjustments: int
    """The adjustments that `config` was made from; others have come since if the row has more."""
    config: str
    """The frozen configuration, as JSON."""
    execution_timeout: int
    """After which it is the reaper's, `kill_grace` included."""
    overlap: Overlap
    max_queued: int | None = None
    limits: tuple[Limit, ...] = ()
    to: OccurrenceState = OccurrenceState.RUNNING
    """Its first state after `pending`."""
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    seen: int | None = None
    """Of what is taken over: the fence that it was offered with. A try that was given up may arrive when the row has
    been through other hands, and its asker has long forgotten it."""
    skip: str | None = None
    """Why it is not begun but recorded as skipped: its instant is passed over, by a pause or by name. That is decided
    here, when it is due, and by the newest timeline (protocol rule 3)."""
    late_until: int = 0
    """Until then it is merely late, and queues behind a run that got the slot only after it was due, whatever its
    overlap policy. After that a sweep decides about it first, if none has, and then the policy. 0: it is never late."""
    passes_held: bool = False
    """Its job is paused, and it was asked for since: what the pause holds does not stand in its way. Who was handed the
    slot and has not begun goes back into the queue."""
    job: JobNumber | None = None
    """Whose slot it needs; said where it may be begun without being read."""
    instant: int | None = None
    """The instant of a scheduled occurrence; said where it may be begun without being read."""
    is_plain: bool = False
    """Whether there is nothing to it but that it begins, if its row is as it was claimed and its job's slot is free:
    see `trails.marked`."""


class Started(_Value, frozen=True):
    """It has begun, once and for all; the asker runs it under this fence, and its next write has `sequence` + 1."""

    ref: Ref
    fence: int
    sequence: int
    started_at: int
    last_run_at: int | None = None
    """The instant of the last scheduled occurrence of the job before this one that started (see `LastRuns`)."""
    knows_last_run: bool = True
    """False: `last_run_at` has to be looked up. A store never answers with this."""


class Refusal(StrEnum):
    """Why a write was not made."""

    LOST = "lost"
    """Somebody else has it now, or it has ended: stop."""
    EARLY = "early"
    """It is not due yet, by the store's clock."""
    CANCELLED = "cancelled"
    """It has a request to cancel it."""
    ADJUSTED = "adjusted"
    """Its overrides have changed since: read them and ask again."""
    SKIPPED = "skipped"
    """Its job is running, and it has been skipped for that."""
    QUEUED = "queued"
    """Its job is running, and it stands in line."""
    LIMITED = "limited"
    """A limit has no share left; it waits as `pending`."""
    UNSURE = "unsure"
    """The node of the run in its job's slot is silent. It waits as `pending`: ask again, until that node is known to be
    alive or dead."""
    OVERDUE = "overdue"
    """It was claimed for an instant that is older than the grace period, and no sweep has decided that instant yet: the
    recovery strategy of its job decides. Ask again, until a sweep has."""
    MOVED = "moved"
    """The timeline has changed since, or a claimed row that a sweep decides about: read it and ask again."""
    ILLEGAL = "illegal"
    """The table of transitions does not hold that step, or a write was left out: a bug, of this occurrence alone."""
    UNWRITABLE = "unwritable"
    """The store cannot hold what it says (protocol rule 12); the occurrence has been failed with the reason."""
    GONE = "gone"
    """There is no such occurrence."""
    ALIVE = "alive"
    """Its owner has sent a heartbeat since it was judged to be dead: observe that node anew."""
    ELSEWHERE = "elsewhere"
    """The record that an event is about lives in another partition of its stream."""


class Refused(_Value, frozen=True):
    """A write that was not made, and who or what is in the way."""

    ref: Ref
    why: Refusal
    by: str = ""


class Change(_Value, frozen=True):
    """A write by the owner: steps, tasks, attempts. Also the gate of every launch after the first: an attempt that is
    new in here may begin when the answer is `Written`, and not before."""

    ref: Ref
    fence: int
    sequence: int
    """One more than that of the write before it."""
    steps: tuple[Step, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    takes: tuple[Limit, ...] = ()
    """Shares that it needs again, having given them back."""
    gives_back: bool = False
    """It waits, and gives back its shares of limits; its job's slot stays its own. What ends gives back everything."""


class Written(_Value, frozen=True):
    """The change stands. `next` is the occurrence that its slot went to, which anybody may start now."""

    ref: Ref
    next: Ref | None = None


class LastBeat(_Value, frozen=True):
    """The heartbeat counter of a node when that node was judged to be dead."""

    node: NodeNumber
    counter: int


class Intervention(_Value, frozen=True):
    """A write by somebody who is not the owner: release, takeover, orphan, reaping. It raises the fence, so that
    whatever the owner still writes is refused.

    To take a `queued` one to `pending` is to give it the slot that it stands in line for: if it is the first, and
    nobody is in there who still runs (protocol rule 14).
    """

    ref: Ref
    fence: int
    """The fence that it was seen with; it has moved on if the row has another."""
    to: OccurrenceState | None
    """The new state, or None to leave it and only take it from its owner."""
    why: str
    owner: NodeNumber | None = None
    """Who has it from now on; None: nobody."""
    gives_back: bool = False
    tasks: tuple[TaskRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    by_way_of: tuple[OccurrenceState, ...] = ()
    """States that it passes through, where the table has no step straight to the new one."""
    is_unstarted: bool = False
    """Only if it has not begun: a start does not raise the fence, so a fence alone does not tell."""
    sequence: int | None = None
    """Only if its owner has written nothing since: else what is said here of tasks and attempts may be wrong by now."""
    expires_after: int | None = None
    """It begins anew in a way: from now on it has so long, before it is the reaper's."""
    dead_since: LastBeat | None = None
    """Only if this node has sent no heartbeat since. The judgement may be older than the write: a rescue reads first,
    its calls may hang, and a frozen node may have thawed meanwhile (protocol rule 16)."""


class Cancellation(_Value, frozen=True):
    """A request to cancel. What has not started is cancelled at once; what runs is told, and ends soon."""

    ref: Ref
    by: str
    """Who, and why: "anna: wrong data"."""


class Passing(_Value, frozen=True):
    """A request not to run what has not started: it is recorded as skipped, with this reason."""

    ref: Ref
    why: str


class Adjustment(_Value, frozen=True):
    """New overrides for an occurrence that has not started, in place of those it had."""

    ref: Ref
    overrides: str
    since: int | None = None
    """How many adjustments the row had when it was read. With others it is refused; None: whatever it has."""
    details: str | None = None
    """The details of the row, with who adjusted it and why; None: as they are."""
