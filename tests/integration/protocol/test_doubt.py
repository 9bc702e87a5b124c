"""Protocol rule 24: a task's transaction whose COMMIT was not answered. Did it happen?

The connection is gone, but the server may still be at it: the commit can come a moment after somebody has looked, and
found nothing. So whoever wants to know has to write to the row that the transaction has written to, and thereby waits
until there is an answer.

Here the commit stands in the middle: a constraint of the task's table that is checked at the commit waits for a lock
that the test holds. Then the task's connection is cut, as by a network.
"""

from __future__ import annotations

import pytest

from itinerary.errors import TransactionError
from itinerary.model.rows import AttemptRow, NodeNumber
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Started, Step, TakeoverWrite
from itinerary.ports import TaskTransaction
from itinerary.stores.postgres.connections import sever
from itinerary.stores.store import EngineStore
from tests.contracts.stores.desk import Desk
from tests.integration.protocol import naive
from tests.integration.protocol.scene import Scene
from tests.integration.protocol.sessions import Plain, Session

pytestmark = pytest.mark.spec("D6")

_COMMIT_WAITS = """
CREATE TABLE work (id int PRIMARY KEY);
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(24); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION at_commit();
"""


@pytest.fixture
def network(scene: Scene) -> Plain:
    """Who holds up every commit of work, until it lets go."""
    holder = scene.plain("network")
    holder.do(_COMMIT_WAITS)
    holder.do("SELECT pg_advisory_lock(24)")
    return holder


def test_a_plain_read_says_that_it_did_not_happen_and_then_it_does(scene: Scene, network: Plain) -> None:
    naive.set_up(scene.watcher)
    task, asker = scene.plain("task"), scene.plain("asker")
    task.do("INSERT INTO occurrences VALUES (150, 'node', 1, 'running')")
    task.do("BEGIN")
    task.do("INSERT INTO work VALUES (1)")
    task.do("UPDATE occurrences SET status = 'completed' WHERE instant = 150")
    task.ask(scene.watcher, "COMMIT")
    assert asker.one("SELECT status FROM occurrences") == "running", "so it did not happen, and is tried again"
    network.do("SELECT pg_advisory_unlock(24)")
    task.answer()
    assert asker.one("SELECT status FROM occurrences") == "completed", "it did"
    assert asker.one("SELECT count(*) FROM work") == 1, "and a second try would do the work twice"


def _failure(started: Started) -> OwnerWrite:
    return OwnerWrite(
        started.ref,
        started.fence,
        started.sequence + 1,
        steps=(Step(OccurrenceState.FAILED, why="the commit was lost"),),
        attempts=(AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, 2, error="the commit was lost"),),
    )


def _cut_off_in_the_commit(scene: Scene, desk: Desk, node: NodeNumber, started: Started) -> Session[None]:
    """A task whose commit stands in the middle and whose connection is gone; it waits to hear what came of it."""
    success, failure = desk.end(started), _failure(started)
    opened: list[TaskTransaction] = []

    async def work(store: EngineStore) -> None:
        async with store.transaction(node, success, failure, timeout=60) as task:
            opened.append(task)
            await task.execute("INSERT INTO work VALUES (1)")

    session = scene.session("task", work)
    session.until_it_waits()
    (task,) = opened
    sever(task._connection)  # type: ignore[attr-defined]
    session.until_it_waits(connections=2)  # the server is still at the commit; and we wait for it
    return session


def test_our_commit_in_doubt_that_does_happen_is_a_success(scene: Scene, network: Plain) -> None:
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    started = scene.do(desk.run(node, job))
    task = _cut_off_in_the_commit(scene, desk, node, started)
    assert scene.do(desk.status(started.ref)) is OccurrenceState.RUNNING, "a plain read would say no"
    network.do("SELECT pg_advisory_unlock(24)")
    task.finish()
    assert scene.do(desk.status(started.ref)) is OccurrenceState.COMPLETED
    assert scene.watcher.one("SELECT count(*) FROM work") == 1
    assert [attempt.status for attempt in scene.do(desk.detail(started.ref)).attempts] == [TaskState.SUCCESS]


def test_our_commit_in_doubt_that_does_not_happen_is_a_failure_and_cannot_happen_later(
    scene: Scene, network: Plain
) -> None:
    desk = scene.desk()
    node, job = scene.do(desk.node()), scene.do(desk.job())
    started = scene.do(desk.run(node, job))
    task = _cut_off_in_the_commit(scene, desk, node, started)
    ended = scene.watcher.one(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE application_name = 'task' AND wait_event = 'advisory'"
    )
    assert ended == 1
    with pytest.raises(TransactionError, match="was not committed"):
        task.finish()
    network.do("SELECT pg_advisory_unlock(24)")
    assert scene.do(desk.status(started.ref)) is OccurrenceState.FAILED
    assert scene.watcher.one("SELECT count(*) FROM work") == 0
    assert [attempt.status for attempt in scene.do(desk.detail(started.ref)).attempts] == [TaskState.FAILED]


def test_a_takeover_waits_for_our_commit_in_doubt_and_comes_too_late(scene: Scene, network: Plain) -> None:
    """A node that is declared dead in the middle of its commit: either it happened, or the other has it, never both."""
    desk = scene.desk()
    node, other, job = scene.do(desk.node()), scene.do(desk.node()), scene.do(desk.job())
    started = scene.do(desk.run(node, job))
    orphan = TakeoverWrite(started.ref, started.fence, OccurrenceState.ORPHANED, "its node is dead")
    task = _cut_off_in_the_commit(scene, desk, node, started)
    rescuer = scene.session("rescuer", lambda store: store.intervene(other, [orphan]))
    rescuer.until_it_waits()
    network.do("SELECT pg_advisory_unlock(24)")
    (refused,) = rescuer.finish()
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    task.finish()
    assert scene.do(desk.status(started.ref)) is OccurrenceState.COMPLETED
