"""Protocol rules 13 and 14: how many may run, and who runs next.

**Limits.** Shares with numbers miscount when a limit is lowered: number 1 comes free, and the holders of 2 and 3, which
no longer exist, are not looked at. And who locks the limit and counts in one statement counts those who were there when
the statement began, and not those for whom it waited.

**Lines.** Who finds the slot taken goes to stand in line, and meanwhile the one that ran ends, sees nobody in line, and
goes. Nobody will ever wake the one in line. So both lock the slot's row.
"""

from __future__ import annotations

import pytest

from itinerary.model.policies import Overlap
from itinerary.model.queries import LimitUseQuery
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Limit, OwnerWrite, Refusal, Refused, Started, Step, Written
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END

ONE = (Limit("api", 1),)
THREE = (Limit("api", 3),)

# -- 13: limits ------------------------------------------------------------------------------------------------------


def test_numbered_shares_let_one_in_when_a_limit_is_lowered(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    ending, starting = scene.plain("ending"), scene.plain("starting")
    for number in (1, 2, 3):
        assert ending.do(naive.HOLD, number, 100 + number) == [(number,)]
    ending.do("BEGIN")
    ending.do("DELETE FROM holders WHERE occurrence = 101")
    starting.ask(scene.watcher, naive.HOLD, 1, 104)  # the limit is one by now: there is the number 1
    ending.do("COMMIT")
    assert starting.answer() == [(1,)], "a share"
    assert scene.watcher.one("SELECT count(*) FROM holders") == 3, "beside two others, where one is allowed"


@pytest.mark.spec("X11")
def test_a_lowered_limit_of_ours_counts_those_who_hold_it_whatever_it_was_when_they_came(scene: Scene) -> None:
    desk = scene.desk()
    node = scene.do(desk.node())
    jobs = [scene.do(desk.job(f"job {number}")) for number in range(4)]
    runs = [scene.do(desk.run(node, job, limits=THREE)) for job in jobs[:3]]
    request = desk.request(scene.do(desk.due(node, jobs[3])), limits=ONE)
    end = desk.end(runs[0])
    ending = scene.session("ending", lambda store: store.write(node, [end]))
    starting = scene.session("starting", lambda store: store.start(node, desk.revision, [request], 0))
    starting.until("after lock limits")
    ending.finish()
    assert starting.finish() == [Refused(request.ref, Refusal.LIMITED, "api")]
    assert list(scene.do(desk.store.read(LimitUseQuery("api")))) == [run.ref for run in runs[1:]]


def test_lock_and_count_in_one_statement_counts_too_few(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    first, second = scene.plain("first"), scene.plain("second")
    first.do("BEGIN")
    assert first.one(naive.LOCK_AND_COUNT) == 0
    first.do("INSERT INTO holders VALUES ('api', NULL, 101)")
    second.do("BEGIN")
    second.ask(scene.watcher, naive.LOCK_AND_COUNT)
    first.do("COMMIT")
    assert second.answer() == [(0,)], "it has waited for the holder, and does not count it"
    second.do("INSERT INTO holders VALUES ('api', NULL, 102)")
    second.do("COMMIT")
    assert scene.watcher.one("SELECT count(*) FROM holders") == 2, "where one is allowed"


@pytest.mark.spec("X11")
def test_two_starts_of_ours_cannot_both_have_the_last_share(scene: Scene) -> None:
    desk = scene.desk()
    left, right = scene.do(desk.node()), scene.do(desk.node())
    jobs = [scene.do(desk.job(f"job {number}")) for number in range(2)]
    requests = [
        desk.request(scene.do(desk.due(node, job)), limits=ONE) for node, job in zip((left, right), jobs, strict=True)
    ]
    earlier = scene.do(desk.run(left, scene.do(desk.job("earlier")), limits=ONE))
    scene.do(desk.finish(left, earlier))  # so that the limit's row is there, and it is its lock that counts
    first = scene.session("first", lambda store: store.start(left, desk.revision, requests[:1], 0))
    second = scene.session("second", lambda store: store.start(right, desk.revision, requests[1:], 0))
    first.until("after lock limits")
    first.until(THE_END)
    second.until_it_waits()
    (started,) = first.finish()
    assert isinstance(started, Started)
    assert second.finish() == [Refused(requests[1].ref, Refusal.LIMITED, "api")]
    assert list(scene.do(desk.store.read(LimitUseQuery("api")))) == [started.ref]


@pytest.mark.spec("X11")
def test_a_retry_and_a_start_cannot_both_have_the_last_share(scene: Scene) -> None:
    desk = scene.desk()
    node = scene.do(desk.node())
    waiting = scene.do(desk.run(node, scene.do(desk.job("retries")), limits=ONE))
    given_back = OwnerWrite(
        waiting.ref, waiting.fence, waiting.sequence + 1, steps=(Step(OccurrenceState.RETRYING),), gives_back=True
    )
    scene.do(desk.store.write(node, [given_back]))
    again = OwnerWrite(
        waiting.ref,
        waiting.fence,
        waiting.sequence + 2,
        steps=(Step(OccurrenceState.PENDING), Step(OccurrenceState.RUNNING)),
        takes=ONE,
    )
    request = desk.request(scene.do(desk.due(node, scene.do(desk.job("starts")))), limits=ONE)
    retrying = scene.session("retrying", lambda store: store.write(node, [again]))
    starting = scene.session("starting", lambda store: store.start(node, desk.revision, [request], 0))
    retrying.until(THE_END)
    starting.until_it_waits()
    assert retrying.finish() == [Written(waiting.ref)]
    assert starting.finish() == [Refused(request.ref, Refusal.LIMITED, "api")]


# -- 14: lines -------------------------------------------------------------------------------------------------------


def test_one_that_goes_to_stand_in_line_while_the_other_ends_is_never_woken(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    ending, enqueuing = scene.plain("ending"), scene.plain("enqueuing")
    ending.do("INSERT INTO occurrences (instant) VALUES (150), (160)")
    ending.do(naive.TAKE_SLOT, 150)
    enqueuing.do("BEGIN")
    assert enqueuing.do("SELECT occurrence FROM slots") == [(150,)], "it is taken"
    enqueuing.do(naive.ENQUEUE, 160)
    ending.do("BEGIN")
    ending.do("DELETE FROM slots WHERE occurrence = 150")
    assert ending.one(naive.OLDEST_IN_LINE) is None, "nobody stands in line"
    ending.do("COMMIT")
    enqueuing.do("COMMIT")
    assert scene.watcher.one(naive.OLDEST_IN_LINE) == 160, "one does"
    assert scene.watcher.do("SELECT * FROM slots") == [], "before a slot that is free"


@pytest.mark.spec("X6", "queue")
def test_an_end_waits_for_one_that_goes_to_stand_in_line_and_hands_it_the_slot(scene: Scene) -> None:
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    request = desk.request(scene.do(desk.due(node, job)), overlap=Overlap.QUEUE)
    end = desk.end(running)
    enqueuing = scene.session("enqueuing", lambda store: store.start(node, desk.revision, [request], 0))
    ending = scene.session("ending", lambda store: store.write(node, [end]))
    enqueuing.until("after lock overlap_slots")
    ending.until_it_waits()
    assert enqueuing.finish() == [Refused(request.ref, Refusal.QUEUED, f"waits for occurrence {running.ref}")]
    assert ending.finish() == [Written(running.ref, request.ref)]
    row = scene.do(desk.row(request.ref))
    assert (row.status, row.owner) == (OccurrenceState.PENDING, None)
    assert scene.slot(desk, job).ref == request.ref


@pytest.mark.spec("X6", "queue")
def test_one_that_goes_to_stand_in_line_waits_for_the_end_and_gets_the_slot(scene: Scene) -> None:
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    request = desk.request(scene.do(desk.due(node, job)), overlap=Overlap.QUEUE)
    end = desk.end(running)
    ending = scene.session("ending", lambda store: store.write(node, [end]))
    enqueuing = scene.session("enqueuing", lambda store: store.start(node, desk.revision, [request], 0))
    ending.until("after lock overlap_slots")
    enqueuing.until_it_waits()
    assert ending.finish() == [Written(running.ref)]
    (started,) = enqueuing.finish()
    assert isinstance(started, Started)
    assert scene.slot(desk, job).ref == request.ref
