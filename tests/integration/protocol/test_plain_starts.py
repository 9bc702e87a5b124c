"""Plain starts between other sessions: what is not read is looked at all the same, under its lock (rules 7, 9)."""

from __future__ import annotations

import pytest

from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Intervention, Refusal, Refused, Started, Written
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END

pytestmark = pytest.mark.spec("N2", "plain starts")


def test_two_nodes_that_start_two_occurrences_of_a_job_plainly_cannot_both_win(scene: Scene) -> None:
    desk = scene.desk(begins_plainly=True)
    left, right, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    earlier, later = desk.request(scene.do(desk.due(left, job))), desk.request(scene.do(desk.due(right, job)))
    assert earlier.is_plain
    assert later.is_plain
    first = scene.session("first", lambda store: store.start(left, desk.revision, [earlier], 0))
    second = scene.session("second", lambda store: store.start(right, desk.revision, [later], 0))
    first.until("after swap slots")
    second.until_it_waits()
    (started,) = first.finish()
    (refused,) = second.finish()
    assert isinstance(started, Started)
    assert refused == Refused(later.ref, Refusal.SKIPPED, f"overlaps occurrence {earlier.ref}")
    assert scene.slot(desk, job).ref == earlier.ref


def test_a_takeover_waits_for_a_plain_start_and_finds_it_begun(scene: Scene) -> None:
    desk = scene.desk(begins_plainly=True)
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    claimed = scene.do(desk.due(mine, job))
    request, taking = desk.request(claimed), desk.request(claimed, fence=None)
    owner = scene.session("owner", lambda store: store.start(mine, desk.revision, [request], 0))
    thief = scene.session("thief", lambda store: store.start(others, desk.revision, [taking], 0))
    owner.until("after swap occurrences")  # between the state and the slot
    thief.until_it_waits()
    (started,) = owner.finish()
    (refused,) = thief.finish()
    assert isinstance(started, Started)
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    row = scene.do(desk.row(claimed.ref))
    assert (row.owner, row.fence, row.status) == (mine, claimed.fence, OccurrenceState.RUNNING)


def test_a_plain_start_waits_for_a_takeover_and_finds_that_it_has_lost(scene: Scene) -> None:
    desk = scene.desk(begins_plainly=True)
    mine, others, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    claimed = scene.do(desk.due(mine, job))
    request = desk.request(claimed)
    taking = Intervention(claimed.ref, claimed.fence, None, "taken", owner=others)
    thief = scene.session("thief", lambda store: store.intervene(others, [taking]))
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


def test_a_plain_start_repeated_while_the_first_is_being_committed_answers_as_the_first(scene: Scene) -> None:
    desk = scene.desk(begins_plainly=True)
    owner, job = scene.do(desk.node()), scene.do(desk.job())
    request = desk.request(scene.do(desk.due(owner, job)))
    first = scene.session("first", lambda store: store.start(owner, desk.revision, [request], 0))
    second = scene.session("second", lambda store: store.start(owner, desk.revision, [request], 0))
    first.until(THE_END)
    second.until_it_waits()
    (started,) = first.finish()
    assert isinstance(started, Started)
    assert second.finish() == [started]
    assert scene.do(desk.trail(request.ref)) == ["prerun", "pending", "running"]
