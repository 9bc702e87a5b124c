"""Limits and their shares (protocol rule 13; X11)."""

from __future__ import annotations

import pytest

from itinerary.model.queries import LimitUseQuery
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import (
    Limit,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    Step,
    Written,
)
from tests.contracts.stores.desk import Desk, told


@pytest.mark.spec("X11")
@told
async def test_a_limit_is_never_passed_and_what_lacks_a_share_waits(desk: Desk) -> None:
    node = await desk.node()
    two = (Limit("api", 2),)
    claimed = [await desk.due(node, await desk.job(f"job {number}")) for number in range(3)]
    answers = await desk.start(node, *claimed, limits=two)
    assert [type(answer) for answer in answers] == [Started, Started, Refused]
    assert answers[2] == Refused(claimed[2].ref, Refusal.LIMITED, "api")
    assert await desk.status(claimed[2].ref) is OccurrenceState.PENDING
    assert await desk.start(node, claimed[2], limits=two) == [answers[2]]
    assert isinstance(answers[0], Started)
    await desk.finish(node, answers[0])
    await desk.started(node, claimed[2], limits=two)
    assert len(await desk.store.read(LimitUseQuery("api"))) == 2


@pytest.mark.spec("X11")
@told
async def test_a_limit_that_is_lowered_lets_nobody_in_until_enough_have_ended(desk: Desk) -> None:
    node = await desk.node()
    claimed = [await desk.due(node, await desk.job(f"job {number}")) for number in range(4)]
    running = [await desk.started(node, one, limits=(Limit("api", 3),)) for one in claimed[:3]]
    one = (Limit("api", 1),)
    for started in running:
        (refused,) = await desk.start(node, claimed[3], limits=one)
        assert isinstance(refused, Refused)
        await desk.finish(node, started)
    await desk.started(node, claimed[3], limits=one)


@told
async def test_what_lacks_one_of_its_limits_keeps_nothing(desk: Desk) -> None:
    node = await desk.node()
    await desk.run(node, await desk.job("a"), limits=(Limit("full", 1),))
    job = await desk.job("b")
    claimed = await desk.due(node, job)
    (refused,) = await desk.start(node, claimed, limits=(Limit("free", 1), Limit("full", 1)))
    assert isinstance(refused, Refused)
    assert refused.by == "full"
    assert list(await desk.store.read(LimitUseQuery("free"))) == []
    await desk.run(node, job)


@told
async def test_shares_are_given_back_while_it_waits_to_retry_and_its_slot_is_kept(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    limits = (Limit("api", 1),)
    started = await desk.run(node, job, limits=limits)
    retrying = OwnerWrite(
        started.ref,
        started.fence,
        started.sequence + 1,
        steps=(Step(OccurrenceState.RETRYING),),
        gives_back=True,
    )
    assert await desk.store.write(node, [retrying]) == [Written(started.ref)]
    between = await desk.run(node, await desk.job("another"), limits=limits)
    (overlapping,) = await desk.start(node, await desk.due(node, job))
    assert isinstance(overlapping, Refused)
    assert overlapping.why is Refusal.SKIPPED
    again = OwnerWrite(
        started.ref,
        started.fence,
        started.sequence + 2,
        steps=(Step(OccurrenceState.PENDING), Step(OccurrenceState.RUNNING)),
        takes=limits,
    )
    assert await desk.store.write(node, [again]) == [Refused(started.ref, Refusal.LIMITED, "api")]
    await desk.finish(node, between)
    assert await desk.store.write(node, [again]) == [Written(started.ref)]
    assert list(await desk.store.read(LimitUseQuery("api"))) == [started.ref]
