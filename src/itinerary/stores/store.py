"""The store: the ledger functions, run on an engine.

The store adds three things that a single transaction cannot do:

- Retrying a batch with an unwritable value would never end (protocol rule 12). The store halves the batch until it
  finds the item, and fails the occurrence of that item with the reason.
- Configurations get a number once, and the store caches the numbers.
- If the answer to a task's commit is lost, the store looks up whether the commit happened (protocol rule 24).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from msgspec.structs import replace

from itinerary.errors import CommitInDoubt, StoreError, TransactionError, UnwritableError
from itinerary.model.events import Lease, NewEvent
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.queries import Answer, ByRefQuery, LastRunsQuery, Query
from itinerary.model.retention import PruneCursor, Pruned, Retention
from itinerary.model.rows import NodeNumber, Ref, StatisticsRow, TokenRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.timeline import EntryAccepted, EntryRejected, TimelineEntryRequest, UnstartedReconciler
from itinerary.model.tokens import NewToken, TokenRefused
from itinerary.model.writes import (
    BATCH_MAX,
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
    Step,
    TakeoverWrite,
    Written,
)
from itinerary.ports import TaskTransaction
from itinerary.stores import ledger
from itinerary.stores.engine import Engine, SchemaSeen
from itinerary.stores.transaction import Transaction

__all__ = ["EngineStore"]

A = TypeVar("A")
Q = TypeVar("Q")

_CONFIGS_MAX: Final = 50_000
"""The most configuration numbers in the cache."""


class EngineStore:
    """A `ports.Store` on any engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._configs: dict[str, int] = {}

    @property
    def url(self) -> str:
        return self._engine.url

    def log_to(self, log: Any) -> None:
        """Set the log for events that callers do not get: cut connections, locks that other sessions hold."""
        self._engine.log = log

    async def open(self) -> None:
        await self._engine.open()
        if not await self._engine.read(ledger.is_prepared):  # a store on a full disk can still be opened and read
            await self._engine.write(ledger.prepare)

    async def close(self) -> None:
        await self._engine.close()

    async def schema(self) -> SchemaSeen:
        """Return the schema of the store before it is opened. Creates and changes nothing."""
        return await self._engine.schema()

    @property
    def files(self) -> tuple[Path, ...]:
        """The local files of the store; empty if the store is remote."""
        return self._engine.files

    @property
    def file_mode(self) -> int:
        """The permissions that the files should have."""
        return self._engine.file_mode

    async def warnings(self) -> list[str]:
        """Return the settings that break a guarantee, in words (protocol rule 27)."""
        return await self._engine.warnings()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get_ready(self) -> None:
        if count := self._engine.warm_up_size:
            with suppress(ledger.WarmedUp):
                await self._engine.write(lambda tx: ledger.warm_up(tx, count))

    # -- nodes and the timeline --------------------------------------------------------------------------------------

    async def join(self, incarnation: str, name: str, about: str) -> NodeNumber:
        return await self._engine.write(lambda tx: ledger.join(tx, incarnation, name, about))

    async def beat(self, node: NodeNumber, seen: Collection[Ref] = (), about: str | None = None) -> HeartbeatReply:
        return await self._engine.write(lambda tx: ledger.beat(tx, node, seen, about))

    async def leave(self, node: NodeNumber, counter: int | None = None) -> bool:
        return await self._engine.write(lambda tx: ledger.leave(tx, node, counter))

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        _check_size(entries)
        return await self._engine.write(lambda tx: ledger.amend(tx, entries, judge))

    # -- the life of an occurrence -----------------------------------------------------------------------------------

    async def claim(
        self, owner: NodeNumber | None, revision: int | None, wanted: Sequence[ClaimRequest]
    ) -> list[Claimed] | Refusal:
        _check_size(wanted)
        claimed = await self._engine.write(lambda tx: ledger.claim(tx, owner, revision, wanted))
        await self._numbered({item.config for item in wanted if item.config is not None})
        return claimed

    async def start(
        self, owner: NodeNumber, revision: int, starts: Sequence[StartRequest], takeover_after: int
    ) -> list[Started | Refused]:
        _check_size(starts)
        configs = await self._numbered({request.config for request in starts})

        async def run(some: Sequence[StartRequest]) -> list[Started | Refused]:
            return await self._engine.write(lambda tx: ledger.start(tx, owner, revision, some, takeover_after, configs))

        async def fail(request: StartRequest, error: UnwritableError) -> Refused:
            return await self._fail_unstarted(owner, request, error)

        begun = {answer.ref: answer for answer in await self.begin(owner, revision, starts)}
        left = [request for request in starts if request.ref not in begun]
        looked_at = await self._with_last_runs(await _halving(run, left, fail)) if left else []
        answers = {answer.ref: answer for answer in looked_at}
        return [begun.get(request.ref) or answers[request.ref] for request in starts]

    async def _with_last_runs(self, answers: Sequence[Started | Refused]) -> Sequence[Started | Refused]:
        """Look up the last run where the overlap slot does not have it.

        The lookup may be slow, so it blocks no write.
        """
        refs = tuple(one.ref for one in answers if isinstance(one, Started) and not one.knows_last_run)
        if not refs:
            return answers
        found = await self.read(LastRunsQuery(refs))
        return [
            replace(one, last_run_at=found.get(one.ref), knows_last_run=True)
            if isinstance(one, Started) and not one.knows_last_run
            else one
            for one in answers
        ]

    async def begin(self, owner: NodeNumber, revision: int, starts: Sequence[StartRequest]) -> list[Started]:
        _check_size(starts)
        plain = ledger.plain_ones(starts)
        if not plain:
            return []
        configs = await self._numbered({request.config for request in plain})
        try:
            return await self._engine.write(lambda tx: ledger.begin(tx, owner, revision, plain, configs))
        except UnwritableError:
            return []  # `start` then finds the unwritable one

    async def write(self, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
        _check_size(changes)

        async def run(some: Sequence[OwnerWrite]) -> list[Written | Refused]:
            return await self._engine.write(lambda tx: ledger.write(tx, owner, some))

        async def fail(change: OwnerWrite, error: UnwritableError) -> Refused:
            return await self._fail(owner, change, error)

        return await _halving(run, changes, fail)

    async def _fail(self, owner: NodeNumber, change: OwnerWrite, error: UnwritableError) -> Refused:
        """End an occurrence whose write cannot be stored."""
        why = f"a write could not be stored: {error}"
        end = OwnerWrite(
            change.ref,
            change.fence,
            change.sequence,
            steps=(Step(OccurrenceState.FAILED, why=why),),
        )
        (answer,) = await self._engine.write(lambda tx: ledger.write(tx, owner, [end]))
        return answer if isinstance(answer, Refused) else Refused(change.ref, Refusal.UNWRITABLE, why)

    async def _fail_unstarted(self, owner: NodeNumber, request: StartRequest, error: UnwritableError) -> Refused:
        """End an occurrence that can never start, because its first rows cannot be written."""
        why = f"its start could not be stored: {error}"

        def end(tx: Transaction) -> Refused:
            row = ledger.answer(tx, ByRefQuery((request.ref,))).get(request.ref)
            if row is None or row.started_at is not None or (request.fence or row.fence) != row.fence:
                return Refused(request.ref, Refusal.LOST)
            ledger.intervene(tx, owner, [TakeoverWrite(row.ref, row.fence, OccurrenceState.FAILED, why)])
            return Refused(request.ref, Refusal.UNWRITABLE, why)

        return await self._engine.write(end)

    async def intervene(self, by: NodeNumber, interventions: Sequence[TakeoverWrite]) -> list[Written | Refused]:
        _check_size(interventions)
        return await self._engine.write(lambda tx: ledger.intervene(tx, by, interventions))

    async def control(
        self, by: NodeNumber | None, requests: Sequence[CancelRequest | AdjustRequest | SkipRequest]
    ) -> list[Written | Refused]:
        _check_size(requests)
        return await self._engine.write(lambda tx: ledger.control(tx, by, requests))

    async def _numbered(self, bodies: Collection[str]) -> dict[str, int]:
        """Return the numbers of configurations, from the cache or from a transaction of its own."""
        known = {body: self._configs[body] for body in bodies if body in self._configs}
        if missing := [body for body in bodies if body not in known]:
            given = await self._engine.write(lambda tx: ledger.number_configs(tx, missing))
            known |= given
            if len(self._configs) + len(given) > _CONFIGS_MAX:
                self._configs.clear()
            self._configs |= given
        return known

    # -- the sweep and pruning ---------------------------------------------------------------------------------------

    async def begin_sweep(self, by: NodeNumber, end: int, seize: int | None = None) -> SweepPlan | None:
        return await self._engine.write(lambda tx: ledger.begin_sweep(tx, by, end, seize))

    async def advance_sweep(self, by: NodeNumber, revision: int, step: SweepStep) -> SweepPlan | Refusal | None:
        _check_size(step.wanted)
        return await self._engine.write(lambda tx: ledger.advance_sweep(tx, by, revision, step))

    async def prune(self, rules: Retention, cursor: PruneCursor) -> Pruned:
        return await self._engine.write(lambda tx: ledger.prune(tx, rules, cursor))

    async def count_prunable(self, rules: Retention, cursor: PruneCursor) -> Pruned:
        """Return the number of occurrences that one small pruning step would remove.

        The cursor is separate from `prune`.
        """
        return await self._engine.read(lambda tx: ledger.count_prunable(tx, rules, cursor))

    # -- records -----------------------------------------------------------------------------------------------------

    async def append(
        self, stream: str, partition: str, events: Sequence[NewEvent], lease: Lease | None = None
    ) -> list[int] | Refusal:
        _check_size(events)
        return await self._engine.write(lambda tx: ledger.append_events(tx, stream, partition, events, lease))

    async def lease(self, node: NodeNumber, stream: str, partitions: Collection[str], lease_for: int) -> list[Lease]:
        return await self._engine.write(lambda tx: ledger.lease_partitions(tx, node, stream, partitions, lease_for))

    # -- tokens ------------------------------------------------------------------------------------------------------

    async def grant_token(self, new: NewToken) -> TokenRow | TokenRefused:
        return await self._engine.write(lambda tx: ledger.grant_token(tx, new))

    async def revoke_token(self, name: str, by: str, reason: str | None = None) -> TokenRow | None:
        return await self._engine.write(lambda tx: ledger.revoke_token(tx, name, by, reason))

    # -- everything else ---------------------------------------------------------------------------------------------

    async def note_statistics(self, rows: Sequence[StatisticsRow]) -> None:
        _check_size(rows)
        await self._engine.write(lambda tx: ledger.note_statistics(tx, rows))

    async def read(self, query: Query[Answer]) -> Answer:
        return await self._engine.read(lambda tx: ledger.answer(tx, query))

    async def notify(self, topics: Collection[str]) -> None:
        await self._engine.write(lambda tx: ledger.notify(tx, topics))

    def watch(self) -> AsyncIterator[frozenset[str]]:
        return self._engine.watch()

    @asynccontextmanager
    async def transaction(
        self,
        owner: NodeNumber,
        success: OwnerWrite,
        failure: OwnerWrite,
        *,
        timeout: float,  # noqa: ASYNC109 - the engine's
    ) -> AsyncIterator[TaskTransaction]:
        assert success.sequence == failure.sequence, "one of the two takes the other's place"

        def end(tx: Transaction) -> None:
            answer = ledger.write_once(tx, owner, success)
            if isinstance(answer, Refused):
                raise TransactionError(
                    f"the task's transaction on {self.url} is not committed: its occurrence is no longer this node's "
                    f"({answer.by or answer.why})"
                )

        try:
            async with self._engine.transaction(end, timeout=timeout) as transaction:
                yield transaction
        except CommitInDoubt as doubt:
            if not await self._has_happened(owner, success, failure):
                raise TransactionError(f"the task's transaction on {self.url} was not committed: {doubt}") from doubt

    async def _has_happened(self, owner: NodeNumber, success: OwnerWrite, failure: OwnerWrite) -> bool:
        """True if a commit in doubt happened.

        If not, `failure` is written, so the commit can never happen (protocol rule 24).
        """

        def find_out(tx: Transaction) -> bool:
            return isinstance(ledger.write_once(tx, owner, failure), Refused) and ledger.has_made(tx, success)

        return await self._engine.write(find_out)


def _check_size(batch: Sequence[object]) -> None:
    if len(batch) > BATCH_MAX:
        raise StoreError(f"{len(batch)} requests in one call, {BATCH_MAX} are allowed; ask in several calls")


async def _halving(
    run: Callable[[Sequence[Q]], Awaitable[list[A]]],
    batch: Sequence[Q],
    fail: Callable[[Q, UnwritableError], Awaitable[A]],
) -> list[A]:
    """Run a batch. If an item cannot be written, find it by halving, fail it, and run the others (protocol rule 12)."""
    try:
        return await run(batch)
    except UnwritableError as error:
        if len(batch) == 1:
            return [await fail(batch[0], error)]
    middle = len(batch) // 2
    return [*await _halving(run, batch[:middle], fail), *await _halving(run, batch[middle:], fail)]
