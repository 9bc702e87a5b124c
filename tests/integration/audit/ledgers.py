"""A store with a past: a job that ran every ten seconds, of which everything is as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from itinerary.model.codec import to_json
from itinerary.model.config import freeze
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.sweeps import SweepStep
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, OwnerWrite, Started, StartRequest, Step, Written
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import Engine
from itinerary.stores.store import EngineStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["BEGINNING", "PERIOD", "Past"]

BEGINNING = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z"""
PERIOD = 10 * SECOND
_TOGETHER = 500


class Past:
    """A store on an engine whose clock is `past.clock`, and what happened in it."""

    def __init__(self) -> None:
        self.now = BEGINNING
        self.job = JobNumber(0)
        self.node = NodeNumber(0)
        self.revision = 0
        self.overrides = Overrides(overlap=Overlap.ALLOW)

    def clock(self) -> int:
        return self.now

    @asynccontextmanager
    async def on(self, engine: Engine) -> AsyncIterator[EngineStore]:
        """The store, open, with the job and a node in it."""
        async with EngineStore(engine) as store:
            body = to_json(Definition(schedule={"every": "10s"}, overrides=self.overrides)).decode()
            entry = TimelineEntryRequest(
                job="often", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body=body
            )
            (entered,) = await store.amend([entry])
            assert isinstance(entered, EntryAccepted)
            self.job, self.revision = entered.job, entered.revision
            self.node = await store.join("a/1", "a", "{}")
            yield store

    async def goes_on(self, store: EngineStore, count: int, *, ends: bool = True) -> None:
        """So many occurrences happen, all of them once; the watermark follows."""
        first = self.now
        instants = [first + number * PERIOD for number in range(count)]
        self.now = first + count * PERIOD
        for some in _pieces(instants):
            claims = await store.claim(self.node, self.revision, [self._wanted(instant) for instant in some])
            assert isinstance(claims, list)
            started = await store.start(self.node, self.revision, [self._start(claim) for claim in claims], 0)
            if ends:
                answers = await store.write(self.node, [self._end(answer) for answer in started])
                assert all(isinstance(answer, Written) for answer in answers)
        await self.sweep(store)

    async def sweep(self, store: EngineStore) -> None:
        """Say that everything is decided up to now."""
        plan = await store.begin_sweep(self.node, self.now)
        assert plan is not None
        last = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", is_last=True)
        assert await store.advance_sweep(self.node, self.revision, last) is None

    def _wanted(self, instant: int) -> ClaimRequest:
        return ClaimRequest(Key(instant, self.job, Kind.SCHEDULED), 1, instant)

    def _start(self, claimed: Claimed) -> StartRequest:
        return StartRequest(
            claimed.ref,
            claimed.fence,
            claimed.adjustments,
            to_json(freeze(self.overrides, {})).decode(),
            3_600 * SECOND,
            Overlap.ALLOW,
            tasks=(TaskRow(claimed.ref, 0, "main", TaskState.RUNNING),),
            attempts=(AttemptRow(claimed.ref, 0, 1, TaskState.RUNNING, self.now),),
        )

    def _end(self, started: Any) -> OwnerWrite:
        assert isinstance(started, Started), started
        return OwnerWrite(
            started.ref,
            started.fence,
            started.sequence + 1,
            (Step(OccurrenceState.COMPLETED),),
            (TaskRow(started.ref, 0, "main", TaskState.SUCCESS),),
            (AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, started.started_at, self.now),),
        )


def _pieces(instants: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(instants), _TOGETHER):
        yield instants[first : first + _TOGETHER]
