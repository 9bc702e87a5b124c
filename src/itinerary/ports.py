"""The protocols at the edge, each with what it owes.

`Store` is everything durable. Its writes come in batches, and each request in a batch is answered for itself. What all
of them owe:

- **Durable, then answered.** When a call returns, what it says is committed as safely as the store is set up to be.
- **Whole or not at all.** A call that raises has written nothing, or, if its answer was lost, all of it.
- **Repeatable.** Any call, repeated with the same arguments, answers as the first time and changes nothing more.
- **The store's clock.** Whether something is due is decided by the time of the store, never by that of the asker.
- **Fenced.** A write for an occurrence is accepted from its owner under its present fence, and from nobody else;
  everyone who takes it from its owner raises the fence.

What cannot be done at all raises a `StoreError`; what must not be done is answered with a refusal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from itinerary.model.attempts import Assignment, AttemptKey, Leftover, Report
from itinerary.model.events import Lease, NewEvent
from itinerary.model.heartbeat import Beat
from itinerary.model.queries import Answer, Query
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.rows import NodeNumber, Ref, StatisticsRow, TokenRow
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import Denied, Entered, Judge, NewEntry
from itinerary.model.tokens import NewToken, Ungranted
from itinerary.model.writes import (
    Adjustment,
    Cancellation,
    Change,
    Claimed,
    Intervention,
    Passing,
    Refusal,
    Refused,
    Start,
    Started,
    Wanted,
    Written,
)

__all__ = ["Clock", "Executor", "LeavesBehind", "Store", "TaskTransaction"]


class TaskTransaction(Protocol):
    """What a task gets from `ctx.transaction()` (D6): statements of its own that commit with its attempt's success."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that writes. Returns how many rows it touched; a store that writes at the end returns -1."""

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement that reads, and return its rows.

        A store that writes at the end refuses this after the first `execute`, since it could not show what that wrote.
        """


class Clock(Protocol):
    """What time it is, in microseconds."""

    def now(self) -> int:
        """The time of the store, as far as it is known here: never later than it really is (protocol rule 23)."""

    def elapsed(self) -> int:
        """Time since some moment in the past, sleep of the machine included; only differences mean anything."""


class Executor(Protocol):
    """Runs attempts of one kind: functions, commands, pods. What every executor owes:

    - **Exactly one `Ended` for each assignment**, whatever the task does: raises, returns, dies, hangs, is stopped.
    - **Never in the way.** `begin`, `stop` and `kill` return at once; what takes time is done elsewhere.
    - **Nothing comes out but reports.** A task that raises is a `Failed`; so is one that cannot even be begun.
    - **The truth about what was called.** A `Stopped` has `was_called=False` only if the function was never called and
      never will be. A graceful shutdown gives such a run back, and another node runs it.

    The three calls come from the engine's loop. Reports may be made from any thread.
    """

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        """Get ready. From now on what happens is reported."""

    async def close(self) -> None:
        """End by force what still runs, report it, and let go of everything. Closing twice has no effect."""

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Begin these attempts."""

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        """Ask these to end: cancel the coroutine, tell the thread, terminate the process. Those that are over, or are
        asked already, are left alone."""

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        """End these by force, or, where there is no force, give them up: they are reported as `Stopped` now, and
        whatever they still do counts for nothing."""


@runtime_checkable
class LeavesBehind(Protocol):
    """An executor whose work outlives it: pods, which stay to be looked at when they are over, and go on when their
    node is gone. What is left behind is removed when the end of its attempt is durable, and never before."""

    async def left_behind(self) -> Sequence[Leftover]:
        """What is there, of whatever node; what cannot be found out now is left for the next time."""

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        """Remove these, if they are still the same; what cannot be removed now is left for the next time."""


class Store(Protocol):
    """Everything durable (see above for what each call owes)."""

    @property
    def url(self) -> str:
        """Where it is, as messages may name it: without a password."""

    async def open(self) -> None:
        """Connect; create what is not there; migrate an older schema while others wait; refuse a newer one (D7)."""

    async def close(self) -> None:
        """Finish what was asked, and let go of everything. Closing twice has no effect."""

    async def get_ready(self) -> None:
        """A node is about to run: do now what would make its first writes slower than later ones. Changes nothing."""

    # -- nodes and the timeline --------------------------------------------------------------------------------------

    async def join(self, incarnation: str, name: str, about: str) -> NodeNumber:
        """Give one start of a node its number, never used before (protocol rule 1)."""

    async def beat(self, node: NodeNumber, seen: Collection[Ref] = (), about: str | None = None) -> Beat:
        """Say that a node is there: its counter goes up (protocol rule 16), and what there is to know `about` it is
        changed, if it is given. Mail that it has `seen` is thrown away; the rest comes back, with the store's time, the
        revision, and the other nodes. Throw mail away first, and read the occurrences that it was about afterwards: a
        request that comes in between is in what is read then, or is new mail."""

    async def leave(self, node: NodeNumber, counter: int | None = None) -> bool:
        """Say that a node is gone: said by itself on exit, or by others when they have taken everything from it. These
        name the heartbeat `counter` that they judged by; False if the node has sent a heartbeat since, and stays."""

    async def amend(self, entries: Sequence[NewEntry], judge: Judge | None = None) -> list[Entered] | list[Denied]:
        """Make entries on the timeline under one new revision, all or none, alone behind the gate (3, 4). A job's
        first version registers it. `judge` decides, in the same transaction, what becomes of what has not started."""

    # -- the life of an occurrence -----------------------------------------------------------------------------------

    async def claim(
        self, owner: NodeNumber | None, revision: int | None, wanted: Sequence[Wanted]
    ) -> list[Claimed] | Refusal:
        """Create what is not there yet; of the same key exactly one asker wins, and the winners come back, with what
        an earlier try won whose answer was lost (protocol rule 6). By schedule nothing is created below the end of the
        sweep's plan, or the watermark: that race the sweep has won (protocol rule 19). MOVED if the timeline is at
        another revision."""

    async def start(
        self, owner: NodeNumber, revision: int, starts: Sequence[Start], takeover_after: int
    ) -> list[Started | Refused]:
        """Begin what is due and can begin: own rows by owner and fence, and, with fence None, those that are
        nobody's, wait for anybody, or lie unstarted since `takeover_after` (7, 15). Slots, limits, first attempts and
        the decision about overlap are in the same transaction (13, 14)."""

    async def begin(self, owner: NodeNumber, revision: int, starts: Sequence[Start]) -> list[Started]:
        """Begin those of them about which there is nothing to decide, as `start` would. The others have not been
        touched, and nothing is said of them: what has begun need not wait for them to be looked at."""

    async def write(self, owner: NodeNumber, changes: Sequence[Change]) -> list[Written | Refused]:
        """Take what the owner reports: steps, tasks, attempts; also the gate of every later launch (protocol rule 8). A
        change that ends an occurrence releases its slot and shares, and hands the slot to the next in line (9, 10,
        14)."""

    async def intervene(self, by: NodeNumber, interventions: Sequence[Intervention]) -> list[Written | Refused]:
        """Take occurrences from their owners, with a higher fence (9, 17); once for each fence one was seen with.
        ALIVE if the owner was judged to be dead and has sent a heartbeat since (protocol rule 16)."""

    async def control(
        self, by: NodeNumber | None, requests: Sequence[Cancellation | Adjustment | Passing]
    ) -> list[Written | Refused]:
        """Cancel or adjust occurrences. What has not started is changed at once; who runs the others gets mail
        (protocol rule 25)."""

    # -- the sweep, and forgetting -----------------------------------------------------------------------------------

    async def begin_sweep(self, by: NodeNumber, end: int, seize: int | None = None) -> SweepPlan | None:
        """Begin a plan up to `end`, or the store's present if that is earlier; or find the plan that is being worked
        off. With `seize` it is taken from an owner who is dead, if it still has that fence; from one that has left, in
        any case (protocol rule 19)."""

    async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        """Create missing rows as nobody's, extend stretches, and move the cursor, together; with the last step the
        watermark (19, 20). None when the plan is done."""

    async def prune(self, rules: Retention, cursor: PruneCursor) -> Pruned:
        """Do one small step of forgetting (protocol rule 22)."""

    # -- records -----------------------------------------------------------------------------------------------------

    async def append(
        self, stream: str, partition: str, events: Sequence[NewEvent], lease: Lease | None = None
    ) -> list[int] | Refusal:
        """Append events, numbered without gaps in the order of commits; one cause makes one event (protocol rule 29).
        LOST if the lease has passed to another, ELSEWHERE if a producer's event is of a record that lives in another
        partition."""

    async def lease(self, node: NodeNumber, stream: str, partitions: Collection[str], lease_for: int) -> list[Lease]:
        """Take or renew leases that are free, expired or one's own; 0 gives them back."""

    # -- tokens ------------------------------------------------------------------------------------------------------

    async def grant_token(self, new: NewToken) -> TokenRow | Ungranted:
        """Make a token, once for each hash, unless another one is listed under its name. What has been good for
        nothing for 90 days is forgotten with that."""

    async def revoke_token(self, name: str, by: str, reason: str | None = None) -> TokenRow | None:
        """Make a token good for nothing from now on; None if there is none. One that was revoked before stays as it
        is."""

    # -- everything else ---------------------------------------------------------------------------------------------

    async def note_statistics(self, rows: Sequence[StatisticsRow]) -> None:
        """Keep what a loop did."""

    async def read(self, query: Query[Answer]) -> Answer:
        """Answer a query, from one moment."""

    def transaction(
        self, owner: NodeNumber, success: Change, failure: Change, *, timeout: float
    ) -> AbstractAsyncContextManager[TaskTransaction]:
        """A transaction for a task's own statements (D6), in which `success` is written as the last thing before the
        commit; refused, late or raised in the body: nothing of it stands. If the commit's answer is lost, `failure`,
        a change with the same sequence, is written in its place where it did not happen (protocol rule 24)."""

    async def tell(self, topics: Collection[str]) -> None:
        """Wake those who watch these topics, on all nodes. Told twice, they may hear of it once."""

    def watch(self) -> AsyncIterator[frozenset[str]]:
        """Topics that something has happened in, since the last look. Never what: who hears it reads the store."""
