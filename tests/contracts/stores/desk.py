"""What the stores' contract tests do most: nodes that join, jobs, and occurrences that are claimed, started and ended.

Nothing here sets a clock. The store has its own, and `Desk` makes occurrences that were due some seconds ago.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from msgspec.structs import replace

from itinerary.core.recovery.sweep import last_step
from itinerary.model.audit_trail import marked
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByRefQuery, Detail, DetailsQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.sweeps import ClaimedRow, SweepPlan, SweepStep
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import (
    Claimed,
    ClaimRequest,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    StartRequest,
    Step,
    Written,
)
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import Engine
from itinerary.stores.ledger.claim import THE_ONE
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import SWEEP
from itinerary.stores.transaction import Transaction

__all__ = ["HOUR", "Desk", "told"]

HOUR = 3600 * SECOND
CONFIG = '{"mode":"sequential"}'


def told(test: Callable[[Desk], Awaitable[None]]) -> Callable[[Engine], None]:
    """A test that is told as a story with a `Desk`, on each engine."""

    def on_engine(engine: Engine) -> None:
        async def story() -> None:
            async with EngineStore(engine) as store:
                await test(Desk(store, engine))

        asyncio.run(story())

    functools.update_wrapper(on_engine, test)
    del on_engine.__dict__["__wrapped__"]
    on_engine.__annotations__ = {"engine": Engine, "return": None}
    return on_engine


class Desk:
    """A store, and the usual things to do with it."""

    def __init__(self, store: EngineStore, engine: Engine, *, begins_plainly: bool = True) -> None:
        """`begins_plainly`: whether plain starts are asked for as such, or go the long way like all others."""
        self.store = store
        self.engine = engine
        self.begins_plainly = begins_plainly
        self.revision = 0
        self._numbers = count(1)
        self._last = 0

    async def now(self) -> int:
        return (await self.store.read(StoreStatusQuery())).now

    async def node(self, name: str = "a") -> NodeNumber:
        return await self.store.join(f"{name}-{next(self._numbers)}", name, "{}")

    async def job(self, name: str = "backup") -> JobNumber:
        entry = TimelineEntryRequest(
            job=name, kind=EntryKind.VERSION, request="first", by="anna", from_version=0, body="{}"
        )
        (entered,) = await self.store.amend([entry])
        assert isinstance(entered, EntryAccepted), entered
        self.revision = entered.revision
        return entered.job

    async def jobs(self, count: int) -> list[JobNumber]:
        """So many jobs, entered at once."""
        names = [f"job {number:05}" for number in range(count)]
        answers = await self.store.amend(
            [
                TimelineEntryRequest(
                    job=name, kind=EntryKind.VERSION, request="first", by="anna", from_version=0, body="{}"
                )
                for name in names
            ]
        )
        entered = [answer for answer in answers if isinstance(answer, EntryAccepted)]
        assert len(entered) == count, answers
        self.revision = max(one.revision for one in entered)
        return sorted(one.job for one in entered)

    async def set_watermark_back(self) -> None:
        """Make the last sweep an hour older than it is."""

        def set_back(tx: Transaction) -> None:
            row = tx.lock(SWEEP, [THE_ONE])[THE_ONE]
            tx.save(SWEEP, [replace(row, watermark=row.watermark - HOUR)], ("watermark",))

        await self.engine.write(set_back)

    async def sweep(self, node: NodeNumber) -> None:
        """Decide everything up to now: nothing is missing."""
        plan = await self.store.begin_sweep(node, await self.now())
        assert plan is not None, "something is undecided"
        await self.store.advance_sweep(node, self.revision, last_step(plan))

    async def recover(
        self,
        node: NodeNumber,
        *claimed: Claimed,
        to: OccurrenceState = OccurrenceState.PRERUN,
        is_last: bool = False,
        **values: Any,
    ) -> SweepPlan | Refusal | None:
        """Make a step of a sweep that recovers what was claimed before an outage."""
        plan = await self.store.begin_sweep(node, await self.now())
        assert plan is not None, "something is undecided"
        rows = tuple(
            ClaimedRow(one.ref, ClaimRequest(one.key, 1, one.key.instant, to, is_recovery=True, reason="recovered"))
            for one in claimed
        )
        step = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", claimed=rows, is_last=is_last, **values)
        return await self.store.advance_sweep(node, self.revision, step)

    async def wanted(self, job: JobNumber, *, ago: int = 60, **values: Any) -> ClaimRequest:
        """An instant so many seconds ago, later with each call: the store's order is the order of calls."""
        now = await self.now()
        instant = max((now // SECOND - ago) * SECOND, self._last + SECOND)
        self._last = instant
        return ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, values.pop("due_at", instant), **values)

    async def claim(self, node: NodeNumber | None, *wanted: ClaimRequest) -> list[Claimed]:
        claimed = await self.store.claim(node, self.revision, wanted)
        assert isinstance(claimed, list), claimed
        return claimed

    async def due(self, node: NodeNumber | None, job: JobNumber, **values: Any) -> Claimed:
        """An occurrence that was due a minute ago and is claimed."""
        (claimed,) = await self.claim(node, await self.wanted(job, **values))
        return claimed

    def request(self, claimed: Claimed, **values: Any) -> StartRequest:
        """The start of an occurrence with one task; `job=None` for one that is begun the long way, plain or not."""
        first = AttemptRow(claimed.ref, 0, 1, TaskState.RUNNING)
        given = {
            "overlap": Overlap.SKIP,
            "attempts": (first,),
            "fence": claimed.fence,
            "job": claimed.key.job if self.begins_plainly else None,
            "instant": claimed.key.instant if claimed.key.kind is Kind.SCHEDULED else None,
            **values,
        }
        return marked(StartRequest(claimed.ref, given.pop("fence"), claimed.adjustments, CONFIG, HOUR, **given))

    async def start(
        self, node: NodeNumber, *claimed: Claimed, takeover_after: int = HOUR, **values: Any
    ) -> list[Started | Refused]:
        requests = [self.request(one, **values) for one in claimed]
        return await self.store.start(node, self.revision, requests, takeover_after)

    async def started(self, node: NodeNumber, claimed: Claimed, **values: Any) -> Started:
        (answer,) = await self.start(node, claimed, **values)
        assert isinstance(answer, Started), answer
        return answer

    async def run(self, node: NodeNumber, job: JobNumber, **values: Any) -> Started:
        """An occurrence that is claimed and started."""
        return await self.started(node, await self.due(node, job), **values)

    def end(self, started: Started, to: OccurrenceState = OccurrenceState.COMPLETED, **values: Any) -> OwnerWrite:
        """The end of an occurrence with one task that went well."""
        return OwnerWrite(
            started.ref,
            values.pop("fence", started.fence),
            values.pop("sequence", started.sequence + 1),
            steps=(Step(to),),
            tasks=(TaskRow(started.ref, 0, "main", TaskState.SUCCESS),),
            attempts=(AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, 1, values.pop("ended_at", 2)),),
        )

    async def finish(self, node: NodeNumber, started: Started, **values: Any) -> Written:
        (answer,) = await self.store.write(node, [self.end(started, **values)])
        assert isinstance(answer, Written), answer
        return answer

    async def row(self, ref: Ref) -> OccurrenceRow:
        return (await self.store.read(ByRefQuery((ref,))))[ref]

    async def status(self, ref: Ref) -> OccurrenceState:
        return (await self.row(ref)).status

    async def detail(self, ref: Ref) -> Detail:
        (detail,) = await self.store.read(DetailsQuery((ref,)))
        return detail

    async def trail(self, ref: Ref) -> list[str]:
        """The states that it went through, by its audit trail, each of which follows the one before."""
        lines = (await self.detail(ref)).transitions
        assert [line.before for line in lines[1:]] == [line.after for line in lines[:-1]]
        return [str(line.after) for line in lines]
