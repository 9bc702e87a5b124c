"""An instant is not skipped for a run whose node may be dead: it waits until that is known (protocol rules 13 to
16)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Overlap
from itinerary.model.queries import MailQuery
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Claimed, Refusal, Refused, Started, TakeoverWrite
from itinerary.schedules.durations import SECOND
from itinerary.stores.tables import NODES
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import HOUR, Desk, told

S = OccurrenceState


async def last_heard_of(desk: Desk, node: NodeNumber, ago: int) -> None:
    """Let the last heartbeat of a node be so many seconds ago."""
    at = await desk.now() - ago * SECOND

    def write(tx: Transaction) -> None:
        tx.gate()
        row = tx.lock(NODES, [(node,)])[node,]
        tx.save(NODES, [replace(row, beat_at=at)], ("beat_at",))

    await desk.engine.write(write)


async def scene(desk: Desk, **given: Any) -> tuple[NodeNumber, NodeNumber, Started, Claimed]:
    """A run on a node that was last heard of before the next instant was due, and that instant, on another node."""
    silent, other, job = await desk.node("silent"), await desk.node("other"), await desk.job()
    running = await desk.run(silent, job)
    await last_heard_of(desk, silent, 20)
    return silent, other, running, await due_now(desk, other, job, **given)


async def due_now(desk: Desk, node: NodeNumber, job: JobNumber, **given: Any) -> Claimed:
    return await desk.due(node, job, due_at=await desk.now(), **given)


async def orphan(desk: Desk, by: NodeNumber, running: Started) -> None:
    write = TakeoverWrite(running.ref, running.fence, S.ORPHANED, "node silent is gone", gives_back=True)
    await desk.store.intervene(by, [write])


def unsure(claimed: Claimed, running: Started, why: str = "node silent has not been heard of since") -> Refused:
    return Refused(claimed.ref, Refusal.UNSURE, f"waits to learn what became of occurrence {running.ref}: {why}")


@pytest.mark.spec("X6", "no skip because of a dead run")
@told
async def test_an_instant_is_not_skipped_for_a_run_whose_node_is_silent(desk: Desk) -> None:
    _, other, running, second = await scene(desk)
    for _ in range(3):
        assert await desk.start(other, second) == [unsure(second, running)]
    assert await desk.trail(second.ref) == ["prerun", "pending"]


@pytest.mark.spec("X6", "no skip because of a dead run")
@told
async def test_an_instant_that_waited_starts_when_the_run_is_found_dead(desk: Desk) -> None:
    _, other, running, second = await scene(desk)
    await desk.start(other, second)
    await orphan(desk, other, running)
    assert isinstance((await desk.start(other, second))[0], Started)
    assert await desk.trail(second.ref) == ["prerun", "pending", "running"]


@pytest.mark.spec("X6", "skip")
@told
async def test_an_instant_that_waited_is_skipped_when_the_node_turns_out_to_be_alive(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    await desk.start(other, second)
    await desk.store.beat(silent)
    skipped = Refused(second.ref, Refusal.SKIPPED, f"overlaps occurrence {running.ref}")
    assert await desk.start(other, second) == [skipped]
    assert (await desk.row(second.ref)).reason == f"overlaps occurrence {running.ref}"


@pytest.mark.spec("X6", "skip")
@told
async def test_an_instant_that_waited_is_skipped_when_the_run_has_ended_by_itself_since(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    await desk.start(other, second)
    await desk.finish(silent, running, ended_at=await desk.now())
    assert await desk.start(other, second) == [
        Refused(second.ref, Refusal.SKIPPED, f"overlaps occurrence {running.ref}")
    ]


@pytest.mark.spec("X6", "what is late together runs in order")
@told
async def test_an_instant_that_waited_runs_when_the_run_had_ended_before_it_was_due(desk: Desk) -> None:
    """The store did not answer the node of that run for a while: its end was written late."""
    silent, other, running, second = await scene(desk)
    await desk.start(other, second)
    await desk.finish(silent, running, ended_at=(await desk.row(second.ref)).due_at - SECOND)
    assert isinstance((await desk.start(other, second))[0], Started)


@told
async def test_a_silent_node_is_asked_for_a_heartbeat(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    assert not await desk.store.read(MailQuery(silent))
    await desk.start(other, second)
    assert list(await desk.store.read(MailQuery(silent))) == [running.ref]


@told
async def test_a_node_needs_no_heartbeat_to_know_that_it_is_alive(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running = await desk.run(node, job)
    await last_heard_of(desk, node, 3600)
    second = await due_now(desk, node, job)
    assert await desk.start(node, second) == [
        Refused(second.ref, Refusal.SKIPPED, f"overlaps occurrence {running.ref}")
    ]


@told
async def test_a_node_that_has_left_and_not_ended_its_run_is_no_reason_for_a_skip(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    await desk.store.leave(silent)
    why = "its node is gone, and its end is not written yet"
    assert await desk.start(other, second) == [unsure(second, running, why)]


@told
async def test_instants_that_waited_together_all_run_in_order_however_long_that_took(desk: Desk) -> None:
    _, other, running, second = await scene(desk)
    third = await due_now(desk, other, second.key.job)
    long_past: dict[str, Any] = {"late_until": await desk.now() - HOUR}
    await desk.start(other, second, third, **long_past)
    await orphan(desk, other, running)
    started, queued = await desk.start(other, second, third, **long_past)
    assert isinstance(started, Started)
    assert queued == Refused(
        third.ref,
        Refusal.QUEUED,
        f"waits for occurrence {second.ref}, which was not running yet when this one was due",
    )


@pytest.mark.spec("X6", "no skip because of a dead run")
@told
async def test_an_instant_of_another_node_that_is_overdue_is_not_skipped_either(desk: Desk) -> None:
    _, other, running, second = await scene(desk)
    third = await desk.node("third")
    (refused,) = await desk.start(third, second, fence=None, takeover_after=0)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.UNSURE
    await orphan(desk, third, running)
    row = await desk.row(second.ref)
    assert (row.owner, row.fence) == (third, second.fence + 1)
    assert isinstance((await desk.start(third, second, fence=row.fence))[0], Started)
    assert (await desk.start(other, second))[0] == Refused(
        second.ref, Refusal.LOST, f"running, fence {row.fence}, owner {third}"
    )


@pytest.mark.spec("X6", "queue")
@told
async def test_a_full_queue_behind_a_silent_node_skips_nothing(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    third = await due_now(desk, other, second.key.job)
    queue: dict[str, Any] = {"overlap": Overlap.QUEUE, "max_queued": 1}
    (queued,) = await desk.start(other, second, **queue)
    assert isinstance(queued, Refused)
    assert queued.why is Refusal.QUEUED
    assert await desk.start(other, third, **queue) == [unsure(third, running)]
    await desk.store.beat(silent)
    (refused,) = await desk.start(other, third, **queue)
    why = f"overlaps occurrence {running.ref}, and 1 stand in line already"
    assert refused == Refused(third.ref, Refusal.SKIPPED, why)


@pytest.mark.spec("X6", "queue")
@told
async def test_what_found_the_queue_full_is_skipped_even_if_the_run_has_ended_by_itself_since(desk: Desk) -> None:
    silent, other, running, second = await scene(desk)
    third = await due_now(desk, other, second.key.job)
    queue: dict[str, Any] = {"overlap": Overlap.QUEUE, "max_queued": 1}
    for one in (second, third):
        await desk.start(other, one, **queue)
    await desk.finish(silent, running, ended_at=await desk.now())
    (refused,) = await desk.start(other, third, **queue)
    why = f"overlaps occurrence {running.ref}, and the queue was full"
    assert refused == Refused(third.ref, Refusal.SKIPPED, why)


@pytest.mark.spec("X6", "replace")
@told
async def test_nothing_in_the_queue_is_replaced_while_the_run_in_the_slot_may_be_dead(desk: Desk) -> None:
    _, other, running, second = await scene(desk)
    third = await due_now(desk, other, second.key.job)
    for one in (second, third):
        (refused,) = await desk.start(other, one, overlap=Overlap.REPLACE)
        assert isinstance(refused, Refused)
        assert refused.why is Refusal.QUEUED
    assert (await desk.row(running.ref)).cancelled_by == f"replaced by occurrence {second.ref}"
    await orphan(desk, other, running)
    assert [await desk.status(one.ref) for one in (second, third)] == [S.PENDING, S.QUEUED]
