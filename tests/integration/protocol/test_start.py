"""Protocol rule 7: the start is one transaction of several statements, and locks its occurrence first.

In one statement, a takeover between taking the slot and the update leaves the slot taken by nobody who runs, for good:
who should free it does not know that it has it. And a try that is repeated, since its answer was lost, finds the slot
taken, by itself, and records that it was skipped.

A start is looked at by itself, or begun plainly with all others in two conditional writes. What is not read is looked
at all the same, under its lock: both ways hold what one does.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Refusal, Refused, Started, TakeoverWrite, Written
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene, update
from tests.integration.protocol.sessions import THE_END


class Way(NamedTuple):
    """How a start is made, and where it can be held up."""

    begins_plainly: bool
    in_the_middle: str
    """Between its two writes."""
    has_the_slot: str


looked_at = Way(begins_plainly=False, in_the_middle="after lock overlap_slots", has_the_slot="after lock overlap_slots")
plainly = Way(begins_plainly=True, in_the_middle="after swap occurrences", has_the_slot="after swap overlap_slots")
both_ways = pytest.mark.parametrize(
    "way",
    [
        pytest.param(looked_at, id="looked-at"),
        pytest.param(plainly, id="plainly", marks=pytest.mark.spec("N2", "plain starts")),
    ],
)

# -- 7a: a takeover between the slot and the update ------------------------------------------------------------------


def test_a_takeover_in_the_middle_of_one_statement_leaks_the_slot(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    owner, thief = scene.plain("owner"), scene.plain("thief")
    owner.do("INSERT INTO occurrences (instant, owner) VALUES (150, 'owner')")
    thief.do("BEGIN")
    thief.do(naive.TAKE_OVER, "thief", 150)
    owner.ask(scene.watcher, naive.START, 150, "owner", 1, "owner", 1)
    thief.do("COMMIT")
    assert owner.answer() == [], "it has not started: it was taken from this owner"
    assert thief.do(naive.START, 150, "thief", 2, "thief", 2) == [], "nor can it be started by the other"
    assert scene.watcher.do("SELECT occurrence FROM slots") == [(150,)], "for the slot is taken"
    assert scene.watcher.one("SELECT status FROM occurrences") == "prerun", "by what does not run and will not end"


@pytest.mark.spec("N2")
@both_ways
def test_our_start_waits_for_a_takeover_and_takes_nothing(scene: Scene, way: Way) -> None:
    desk = scene.desk(begins_plainly=way.begins_plainly)
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    claimed = scene.do(desk.due(mine, job))
    request = desk.request(claimed)
    steal = TakeoverWrite(claimed.ref, claimed.fence, None, "its node is dead", owner=others)
    thief = scene.session("thief", lambda store: store.intervene(others, [steal]))
    owner = scene.session("owner", lambda store: store.start(mine, desk.revision, [request], 0))
    thief.until(THE_END)
    owner.until_it_waits()
    assert thief.finish() == [Written(claimed.ref)]
    (refused,) = owner.finish()
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    row = scene.do(desk.row(claimed.ref))
    assert (row.owner, row.status, row.started_at) == (others, OccurrenceState.PRERUN, None)
    assert scene.slot(desk, job).ref is None
    started = scene.do(desk.started(others, claimed, fence=claimed.fence + 1))
    assert scene.slot(desk, job).ref == started.ref


@pytest.mark.spec("N2")
@both_ways
def test_a_takeover_waits_for_our_start_and_finds_it_begun(scene: Scene, way: Way) -> None:
    desk = scene.desk(begins_plainly=way.begins_plainly)
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    claimed = scene.do(desk.due(mine, job))
    request, taking = desk.request(claimed), desk.request(claimed, fence=None)
    owner = scene.session("owner", lambda store: store.start(mine, desk.revision, [request], 0))
    thief = scene.session("thief", lambda store: store.start(others, desk.revision, [taking], 0))
    owner.until(way.in_the_middle)
    thief.until_it_waits()
    (started,) = owner.finish()
    (refused,) = thief.finish()
    assert isinstance(started, Started)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    row = scene.do(desk.row(claimed.ref))
    assert (row.owner, row.fence, row.status) == (mine, claimed.fence, OccurrenceState.RUNNING)


@pytest.mark.spec("X6")
@both_ways
def test_two_nodes_that_start_two_occurrences_of_a_job_cannot_both_win(scene: Scene, way: Way) -> None:
    desk = scene.desk(begins_plainly=way.begins_plainly)
    left, right, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    earlier, later = desk.request(scene.do(desk.due(left, job))), desk.request(scene.do(desk.due(right, job)))
    first = scene.session("first", lambda store: store.start(left, desk.revision, [earlier], 0))
    second = scene.session("second", lambda store: store.start(right, desk.revision, [later], 0))
    first.until(way.has_the_slot)
    second.until_it_waits()
    (started,) = first.finish()
    (refused,) = second.finish()
    assert isinstance(started, Started)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.QUEUED, "the other began after it was due: no skip"
    assert scene.slot(desk, job).ref == earlier.ref


# -- 7b: a repeat after a lost answer --------------------------------------------------------------------------------


def test_a_repeated_start_in_the_naive_form_finds_itself_in_the_way_and_records_that_it_was_skipped(
    scene: Scene,
) -> None:
    naive.set_up(scene.watcher)
    first, second = scene.plain("first"), scene.plain("second")
    first.do("INSERT INTO occurrences (instant, owner) VALUES (150, 'node')")
    first.do("BEGIN")
    assert first.do(naive.TAKE_SLOT, 150) == [(150,)]
    first.do("UPDATE occurrences SET status = 'running' WHERE instant = 150")
    second.ask(scene.watcher, naive.TAKE_SLOT, 150)  # the first answer was lost: once more
    first.do("COMMIT")
    assert second.answer() == [], "the slot is taken"
    second.do(naive.SKIP, 150, "node", 1)
    assert scene.watcher.one("SELECT status FROM occurrences") == "skipped", "by itself: it is running"


@pytest.mark.spec("N2")
@both_ways
def test_our_start_repeated_while_the_first_is_being_committed_answers_as_the_first(scene: Scene, way: Way) -> None:
    desk = scene.desk(begins_plainly=way.begins_plainly)
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    request = desk.request(scene.do(desk.due(owner, job)))
    first = scene.session("first", lambda store: store.start(owner, desk.revision, [request], 0))
    second = scene.session("second", lambda store: store.start(owner, desk.revision, [request], 0))
    first.until(way.in_the_middle)
    first.until(THE_END)
    second.until_it_waits()
    (started,) = first.finish()
    assert isinstance(started, Started)
    assert second.finish() == [started]
    assert scene.do(desk.trail(request.ref)) == ["prerun", "pending", "running"]


@pytest.mark.spec("N2")
def test_our_start_repeated_after_the_timeline_has_moved_still_answers_as_the_first(scene: Scene) -> None:
    """A node that is told "ask again by the new timeline" may find the instant gone from it, and would not ask."""
    desk = scene.desk()
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    request, other = [desk.request(scene.do(desk.due(owner, job))) for _ in range(2)]
    first = scene.session("first", lambda store: store.start(owner, desk.revision, [request], 0))
    person = scene.session("person", lambda store: store.amend([update()]))
    second = scene.session("second", lambda store: store.start(owner, desk.revision, [request, other], 0))
    first.until("after lock overlap_slots")
    first.until(THE_END)
    person.until_it_waits()
    (started,) = first.finish()
    assert isinstance(started, Started)
    person.finish()
    assert second.finish() == [started, Refused(other.ref, Refusal.MOVED)]


# -- 9: the late result of a run that was ended by another -----------------------------------------------------------


def test_a_slot_freed_by_name_is_the_successors(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    frozen, reaper = scene.plain("frozen"), scene.plain("reaper")
    reaper.do("INSERT INTO occurrences (instant, owner) VALUES (150, 'frozen'), (160, 'other'), (170, 'other')")
    reaper.do("UPDATE occurrences SET status = 'running' WHERE instant = 150")
    reaper.do("INSERT INTO slots VALUES ('backup', 150)")
    frozen.do("BEGIN")
    reaper.do("BEGIN")
    reaper.do("UPDATE occurrences SET status = 'failed_stale', fence = 2 WHERE instant = 150")
    reaper.do(naive.FREE_SLOT_BY_NAME)
    frozen.ask(scene.watcher, naive.END, 150, "frozen")
    reaper.do("COMMIT")
    assert frozen.answer() == [], "its result is refused, as it should be"
    assert reaper.do(naive.START, 160, "other", 1, "other", 1) == [(160,)]
    frozen.do(naive.FREE_SLOT_BY_NAME)
    frozen.do("COMMIT")
    assert reaper.do(naive.START, 170, "other", 1, "other", 1) == [(170,)], "a second one beside the one that runs"
    assert scene.watcher.one("SELECT count(*) FROM occurrences WHERE status = 'running'") == 2


@pytest.mark.spec("O4")
@pytest.mark.spec("N4")
def test_the_late_result_of_a_reaped_run_leaves_its_successors_slot_alone(scene: Scene) -> None:
    desk = scene.desk()
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    reaped = scene.do(desk.run(mine, job))
    end = desk.end(reaped)
    stale = TakeoverWrite(reaped.ref, reaped.fence, OccurrenceState.FAILED_STALE, "over its time")
    frozen = scene.session("frozen", lambda store: store.write(mine, [end]))
    reaper = scene.session("reaper", lambda store: store.intervene(others, [stale]))
    reaper.until(THE_END)
    frozen.until_it_waits()
    assert reaper.finish() == [Written(reaped.ref)]
    (refused,) = frozen.finish()
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    assert scene.slot(desk, job).ref is None


@pytest.mark.spec("O4")
@pytest.mark.spec("N4")
def test_a_result_that_comes_when_its_successor_runs_leaves_the_slot_alone(scene: Scene) -> None:
    desk = scene.desk()
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    reaped = scene.do(desk.run(mine, job))
    end = desk.end(reaped)
    frozen = scene.session("frozen", lambda store: store.write(mine, [end]))
    frozen.until("before lock occurrences")
    stale = TakeoverWrite(reaped.ref, reaped.fence, OccurrenceState.FAILED_STALE, "over its time")
    scene.do(desk.store.intervene(others, [stale]))
    successor = scene.do(desk.run(others, job))
    (refused,) = frozen.finish()
    assert isinstance(refused, Refused)
    assert scene.slot(desk, job).ref == successor.ref
    (third,) = scene.do(desk.start(others, scene.do(desk.due(others, job))))
    assert third == Refused(third.ref, Refusal.SKIPPED, f"overlaps occurrence {successor.ref}")


@pytest.mark.spec("X6", "allow")
def test_the_end_of_one_that_ran_beside_leaves_the_slot_to_the_one_that_is_in_it(scene: Scene) -> None:
    """Its job allowed it to run without the slot, which it ends without: the slot is freed by who is in it."""
    desk = scene.desk()
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    beside = scene.do(desk.run(mine, job, overlap=Overlap.ALLOW))
    request, end = desk.request(scene.do(desk.due(others, job))), desk.end(beside)
    starting = scene.session("starting", lambda store: store.start(others, desk.revision, [request], 0))
    ending = scene.session("ending", lambda store: store.write(mine, [end]))
    starting.until("after lock overlap_slots")
    ending.until_it_waits()
    (started,) = starting.finish()
    assert isinstance(started, Started)
    assert ending.finish() == [Written(beside.ref)]
    assert scene.slot(desk, job).ref == started.ref
