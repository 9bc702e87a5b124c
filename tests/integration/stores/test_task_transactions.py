"""A task's own rows and its success (D6): both are there or neither, whatever happens between the two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from itinerary.errors import TransactionError
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, NodeNumber
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import OwnerWrite, Started, TakeoverWrite, Written
from itinerary.stores import open_store
from tests.contracts.stores.desk import Desk
from tests.contracts.stores.dump import dump
from tests.integration.postgres.sessions import until_waiting
from tests.integration.stores.conftest import Places
from tests.integration.stores.nursery import Nursery
from tests.integration.stores.own_tables import count_effects, create_effects, run
from tests.integration.stores.sidelives import EFFECT, failure_of, success_of
from tests.integration.stores.witness import settle
from tests.proxy import Proxy, When
from tests.servers import PostgresServer

pytestmark = pytest.mark.spec("D6")

Body = Callable[[], Awaitable[None]]

with_tasks = pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)


async def _nothing() -> None:
    """What a task does besides writing."""


class Task:
    """An occurrence that runs, and its one task."""

    def __init__(self, url: str, desk: Desk, node: NodeNumber, started: Started) -> None:
        self.url, self.desk, self.node, self.started = url, desk, node, started

    async def attempt(self, body: Body = _nothing, *, allowed: float = 60) -> None:
        """Write a row and do this, in the task's transaction."""
        success, failure = success_of(self.started), failure_of(self.started)
        async with self.desk.store.transaction(self.node, success, failure, timeout=allowed) as transaction:
            await transaction.execute(EFFECT)
            await body()

    async def stands(self) -> tuple[int, OccurrenceState, list[TaskState]]:
        """The task's rows, the state of its occurrence, and those of its attempts."""
        (await dump(self.desk.engine)).check()
        detail = await self.desk.detail(self.started.ref)
        return count_effects(self.url), detail.row.status, [attempt.status for attempt in detail.attempts]


BEFORE = (0, OccurrenceState.RUNNING, [TaskState.RUNNING])
AFTER = (1, OccurrenceState.COMPLETED, [TaskState.SUCCESS])


def told(url: str, story: Callable[[Task], Awaitable[None]], *, through: str | None = None) -> None:
    """A story of one task, on a store that may be reached in another way than its tables are looked at."""

    async def main() -> None:
        async with open_store(through or url) as store:
            desk = Desk(store, store._engine)
            node = await desk.node()
            started = await desk.run(node, await desk.job())
            await asyncio.to_thread(create_effects, url)
            await story(Task(url, desk, node, started))

    asyncio.run(main())


@with_tasks
def test_a_tasks_rows_and_its_success_are_committed_together(places: Places) -> None:
    async def story(task: Task) -> None:
        await task.attempt()
        assert await task.stands() == AFTER

    told(places(), story)


@with_tasks
def test_a_task_whose_occurrence_was_taken_commits_nothing(places: Places) -> None:
    async def story(task: Task) -> None:
        async def be_robbed() -> None:
            async with open_store(task.url) as other:
                robber = await other.join("robber", "b", "{}")
                taken = TakeoverWrite(task.started.ref, task.started.fence, OccurrenceState.ORPHANED, "silent")
                (answer,) = await other.intervene(robber, [taken])
                assert isinstance(answer, Written)

        robbing = asyncio.Event()

        async def wait() -> None:
            robbing.set()
            await robbed

        async def rob() -> None:
            await robbing.wait()
            await be_robbed()

        robbed = asyncio.create_task(rob())
        with pytest.raises(TransactionError, match="no longer this node's"):
            await task.attempt(wait)
        assert await task.stands() == (0, OccurrenceState.ORPHANED, [TaskState.RUNNING])

    told(places(), story)


@with_tasks
def test_a_task_over_its_time_commits_nothing(places: Places) -> None:
    async def story(task: Task) -> None:
        async def take_long() -> None:
            await asyncio.Event().wait()

        with pytest.raises(TransactionError, match="longer than"):
            await task.attempt(take_long, allowed=0.1)
        assert await task.stands() == BEFORE

    told(places(), story)


@with_tasks
def test_a_retry_sees_nothing_of_the_attempt_that_failed(places: Places) -> None:
    async def story(task: Task) -> None:
        async def fail() -> None:
            raise ValueError("the task's own")

        with pytest.raises(ValueError, match="the task's own"):
            await task.attempt(fail)
        started = task.started
        retry = OwnerWrite(
            started.ref,
            started.fence,
            started.sequence + 1,
            attempts=(
                AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, 2),
                AttemptRow(started.ref, 0, 2, TaskState.RUNNING, 3),
            ),
        )
        (written,) = await task.desk.store.write(task.node, [retry])
        assert isinstance(written, Written)
        success = OwnerWrite(
            started.ref,
            started.fence,
            started.sequence + 2,
            steps=(success_of(started).steps),
            attempts=(AttemptRow(started.ref, 0, 2, TaskState.SUCCESS, 3, 4),),
        )
        failure = OwnerWrite(started.ref, started.fence, started.sequence + 2)
        async with task.desk.store.transaction(task.node, success, failure, timeout=60) as transaction:
            assert await transaction.fetch("SELECT * FROM effects") == []
            await transaction.execute(EFFECT)
        assert await task.stands() == (1, OccurrenceState.COMPLETED, [TaskState.FAILED, TaskState.SUCCESS])

    told(places(), story)


@with_tasks
def test_an_open_transaction_of_a_task_holds_up_nobody(places: Places) -> None:
    async def story(task: Task) -> None:
        desk = task.desk
        others = [await desk.job(f"other {number}") for number in range(3)]
        (own,) = [(await desk.row(task.started.ref)).job]

        async def elsewhere() -> None:
            for job in (*others, own):
                started = await desk.run(task.node, job, overlap=Overlap.ALLOW)
                await desk.finish(task.node, started)
            await desk.store.beat(task.node)

        is_open, may_end = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            is_open.set()
            await may_end.wait()

        attempt = asyncio.create_task(task.attempt(wait))
        await is_open.wait()
        async with asyncio.timeout(30):
            await elsewhere()
        may_end.set()
        await attempt
        assert await task.stands() == AFTER

    told(places(), story)


# -- killed ----------------------------------------------------------------------------------------------------------


@with_tasks
@pytest.mark.parametrize("stop", ["before the end", "after the end"])
def test_a_process_killed_before_its_tasks_commit_leaves_neither(places: Places, nursery: Nursery, stop: str) -> None:
    url = places()
    life = nursery.born("task", url, stop=stop)
    assert life.word("stopped")
    life.kill()
    settle(url)

    async def look() -> None:
        async with open_store(url) as store:
            found = await dump(store._engine)
            found.check()
            (row,) = found.occurrences.values()
            assert row.status is OccurrenceState.RUNNING

    asyncio.run(look())
    assert count_effects(url) == 0


# -- a commit in doubt -----------------------------------------------------------------------------------------------


def _through_proxy(server: PostgresServer, story: Callable[[Task, Proxy], Awaitable[None]]) -> None:
    async def main(url: str, proxy: Proxy) -> None:
        async with open_store(proxy.url) as store:
            desk = Desk(store, store._engine)
            node = await desk.node()
            started = await desk.run(node, await desk.job())
            await asyncio.to_thread(create_effects, url)
            await story(Task(url, desk, node, started), proxy)

    with server.database() as url, Proxy(url) as proxy:
        asyncio.run(main(url, proxy))


def _losing(proxy: Proxy, when: When) -> Body:
    async def arm() -> None:
        proxy.cut_at_commit(when)

    return arm


def test_a_commit_that_was_lost_on_its_way_is_found_not_to_have_happened(postgres_server: PostgresServer) -> None:
    async def story(task: Task, proxy: Proxy) -> None:
        with pytest.raises(TransactionError, match="was not committed"):
            await task.attempt(_losing(proxy, "before"))
        assert proxy.commits_cut == 1
        assert await task.stands() == (0, OccurrenceState.RUNNING, [TaskState.FAILED])

    _through_proxy(postgres_server, story)


def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(postgres_server: PostgresServer) -> None:
    async def story(task: Task, proxy: Proxy) -> None:
        await task.attempt(_losing(proxy, "answered"))
        assert proxy.commits_cut == 1
        assert await task.stands() == AFTER

    _through_proxy(postgres_server, story)


def test_a_commit_that_the_server_still_works_on_is_waited_for(postgres_server: PostgresServer) -> None:
    """A plain read would find that it had not happened, and be wrong a moment later (protocol rule 24)."""

    async def story(task: Task, proxy: Proxy) -> None:
        slowly = "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        run(task.url, f"{slowly} PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$")
        run(
            task.url,
            "CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        import psycopg  # noqa: PLC0415

        with psycopg.connect(task.url, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(7)")
            attempt = asyncio.create_task(task.attempt(_losing(proxy, "forwarded")))
            # the one that commits waits for us, and the one that asks what became of it waits for that one
            await asyncio.to_thread(until_waiting, task.url, 2)
            assert not attempt.done()
        await attempt
        assert await task.stands() == AFTER

    _through_proxy(postgres_server, story)
