"""Instants of a job that are late together run one behind the other, whatever its overlap policy (X6, R1)."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Claimed, Limit, Refusal, Refused, Started
from tests.contracts.stores.desk import HOUR, Desk, told

S = OccurrenceState
IN_THE_WAY = (Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE)


async def until(desk: Desk) -> int:
    """A moment up to which everything here is merely late."""
    return await desk.now() + HOUR


async def due_since(desk: Desk, node: NodeNumber, job: JobNumber, moment: int) -> Claimed:
    """An occurrence that came to be due at a moment that has passed."""
    return await desk.due(node, job, due_at=moment)


async def all_run(desk: Desk, overlap: Overlap, *, together: bool) -> None:
    """Three that are late, begun in one batch or one by one: the first runs, and hands its slot on."""
    node, other, job = await desk.node(), await desk.node(), await desk.job(f"{overlap} {together}")
    late = [await desk.due(node, job) for _ in range(3)]
    given: dict[str, Any] = {
        "overlap": overlap,
        "max_queued": 1 if overlap is Overlap.QUEUE else None,
        "late_until": await until(desk),
    }
    batches = [late] if together else [[one] for one in late]
    running, *queued = [answer for batch in batches for answer in await desk.start(node, *batch, **given)]
    assert isinstance(running, Started)
    why = f"waits for occurrence {running.ref}, which was not running yet when this one was due"
    assert queued == [Refused(one.ref, Refusal.QUEUED, why) for one in late[1:]]
    assert await desk.start(node, *late[1:], **given) == queued, "asked again, it answers as the first time"
    for one in late[1:]:
        assert (await desk.row(running.ref)).cancelled_by is None, "nobody asks it to end"
        assert (await desk.finish(node, running)).next == one.ref
        running, node = await desk.started(other, one, fence=None, **given), other
    await desk.finish(node, running)
    assert [await desk.status(one.ref) for one in late] == [S.COMPLETED] * 3
    assert await desk.trail(late[2].ref) == ["prerun", "queued", "pending", "running", "completed"]


@pytest.mark.spec("X6", "what is late together runs in order")
@told
async def test_instants_that_are_late_together_all_run_in_order(desk: Desk) -> None:
    for overlap in IN_THE_WAY:
        await all_run(desk, overlap, together=True)
        await all_run(desk, overlap, together=False)


@pytest.mark.spec("X6", "what is late together runs in order")
@told
async def test_beyond_the_grace_period_the_overlap_policy_decides(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running, late = await desk.run(node, job), await desk.due(node, job)
    (refused,) = await desk.start(node, late, late_until=await desk.now() - 1)
    assert refused == Refused(late.ref, Refusal.SKIPPED, f"overlaps occurrence {running.ref}")


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_a_claimed_instant_beyond_the_grace_period_does_not_start_before_a_sweep_has_decided(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await desk.set_watermark_back()
    late, other = await desk.due(node, job), await desk.due(node, await desk.job("other"))
    given: dict[str, Any] = {"late_until": await desk.now() - 1}
    refused = [Refused(one.ref, Refusal.OVERDUE, "the recovery strategy of its job decides") for one in (late, other)]
    assert await desk.start(node, late, other, **given) == refused
    assert await desk.start(node, late, other, **given) == refused, "asked again, it answers as the first time"
    assert await desk.trail(late.ref) == ["prerun"], "nothing is written"
    await desk.recover(node, late)
    (lost,) = await desk.start(node, late, **given)
    assert isinstance(lost, Refused)
    assert lost.why is Refusal.LOST, "the sweep has taken it from its owner"
    await desk.started(node, late, fence=None, **given)
    await desk.sweep(node)
    await desk.started(node, other, **given)


@pytest.mark.spec("R1", "claimed before an outage")
@told
async def test_a_run_that_began_before_an_outage_is_told_so_again_however_late(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    await desk.set_watermark_back()
    late = await desk.due(node, job)
    begun = await desk.started(node, late)
    assert await desk.start(node, late, late_until=await desk.now() - 1) == [begun]


@pytest.mark.spec("X6", "skip")
@told
async def test_what_is_due_while_a_late_one_runs_is_skipped_and_those_in_line_stay(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second = await desk.due(node, job), await desk.due(node, job)
    given: dict[str, Any] = {"late_until": await until(desk)}
    running, _ = await desk.start(node, first, second, **given)
    assert isinstance(running, Started)
    on_time = await due_since(desk, node, job, running.started_at + 1)
    (refused,) = await desk.start(node, on_time, **given)
    assert refused == Refused(on_time.ref, Refusal.SKIPPED, f"overlaps occurrence {first.ref}")
    assert (await desk.finish(node, running)).next == second.ref


@pytest.mark.spec("X6", "replace")
@told
async def test_what_is_due_while_a_late_one_runs_replaces_it_and_those_in_line(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    first, second = await desk.due(node, job), await desk.due(node, job)
    given: dict[str, Any] = {"overlap": Overlap.REPLACE, "late_until": await until(desk)}
    running, _ = await desk.start(node, first, second, **given)
    assert isinstance(running, Started)
    on_time = await due_since(desk, node, job, running.started_at + 1)
    await desk.start(node, on_time, **given)
    assert (await desk.row(first.ref)).cancelled_by == f"replaced by occurrence {on_time.ref}"
    assert await desk.status(second.ref) is S.SKIPPED
    assert (await desk.finish(node, running, to=S.CANCELLED)).next == on_time.ref


@pytest.mark.spec("X6", "skip")
@told
async def test_one_that_has_been_called_and_has_not_begun_is_in_the_way_since_it_was_called(desk: Desk) -> None:
    """Else a job whose next run waits for a limit would have everything that is due meanwhile stand in line."""
    node, job, other = await desk.node(), await desk.job(), await desk.job("other")
    first, called, late = [await desk.due(node, job) for _ in range(3)]
    given: dict[str, Any] = {"late_until": await until(desk), "limits": (Limit("api", 1),)}
    running, _ = await desk.start(node, first, called, **given)
    assert isinstance(running, Started)
    await desk.finish(node, running)
    await desk.started(node, await desk.due(node, other), limits=(Limit("api", 1),))
    (lacking,) = await desk.start(node, called, fence=None, **given)
    assert lacking == Refused(called.ref, Refusal.LIMITED, "api")
    called_at = (await desk.detail(called.ref)).transitions[-1].at
    on_time = await due_since(desk, node, job, called_at + 1)
    (refused,) = await desk.start(node, on_time, **given)
    assert refused == Refused(on_time.ref, Refusal.SKIPPED, f"overlaps occurrence {called.ref}")
    (refused,) = await desk.start(node, late, **given)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.QUEUED


@pytest.mark.spec("R2", "live instants queue behind")
@told
async def test_behind_recovery_all_that_are_late_stand_in_line(desk: Desk) -> None:
    for overlap in IN_THE_WAY:
        node, job = await desk.node(), await desk.job(overlap)
        recovering = await desk.due(node, job, is_recovery=True)
        late = [await desk.due(node, job) for _ in range(3)]
        running = await desk.started(node, recovering, overlap=Overlap.QUEUE)
        await desk.start(node, *late, overlap=overlap, late_until=await until(desk))
        assert [await desk.status(one.ref) for one in late] == [S.QUEUED] * 3
        assert (await desk.finish(node, running)).next == late[0].ref
