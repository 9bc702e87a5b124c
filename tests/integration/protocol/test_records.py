"""Protocol rule 29: appending to an event log, while a lease changes hands, and while others append.

A fence that is checked in the insert's WHERE is checked against what was committed when the statement began: the lease
is taken over, its new holder reads the log to see where it is, and then the old holder's event is committed after all.
And a serial column gives out its numbers before anybody commits: 2 can be seen before 1, a reader goes on from 2, and
never sees 1.
"""

from __future__ import annotations

import pytest

from itinerary.model.events import NewEvent
from itinerary.model.queries import EventsQuery
from itinerary.model.writes import Refusal
from tests.contracts.stores.desk import HOUR
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END


def _event(cause: str) -> NewEvent:
    return NewEvent(kind="RecordCreated", record=f"of {cause}", cause=cause)


# -- 29a: the fence --------------------------------------------------------------------------------------------------


def test_a_fence_checked_in_the_inserts_where_lets_a_stale_holder_through(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    stale, holder = scene.plain("stale"), scene.plain("holder")
    stale.do("BEGIN")
    assert stale.do(naive.APPEND, "of the old holder", "first", 1) == [(1,)]
    holder.do("UPDATE partitions SET holder = 'second', fence = 2")
    assert holder.do("SELECT text FROM events") == [], "the new holder knows all that there is"
    stale.do("COMMIT")
    assert holder.do("SELECT text FROM events") == [("of the old holder",)], "and now there is more"


@pytest.mark.spec("E8")
def test_a_takeover_of_ours_waits_for_an_append_and_has_seen_it(scene: Scene) -> None:
    desk = scene.desk()
    first, second = scene.do(desk.node()), scene.do(desk.node())
    (lease,) = scene.do(desk.store.lease(first, "bookings", ["hotel"], 1))  # it runs out at once
    old = scene.session("old", lambda store: store.append("bookings", "hotel", [_event("a")], lease))
    new = scene.session("new", lambda store: store.lease(second, "bookings", ["hotel"], HOUR))
    old.until("after lock partitions")
    new.until_it_waits()
    assert old.finish() == [1]
    (taken,) = new.finish()
    assert (taken.holder, taken.fence) == (second, lease.fence + 1)
    assert len(scene.do(desk.store.read(EventsQuery("bookings")))) == 1
    assert scene.do(desk.store.append("bookings", "hotel", [_event("b")], lease)) is Refusal.LOST


@pytest.mark.spec("E8")
def test_an_append_of_ours_waits_for_a_takeover_and_is_refused(scene: Scene) -> None:
    desk = scene.desk()
    first, second = scene.do(desk.node()), scene.do(desk.node())
    (lease,) = scene.do(desk.store.lease(first, "bookings", ["hotel"], 1))
    new = scene.session("new", lambda store: store.lease(second, "bookings", ["hotel"], HOUR))
    old = scene.session("old", lambda store: store.append("bookings", "hotel", [_event("a")], lease))
    new.until(THE_END)
    old.until_it_waits()
    (taken,) = new.finish()
    assert old.finish() is Refusal.LOST
    assert list(scene.do(desk.store.read(EventsQuery("bookings")))) == []
    assert scene.do(desk.store.append("bookings", "hotel", [_event("a")], taken)) == [1]


# -- 29b: the numbers ------------------------------------------------------------------------------------------------


def test_serial_numbers_are_committed_out_of_order_and_a_reader_at_2_never_sees_1(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    slow, quick, reader = scene.plain("slow"), scene.plain("quick"), scene.plain("reader")
    slow.do("BEGIN")
    assert slow.do(naive.APPEND, "one", "first", 1) == [(1,)]
    assert quick.do(naive.APPEND, "two", "first", 1) == [(2,)]
    seen = reader.do("SELECT number, text FROM events ORDER BY number")
    slow.do("COMMIT")
    seen += reader.do("SELECT number, text FROM events WHERE number > %s ORDER BY number", seen[-1][0])
    assert seen == [(2, "two")], "and there it goes on from"


@pytest.mark.spec("E1")
def test_our_numbers_are_committed_in_order_across_partitions(scene: Scene) -> None:
    desk = scene.desk()
    scene.do(desk.store.append("bookings", "a", [_event("zero")]))  # so that the stream's row is there to be locked
    slow = scene.session("slow", lambda store: store.append("bookings", "a", [_event("one")]))
    quick = scene.session("quick", lambda store: store.append("bookings", "b", [_event("two")]))
    slow.until("after lock streams")
    quick.until_it_waits()
    assert len(scene.do(desk.store.read(EventsQuery("bookings")))) == 1, "3 cannot be seen before 2"
    assert (slow.finish(), quick.finish()) == ([2], [3])
    assert [event.sequence for event in scene.do(desk.store.read(EventsQuery("bookings")))] == [1, 2, 3]


@pytest.mark.spec("E1")
def test_an_append_that_is_undone_leaves_no_gap(scene: Scene) -> None:
    desk = scene.desk()
    scene.do(desk.store.append("bookings", "a", [_event("zero")]))
    gone = scene.session("gone", lambda store: store.append("bookings", "a", [_event("one")]), patience=0)
    other = scene.session("other", lambda store: store.append("bookings", "b", [_event("two")]))
    gone.until(THE_END)
    other.until_it_waits()
    scene.watcher.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gone'")
    assert other.finish() == [2]


@pytest.mark.spec("E1")
def test_an_append_repeated_while_the_first_is_being_committed_gets_its_number(scene: Scene) -> None:
    desk = scene.desk()
    first = scene.session("first", lambda store: store.append("bookings", "a", [_event("one")]))
    second = scene.session("second", lambda store: store.append("bookings", "a", [_event("one"), _event("two")]))
    elsewhere = scene.session("elsewhere", lambda store: store.append("bookings", "b", [_event("one")]))
    first.until(THE_END)
    second.until_it_waits()
    elsewhere.until_it_waits()
    assert first.finish() == [1]
    assert second.finish() == [1, 2]
    assert elsewhere.finish() == [1]
    assert [event.sequence for event in scene.do(desk.store.read(EventsQuery("bookings")))] == [1, 2]


# -- and where a record lives ------------------------------------------------------------------------------------------


@pytest.mark.spec("E8")
def test_of_two_that_create_a_record_in_different_partitions_at_once_the_second_is_refused(scene: Scene) -> None:
    desk = scene.desk()
    scene.do(desk.store.append("bookings", "a", [_event("zero")]))  # so that the stream's row is there to be locked
    first = NewEvent(kind="RecordCreated", record="F-1", cause="by one")
    second = NewEvent(kind="RecordCreated", record="F-1", cause="by another")
    slow = scene.session("slow", lambda store: store.append("bookings", "a", [first]))
    quick = scene.session("quick", lambda store: store.append("bookings", "b", [second]))
    slow.until("after lock streams")
    quick.until_it_waits()
    assert (slow.finish(), quick.finish()) == ([2], Refusal.ELSEWHERE)
    assert {event.partition for event in scene.do(desk.store.read(EventsQuery("bookings")))} == {"a"}
