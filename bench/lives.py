"""Occurrences that are claimed, started and finished on a store, in batches, as a node does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import ClaimRequest, OwnerWrite, StartRequest, Step, Written
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["BATCH", "EPOCH", "live", "registered", "wanted_at"]

EPOCH = 1_700_000_000 * SECOND
BATCH = 512
HOUR = 3_600 * SECOND
CONFIG = '{"mode":"sequential","failure":"fail_fast","overlap":"skip","task_timeout":300000000}'


async def registered(store: Store, count: int) -> tuple[list[JobNumber], int]:
    """So many jobs, and the revision that knows them."""
    jobs: list[JobNumber] = []
    revision = 0
    for first in range(0, count, 5_000):
        names = [f"job {number:06}" for number in range(first, min(first + 5_000, count))]
        entries = [
            TimelineEntryRequest(job=name, kind=EntryKind.VERSION, request="1", by="bench", from_version=0, body="{}")
            for name in names
        ]
        for entered in await store.amend(entries):
            assert isinstance(entered, EntryAccepted)
            jobs.append(entered.job)
            revision = entered.revision
    return jobs, revision


def wanted_at(instant: int, jobs: Sequence[JobNumber]) -> list[ClaimRequest]:
    """One occurrence of each job."""
    return [ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant) for job in jobs]


async def live(store: Store, node: NodeNumber, revision: int, wanted: Sequence[ClaimRequest], *, at_once: int) -> None:
    """Claim, start and finish: each batch in three durable writes, a few batches at a time."""
    waiting = asyncio.Semaphore(at_once)

    async def one(batch: Sequence[ClaimRequest]) -> None:
        async with waiting:
            await _live(store, node, revision, batch)

    async with asyncio.TaskGroup() as group:
        for first in range(0, len(wanted), BATCH):
            group.create_task(one(wanted[first : first + BATCH]))


async def _live(store: Store, node: NodeNumber, revision: int, wanted: Sequence[ClaimRequest]) -> None:
    claimed = await store.claim(node, revision, wanted)
    assert isinstance(claimed, list)
    starts = [
        StartRequest(
            one.ref,
            one.fence,
            one.adjustments,
            CONFIG,
            HOUR,
            Overlap.SKIP,
            attempts=(AttemptRow(one.ref, 0, 1, TaskState.RUNNING),),
            job=one.key.job,
            instant=one.key.instant,
            is_plain=True,
        )
        for one in claimed
    ]
    begun = await store.begin(node, revision, starts)
    assert len(begun) == len(starts), "they are nobody else's, and nothing is in their way"
    ends = [
        OwnerWrite(
            started.ref,
            started.fence,
            started.sequence + 1,
            steps=(Step(OccurrenceState.COMPLETED),),
            tasks=(TaskRow(started.ref, 0, "main", TaskState.SUCCESS),),
            attempts=(AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, EPOCH, EPOCH),),
        )
        for started in begun
    ]
    for written in await store.write(node, ends):
        assert isinstance(written, Written)
