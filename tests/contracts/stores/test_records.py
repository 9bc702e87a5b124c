"""Event logs and leases (protocol rule 29; E1, E8, E10)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from itinerary.model.events import Lease, NewEvent
from itinerary.model.queries import EventsAtQuery, EventsQuery, PartitionsQuery, RecordPartitionsQuery, StreamsQuery
from itinerary.model.writes import Refusal
from tests.contracts.stores.desk import HOUR, Desk, told


def created(record: str, cause: str | None = None) -> NewEvent:
    return NewEvent(kind="RecordCreated", record=record, cause=cause or f"created {record}", data='{"a":1}')


@pytest.mark.spec("E1")
@told
async def test_events_are_numbered_without_gaps_over_all_partitions(desk: Desk) -> None:
    first = await desk.store.append("folio", "lisbon", [created("F-1"), created("F-2")])
    second = await desk.store.append("folio", "tokyo", [created("F-3")])
    third = await desk.store.append("folio", "lisbon", [created("F-4")])
    other = await desk.store.append("invoices", "lisbon", [created("I-1")])
    assert first == [1, 2]
    assert (second, third, other) == (
        [3],
        [4],
        [1],
    )
    assert [event.sequence for event in await desk.store.read(EventsQuery("folio"))] == [1, 2, 3, 4]
    assert [event.record for event in await desk.store.read(EventsQuery("folio", partition="lisbon"))] == [
        "F-1",
        "F-2",
        "F-4",
    ]
    assert [event.sequence for event in await desk.store.read(EventsQuery("folio", after=2, limit=1))] == [3]


@pytest.mark.spec("Q2", "events")
@told
async def test_an_event_keeps_who_appended_it_first(desk: Desk) -> None:
    by_anna = NewEvent(kind="RecordCreated", record="F-1", cause="one", by="anna")
    await desk.store.append("folio", "lisbon", [by_anna, created("F-2")])
    await desk.store.append("folio", "lisbon", [replace(by_anna, by="boris")])
    assert [event.entered_by for event in await desk.store.read(EventsQuery("folio"))] == ["anna", None]


@pytest.mark.spec("E10")
@told
async def test_one_cause_makes_one_event(desk: Desk) -> None:
    first = await desk.store.append("folio", "lisbon", [created("F-1")])
    assert first == [1]
    again = await desk.store.append("folio", "lisbon", [created("F-1"), created("F-2"), created("F-2")])
    assert again == [1, 2, 2]
    elsewhere = await desk.store.append("folio", "tokyo", [created("F-1")])
    assert elsewhere == [1]
    assert len(await desk.store.read(EventsQuery("folio"))) == 2


@pytest.mark.spec("E8")
@told
async def test_a_lease_is_one_nodes_until_it_runs_out_or_is_given_back(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    (lease,) = await desk.store.lease(first, "folio", ["lisbon"], HOUR)
    assert (lease.holder, lease.fence) == (first, 1)
    assert await desk.store.lease(second, "folio", ["lisbon"], HOUR) == []
    (renewed,) = await desk.store.lease(first, "folio", ["lisbon"], HOUR)
    assert renewed.fence == lease.fence
    assert await desk.store.lease(first, "folio", ["lisbon"], 0) == []
    (taken,) = await desk.store.lease(second, "folio", ["lisbon"], HOUR)
    assert (taken.holder, taken.fence) == (second, 2)
    assert [(row.partition, row.holder) for row in await desk.store.read(PartitionsQuery("folio"))] == [
        ("lisbon", second)
    ]


@pytest.mark.spec("E8")
@told
async def test_a_stale_holders_append_is_refused(desk: Desk) -> None:
    frozen, other = await desk.node(), await desk.node()
    (stale,) = await desk.store.lease(frozen, "folio", ["lisbon"], 1)
    assert await desk.store.append("folio", "lisbon", [created("F-1")], stale) == [1]
    (lease,) = await desk.store.lease(other, "folio", ["lisbon"], HOUR)
    assert await desk.store.append("folio", "lisbon", [created("F-2")], stale) is Refusal.LOST
    assert await desk.store.append("folio", "lisbon", [created("F-3")], lease) == [2]
    assert await desk.store.append("folio", "lisbon", [created("F-4")]) == [3], "a producer"


@pytest.mark.spec("E8")
@told
async def test_an_append_under_an_earlier_lease_of_the_same_node_is_refused(desk: Desk) -> None:
    node = await desk.node()
    (earlier,) = await desk.store.lease(node, "folio", ["lisbon"], HOUR)
    assert await desk.store.lease(node, "folio", ["lisbon"], 0) == []
    (lease,) = await desk.store.lease(node, "folio", ["lisbon"], HOUR)
    assert await desk.store.append("folio", "lisbon", [created("F-1")], earlier) is Refusal.LOST
    assert await desk.store.read(EventsQuery("folio")) == [], "a refused append writes nothing"
    assert await desk.store.append("folio", "lisbon", [created("F-1")], lease) == [1]


@pytest.mark.spec("E8")
@told
async def test_an_append_is_refused_though_its_node_has_the_partition_again_after_another_node(desk: Desk) -> None:
    frozen, other = await desk.node(), await desk.node()
    (stale,) = await desk.store.lease(frozen, "folio", ["lisbon"], 1)
    (between,) = await desk.store.lease(other, "folio", ["lisbon"], HOUR)
    assert await desk.store.append("folio", "lisbon", [created("F-1")], between) == [1]
    await desk.store.lease(other, "folio", ["lisbon"], 0)
    (lease,) = await desk.store.lease(frozen, "folio", ["lisbon"], HOUR)
    assert lease.holder == stale.holder, "only the fence differs"
    assert await desk.store.append("folio", "lisbon", [created("F-2")], stale) is Refusal.LOST
    assert await desk.store.append("folio", "lisbon", [created("F-2")], between) is Refusal.LOST
    assert await desk.store.append("folio", "lisbon", [created("F-2")], lease) == [2]


@pytest.mark.spec("E8")
@told
async def test_an_append_under_a_fence_that_was_never_given_is_refused(desk: Desk) -> None:
    node = await desk.node()
    (lease,) = await desk.store.lease(node, "folio", ["lisbon"], HOUR)
    for fence in (0, lease.fence + 1):
        forged = Lease("lisbon", node, fence, lease.until)
        assert await desk.store.append("folio", "lisbon", [created("F-1")], forged) is Refusal.LOST
    assert await desk.store.append("folio", "lisbon", [], Lease("lisbon", node, 0, lease.until)) is Refusal.LOST


@pytest.mark.spec("E8")
@told
async def test_each_takeover_of_an_expired_lease_raises_its_fence(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    fences = []
    for node in (first, second, first, first, second):
        (lease,) = await desk.store.lease(node, "folio", ["lisbon"], 1)
        fences.append((lease.holder, lease.fence))
    assert fences == [(first, 1), (second, 2), (first, 3), (first, 4), (second, 5)]
    assert [row.fence for row in await desk.store.read(PartitionsQuery("folio"))] == [5]


@pytest.mark.spec("E8")
@told
async def test_a_lease_that_was_given_back_has_a_higher_fence_for_its_next_holder(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    fences = []
    for node in (first, first, second, first):
        (lease,) = await desk.store.lease(node, "folio", ["lisbon"], HOUR)
        fences.append(lease.fence)
        await desk.store.lease(node, "folio", ["lisbon"], 0)
    assert fences == [1, 2, 3, 4]


@pytest.mark.spec("E8")
@told
async def test_partitions_that_are_taken_together_each_raise_their_own_fence(desk: Desk) -> None:
    first, second = await desk.node(), await desk.node()
    await desk.store.lease(first, "folio", ["lisbon"], 1)
    await desk.store.lease(second, "folio", ["lisbon"], 1)
    await desk.store.lease(first, "folio", ["tokyo"], HOUR)
    await desk.store.lease(first, "other", ["porto"], 1)
    taken = await desk.store.lease(second, "folio", ["lisbon", "porto", "tokyo"], HOUR)
    assert {lease.partition: lease.fence for lease in taken} == {"lisbon": 3, "porto": 1}
    fences = {row.partition: (row.holder, row.fence) for row in await desk.store.read(PartitionsQuery("folio"))}
    assert fences == {"lisbon": (second, 3), "porto": (second, 1), "tokyo": (first, 1)}


@told
async def test_somebody_elses_lease_does_not_serve(desk: Desk) -> None:
    holder, other = await desk.node(), await desk.node()
    (lease,) = await desk.store.lease(holder, "folio", ["lisbon"], HOUR)
    forged = Lease("lisbon", other, lease.fence, lease.until)
    assert await desk.store.append("folio", "lisbon", [created("F-1")], forged) is Refusal.LOST


@told
async def test_many_partitions_are_leased_in_one_call(desk: Desk) -> None:
    node = await desk.node()
    names = [f"hotel {number}" for number in range(300)]
    leases = await desk.store.lease(node, "folio", names, HOUR)
    assert sorted(lease.partition for lease in leases) == sorted(names)


@pytest.mark.spec("E8")
@told
async def test_a_record_lives_in_the_partition_of_its_first_event(desk: Desk) -> None:
    await desk.store.append("folio", "lisbon", [created("F-1"), created("F-2")])
    await desk.store.append("folio", "tokyo", [created("F-3")])
    await desk.store.append("invoices", "tokyo", [created("F-1")])
    homes = await desk.store.read(RecordPartitionsQuery("folio", ("F-1", "F-3", "F-4")))
    assert homes == {"F-1": "lisbon", "F-3": "tokyo"}
    assert await desk.store.append("folio", "tokyo", [created("F-9"), created("F-1", "moved")]) is Refusal.ELSEWHERE
    assert len(await desk.store.read(EventsQuery("folio"))) == 3, "and nothing of it is written"
    assert await desk.store.append("folio", "lisbon", [created("F-1", "again")]) == [4]


@pytest.mark.spec("E1")
@told
async def test_events_are_found_by_their_numbers_and_streams_are_listed(desk: Desk) -> None:
    await desk.store.append("folio", "lisbon", [created("F-1"), created("F-2")])
    await desk.store.append("folio", "tokyo", [created("F-3")])
    found = await desk.store.read(EventsAtQuery("folio", (3, 1, 9)))
    assert {number: row.record for number, row in found.items()} == {1: "F-1", 3: "F-3"}
    assert [(row.stream, row.last) for row in await desk.store.read(StreamsQuery())] == [("folio", 3)]


@told
async def test_who_watches_hears_what_somebody_tells(desk: Desk) -> None:
    await desk.store.notify(["cycle/folio/pickup"])
    async for topics in desk.store.watch():
        assert "cycle/folio/pickup" in topics
        break
