"""Protocol rule 11: whoever locks several rows locks them in the order of their keys, whatever order they came in.

A third session holds a row in the middle, so that both come to stand where the order decides. With the order in which
the batches came, each then has what the other wants. How often a piece of work was run tells whether ours met a
deadlock, since the engine would run it again.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from itinerary.model.policies import Overlap
from itinerary.model.rows import NodeNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import CancelRequest, OwnerWrite, Refusal, Refused, Started, Written
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OCCURRENCES, OVERLAP_SLOTS
from tests.contracts.stores.desk import Desk
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import THE_END

RACES = 120


def test_batches_that_are_locked_as_they_come_deadlock(scene: Scene) -> None:
    naive.set_up(scene.watcher)
    scene.watcher.do("INSERT INTO occurrences (instant) VALUES (1), (2), (3)")
    first, second, between = scene.plain("first"), scene.plain("second"), scene.plain("between")
    for session in (first, second, between):
        session.do("SET deadlock_timeout = '20ms'")
        session.do("BEGIN")
    between.do(naive.LOCK_AS_ASKED, [2])
    first.ask(scene.watcher, naive.LOCK_AS_ASKED, [1, 2, 3])
    second.ask(scene.watcher, naive.LOCK_AS_ASKED, [3, 2, 1])
    between.do("COMMIT")
    ended = []
    for session in (first, second):
        try:
            session.answer()
        except psycopg.errors.DeadlockDetected:
            ended.append(session.name)
        session.do("ROLLBACK")
    assert len(ended) == 1, "one of the two has to be undone"


def _runs(scene: Scene, desk: Desk, node: NodeNumber, jobs: int) -> list[Started]:
    return [scene.do(desk.run(node, scene.do(desk.job(f"job {number:02}")))) for number in range(jobs)]


def _launch(started: Started, sequence: int) -> OwnerWrite:
    return OwnerWrite(started.ref, started.fence, started.sequence + sequence, steps=())


def test_plain_ends_and_others_of_a_batch_lock_their_slots_in_one_order(scene: Scene) -> None:
    """What ends plainly and what fails are written in different ways; their jobs' slots are locked together."""
    desk = scene.desk()
    node = scene.do(desk.node())
    runs = _runs(scene, desk, node, 3)
    low, _, high = [scene.do(desk.row(started.ref)).job for started in runs]
    failed = OccurrenceState.FAILED
    ends = [desk.end(runs[0], failed), desk.end(runs[1]), desk.end(runs[2])]
    in_between = scene.session(
        "between",
        lambda store: store._engine.write(
            lambda tx: (tx.lock(OVERLAP_SLOTS, [(low,)]), tx.lock(OVERLAP_SLOTS, [(high,)]))
        ),
    )
    ending = scene.session("ending", lambda store: store.write(node, ends))
    in_between.until("after lock overlap_slots")
    ending.until_it_waits()
    in_between.finish()
    assert ending.finish() == [Written(change.ref) for change in ends]
    assert (in_between.stops.works, ending.stops.works) == (1, 1), "nobody was undone and run again"


def test_our_batches_wait_for_each_other_in_one_order(scene: Scene) -> None:
    desk = scene.desk()
    node = scene.do(desk.node())
    runs = _runs(scene, desk, node, 3)
    ends = [desk.end(started) for started in runs]
    launches = [_launch(started, 1) for started in reversed(runs)]
    refs = [(started.ref,) for started in runs]
    between = scene.session("between", lambda store: store._engine.write(lambda tx: tx.lock(OCCURRENCES, refs[1:2])))
    first = scene.session("first", lambda store: store.write(node, launches))
    second = scene.session("second", lambda store: store.write(node, ends))
    between.until(THE_END)
    first.until_it_waits()
    second.until_it_waits()
    between.finish()
    assert first.finish() == [Written(change.ref) for change in launches]
    assert second.finish() == [Written(change.ref) for change in ends], "repeats of those numbers, and not refused"
    assert (first.stops.works, second.stops.works) == (1, 1), "and nobody was undone and run again"


def test_our_batches_raced_against_each_other_never_deadlock(scene: Scene) -> None:
    """Claims, in any order, of the same occurrences; then writes, in any order, to all of them."""
    desk = scene.desk()
    node = scene.do(desk.node())
    runs = _runs(scene, desk, node, 12)
    job = scene.do(desk.job())
    rounds = [[scene.do(desk.wanted(job)) for _ in range(3)] for _ in range(RACES // 4)]

    async def act(store: EngineStore, seed: int) -> int:
        dice = random.Random(seed)  # noqa: S311 - the same each time
        tries = 0
        for wanted in rounds:
            tries += 1
            await store.claim(node, desk.revision, dice.sample(wanted, len(wanted)))
        for sequence in range(1, RACES + 1):
            tries += 1
            shuffled = dice.sample(runs, len(runs))
            await store.write(node, [_launch(started, sequence) for started in shuffled])
        return tries

    sessions = [scene.session(f"session {seed}", lambda store, seed=seed: act(store, seed)) for seed in range(2)]  # type: ignore[misc]
    with ThreadPoolExecutor(2) as both:
        tries = list(both.map(lambda session: session.finish(), sessions))
    assert [session.stops.works for session in sessions] == tries


# -- the slot and those who stand in line ----------------------------------------------------------------------------


@pytest.mark.spec("X6", "queue")
def test_an_end_and_one_that_comes_to_stand_in_line_do_not_deadlock(scene: Scene) -> None:
    """The one has its own row and wants the slot; the other has the slot and looks through the line."""
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    waiting, coming = scene.do(desk.due(node, job)), scene.do(desk.due(node, job))
    scene.do(desk.start(node, waiting, overlap=Overlap.QUEUE))
    request, end = desk.request(coming, overlap=Overlap.QUEUE), desk.end(running)
    ending = scene.session("ending", lambda store: store.write(node, [end]))
    enqueuing = scene.session("enqueuing", lambda store: store.start(node, desk.revision, [request], 0))
    ending.until("after lock overlap_slots")
    enqueuing.until("before lock overlap_slots")
    enqueuing.until_it_waits()
    assert ending.finish() == [Written(running.ref, waiting.ref)]
    assert enqueuing.finish() == [Refused(coming.ref, Refusal.QUEUED, f"waits for occurrence {waiting.ref}")]
    assert ending.stops.works == 1
    assert enqueuing.stops.works == 2, "one for the number of its configuration, one for the start"


@pytest.mark.spec("X6", "queue")
def test_two_that_come_to_stand_in_line_do_not_deadlock(scene: Scene) -> None:
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    waiting, one, other = [scene.do(desk.due(node, job)) for _ in range(3)]
    scene.do(desk.start(node, waiting, overlap=Overlap.QUEUE))
    requests = [desk.request(claimed, overlap=Overlap.QUEUE) for claimed in (one, other)]
    first = scene.session("first", lambda store: store.start(node, desk.revision, requests[:1], 0))
    second = scene.session("second", lambda store: store.start(node, desk.revision, requests[1:], 0))
    first.until("after lock overlap_slots")
    second.until("before lock overlap_slots")
    second.until_it_waits()
    for session, claimed in ((first, one), (second, other)):
        assert session.finish() == [Refused(claimed.ref, Refusal.QUEUED, f"waits for occurrence {running.ref}")]
    assert (first.stops.works, second.stops.works) == (2, 2)


@pytest.mark.spec("X6", "queue")
def test_an_end_that_is_repeated_holds_up_nobody_who_starts_in_its_slot(scene: Scene) -> None:
    """The end was done, and its answer lost. Who has its slot by now is starting: it has itself, and wants the slot."""
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    successor = scene.do(desk.due(node, job))
    scene.do(desk.start(node, successor, overlap=Overlap.QUEUE))
    assert scene.do(desk.finish(node, running)) == Written(running.ref, successor.ref)
    request, end = desk.request(successor, overlap=Overlap.QUEUE, fence=None), desk.end(running)
    repeating = scene.session("repeating", lambda store: store.write(node, [end]))
    starting = scene.session("starting", lambda store: store.start(node, desk.revision, [request], 0))
    starting.until("before lock overlap_slots")
    repeating.until("after get overlap_slots")
    (started,) = starting.finish()
    assert isinstance(started, Started)
    assert repeating.finish() == [Written(running.ref)], "nobody waits to be started any more"
    assert (repeating.stops.works, starting.stops.works) == (1, 2)


@pytest.mark.spec("O5")
@pytest.mark.spec("X6", "queue")
def test_one_that_is_cancelled_while_the_slot_is_being_handed_to_it_keeps_nothing(scene: Scene) -> None:
    """This is a deadlock: the one has the slot and wants who is next, the other is next and wants the slot.

    One of the two is undone and run again; whichever it is, all is well in the end.
    """
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    running = scene.do(desk.run(node, job))
    waiting = scene.do(desk.due(node, job))
    scene.do(desk.start(node, waiting, overlap=Overlap.QUEUE))
    end = desk.end(running)
    ending = scene.session("ending", lambda store: store.write(node, [end]))
    person = scene.session("person", lambda store: store.control(None, [CancelRequest(waiting.ref, "anna")]))
    ending.until("after lock overlap_slots")
    person.until("after lock occurrences")
    person.until_it_waits()
    (written,) = ending.finish()
    assert written in (Written(running.ref), Written(running.ref, waiting.ref))
    assert person.finish() == [Written(waiting.ref)]
    assert scene.do(desk.status(waiting.ref)) is OccurrenceState.CANCELLED
    assert scene.slot(desk, job).ref is None
