"""The protocols at the edge, each with its obligations.

`Store` is everything durable. Its writes come in batches, and each request in a batch gets its own answer. All store
methods share these obligations:

- **Durable, then answered.** When a call returns, its writes are committed as safely as the store is configured to be.
- **All or nothing.** A call that raises has written nothing or, if its answer was lost, everything.
- **Idempotent.** A repeated call with the same arguments gives the same answer and changes nothing more.
- **The store's clock.** The time of the store decides what is due, never the time of the caller.
- **Fenced.** The store accepts a write for an occurrence only from its owner under the current fence. Every takeover
  raises the fence.

A call that is impossible raises a `StoreError`; a write that is not allowed is answered with a refusal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from itinerary.model.attempts import Assignment, AttemptKey, Leftover, Report
from itinerary.model.events import Lease, NewEvent
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.queries import Answer, Query
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.rows import NodeNumber, Ref, StatisticsRow, TokenRow
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import EntryAccepted, EntryRejected, TimelineEntryRequest, UnstartedReconciler
from itinerary.model.tokens import NewToken, TokenRefused
from itinerary.model.writes import (
    AdjustRequest,
    CancelRequest,
    Claimed,
    ClaimRequest,
    OwnerWrite,
    Refusal,
    Refused,
    SkipRequest,
    Started,
    StartRequest,
    TakeoverWrite,
    Written,
)

__all__ = ["Clock", "Executor", "LeavesBehind", "Store", "TaskTransaction"]


class TaskTransaction(Protocol):
    """The transaction of `ctx.transaction()` (D6): a task's own statements, committed with its attempt's success."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that writes.

        Returns:
            The number of rows that it changed, or -1 from a store that defers all writes to the commit.
        """

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement that reads, and return its rows.

        A store that defers all writes to the commit refuses this after the first `execute`: it cannot read its own
        deferred writes.
        """


class Clock(Protocol):
    """The sources of time, in microseconds."""

    def now(self) -> int:
        """Return the estimated time of the store, never later than its real time (protocol rule 23)."""

    def elapsed(self) -> int:
        """Return the time since a fixed moment in the past, machine sleep included. Only differences are meaningful."""


class Executor(Protocol):
    """A runner of attempts of one kind: functions, commands, pods. Every executor has these obligations:

    - **Exactly one `Ended` for each assignment**, even if the task raises, dies, hangs or is stopped.
    - **Never block.** `begin`, `stop` and `kill` return at once; slow work happens elsewhere.
    - **Only reports leave the executor.** A task that raises, or that cannot be started, is a `Failed`.
    - **The truth about what was called.** A `Stopped` has `was_called=False` only if the function was never called and
      never will be. A graceful shutdown gives such a run back, and another node runs it.

    The scheduler loop calls these three methods. Reports may come from any thread.
    """

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        """Prepare to run attempts, and report their events through `report` from now on."""

    async def close(self) -> None:
        """End running attempts by force, report them, and release all resources. Closing twice has no effect."""

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Start these attempts."""

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        """Ask these attempts to end: cancel the coroutine, notify the thread, terminate the process.

        Attempts that have ended or were already asked to end are left alone.
        """

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        """End these attempts by force, or abandon them where no force is possible.

        Abandoned attempts are reported as `Stopped` now, and their later results are ignored.
        """


@runtime_checkable
class LeavesBehind(Protocol):
    """An executor whose work outlives its node, such as pods.

    Ended pods stay for inspection, and running ones continue when their node is gone. A leftover is removed only after
    the end of its attempt is durable.
    """

    async def left_behind(self) -> Sequence[Leftover]:
        """Return the leftovers of all nodes. A later call finds those that cannot be read now."""

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        """Remove these leftovers if they have not changed. A later call removes those that cannot be removed now."""


class Store(Protocol):
    """Everything durable. The module docstring has the obligations of each call."""

    @property
    def url(self) -> str:
        """The address of the store without its password, for messages."""

    async def open(self) -> None:
        """Connect, create missing tables, and migrate an older schema while other nodes wait.

        Refuse a newer schema (D7).
        """

    async def close(self) -> None:
        """Finish pending requests, and release all resources. Closing twice has no effect."""

    async def get_ready(self) -> None:
        """Warm up for a node that is about to run, so that its first writes are not slower than later ones.

        Change no data.
        """

    # -- nodes and the timeline --------------------------------------------------------------------------------------

    async def join(self, incarnation: str, name: str, about: str) -> NodeNumber:
        """Give one start of a node a number that was never used before (protocol rule 1)."""

    async def beat(self, node: NodeNumber, seen: Collection[Ref] = (), about: str | None = None) -> HeartbeatReply:
        """Record a heartbeat: raise the node's counter (protocol rule 16), and delete the mail that it has seen.

        The call deletes mail first. Read the occurrences that the mail was about afterwards: a request that arrives in
        between is either in that data, or is new mail.

        Args:
            node: The node that sends the heartbeat.
            seen: The mail that the node has handled.
            about: The new self-description of the node. None leaves the old one in place.

        Returns:
            The remaining mail, the store's time, the revision, and the other nodes.
        """

    async def leave(self, node: NodeNumber, counter: int | None = None) -> bool:
        """Record that a node is gone.

        A node calls this for itself on exit. Other nodes call it after they have taken over all of its occurrences.

        Args:
            node: The node that is gone.
            counter: The heartbeat counter by which another node judged it dead.

        Returns:
            False if the node has sent a heartbeat since, and stays.
        """

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        """Add entries to the timeline under one new revision, all or none.

        The call holds the gate exclusively (protocol rules 3 and 4). A job's first version registers it.

        Args:
            entries: The entries to add.
            judge: Decides, in the same transaction, about occurrences that have not started.
        """

    # -- the life of an occurrence -----------------------------------------------------------------------------------

    async def claim(
        self, owner: NodeNumber | None, revision: int | None, wanted: Sequence[ClaimRequest]
    ) -> list[Claimed] | Refusal:
        """Create missing rows. For each key exactly one caller wins (protocol rule 6).

        Below the end of the sweep's plan, or below the watermark, no row is created by schedule. The sweep has won that
        race (protocol rule 19).

        Returns:
            The rows that the caller won, also in an earlier try whose answer was lost. MOVED if the timeline is at
            another revision.
        """

    async def start(
        self, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], takeover_after: int
    ) -> list[Started | Refused]:
        """Start occurrences that are due and can start (protocol rules 7 and 15).

        Overlap slots, limits, first attempts and the overlap decision are in the same transaction (protocol rules 13
        and 14).

        Args:
            owner: The node that starts them.
            revision: The revision of the timeline that the node knows.
            starts: The node's own rows, by owner and fence. With fence None: rows without an owner, rows that wait for
                any node, and unstarted rows that were due `takeover_after` ago or earlier.
            takeover_after: The start lateness from which other nodes may start an unstarted row.
        """

    async def begin(self, owner: NodeNumber, revision: int, starts: Sequence[StartRequest]) -> list[Started]:
        """Start the occurrences that need no decision, as `start` would.

        The other occurrences are not changed and are not in the answer, so the started ones need not wait for them.
        """

    async def write(self, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
        """Write the owner's progress: steps, tasks, attempts. Every later launch waits for its write (protocol rule 8).

        A change that ends an occurrence releases its shares of limits. The overlap slot passes to the next occurrence
        in the queue, or becomes free (protocol rules 9, 10 and 14).
        """

    async def intervene(self, by: NodeNumber, interventions: Sequence[TakeoverWrite]) -> list[Written | Refused]:
        """Take occurrences over from their owners, under a higher fence (protocol rules 9 and 17).

        A takeover succeeds once for each fence that the caller has seen.

        Returns:
            For each occurrence a `Written` or a refusal: ALIVE if the owner was judged dead and has sent a heartbeat
            since (protocol rule 16).
        """

    async def control(
        self, by: NodeNumber | None, requests: Sequence[CancelRequest | AdjustRequest | SkipRequest]
    ) -> list[Written | Refused]:
        """Cancel or adjust occurrences.

        Unstarted occurrences change at once. For the others, the node that runs them gets mail (protocol rule 25).
        """

    # -- the sweep, and pruning --------------------------------------------------------------------------------------

    async def begin_sweep(self, by: NodeNumber, end: int, seize: int | None = None) -> SweepPlan | None:
        """Begin a sweep plan, or return the plan that is in progress (protocol rule 19).

        Args:
            by: The node that sweeps.
            end: The end of the plan. The store's present time is used if that is earlier.
            seize: The fence under which to take the plan from a dead owner. A plan whose owner has left is taken in any
                case.
        """

    async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        """Create missing rows without an owner, extend collapsed ranges, and move the cursor, all in one transaction.

        The last step also moves the watermark (protocol rules 19 and 20).

        Returns:
            The plan after the step, a refusal, or None when the plan is done.
        """

    async def prune(self, rules: Retention, cursor: PruneCursor) -> Pruned:
        """Prune old rows in one small step (protocol rule 22)."""

    # -- records -----------------------------------------------------------------------------------------------------

    async def append(
        self, stream: str, partition: str, events: Sequence[NewEvent], lease: Lease | None = None
    ) -> list[int] | Refusal:
        """Append events, numbered without gaps in commit order. One cause makes one event (protocol rule 29).

        Returns:
            The numbers of the events. LOST if another node holds the lease, ELSEWHERE if the record of a producer's
            event lives in another partition.
        """

    async def lease(self, node: NodeNumber, stream: str, partitions: Collection[str], lease_for: int) -> list[Lease]:
        """Take or renew leases that are free, expired or already held by this node.

        A `lease_for` of 0 releases them.
        """

    # -- tokens ------------------------------------------------------------------------------------------------------

    async def grant_token(self, new: NewToken) -> TokenRow | TokenRefused:
        """Create a token, once for each hash, unless its name is taken.

        Delete tokens that have been invalid for 90 days.
        """

    async def revoke_token(self, name: str, by: str, reason: str | None = None) -> TokenRow | None:
        """Revoke a token. Return None if it is not found; a token that is already revoked stays unchanged."""

    # -- everything else ---------------------------------------------------------------------------------------------

    async def note_statistics(self, rows: Sequence[StatisticsRow]) -> None:
        """Store the statistics of a scheduler loop."""

    async def read(self, query: Query[Answer]) -> Answer:
        """Answer a query from one consistent snapshot."""

    def transaction(
        self, owner: NodeNumber, success: OwnerWrite, failure: OwnerWrite, *, timeout: float
    ) -> AbstractAsyncContextManager[TaskTransaction]:
        """Open a transaction for a task's own statements (D6), with `success` written last before the commit.

        If the body raises, or the write is refused or late, the whole transaction is rolled back. If the commit's
        answer is lost and the commit did not happen, `failure` is written instead, with the same sequence number
        (protocol rule 24).
        """

    async def notify(self, topics: Collection[str]) -> None:
        """Notify the watchers of these topics on all nodes. Two notifications may arrive as one."""

    def watch(self) -> AsyncIterator[frozenset[str]]:
        """Yield the topics with news since the last notification, without the news: the receiver reads the store."""
