"""Requirements: what is looked at here, what is passed on, and one end for each whatever happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from itinerary.core.timeline.timeline import Timeline
from itinerary.executors.http import HttpExecutor
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped, Succeeded
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap
from itinerary.model.queries import EntriesQuery, JobsQuery, StoreStatusQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest, OwnerWrite, Started, StartRequest, Step, Written
from itinerary.ports import Executor, Store
from itinerary.runtime.condition_executor import ConditionExecutor
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.stores.urls import open_store
from tests.contracts.executors.stage import PATIENCE, facts
from tests.unit.runtime.test_orchestrators import Puppet
from tests.unit.runtime.world import EPOCH, World, here, played

YES, NO = Succeeded("true"), Succeeded("false")
KEY = AttemptKey(Ref(1), -2, 1)
MINUTE = 60 * SECOND


class Scene:
    """Requirements, around an executor that does nothing by itself."""

    def __init__(self, store: Store, timeline: Timeline | None = None, inner: Executor | None = None) -> None:
        self.puppet = Puppet()
        self.reports: list[Report] = []
        self._came = asyncio.Event()
        self.requirements = ConditionExecutor(
            self.puppet if inner is None else inner,
            store,
            lambda: Timeline() if timeline is None else timeline,
            lambda: NodeNumber(1),
            here,
        )

    async def open(self) -> Scene:
        await self.requirements.open(self._reported)
        return self

    def _reported(self, reports: Sequence[Report]) -> None:
        self.reports += reports
        self._came.set()

    def assignment(self, run: Mapping[str, Any], instant: int = EPOCH, key: AttemptKey = KEY) -> Assignment:
        return Assignment(key, "auto", run, facts(key=Key(instant, JobNumber(9), Kind.SCHEDULED)))

    async def outcome(self, requirement: Mapping[str, Any], instant: int = EPOCH) -> Outcome:
        """What comes of one, from beginning to end."""
        self._came.clear()
        self.requirements.begin([self.assignment({"requirement": requirement}, instant)])
        async with asyncio.timeout(PATIENCE):
            await self._came.wait()
        report = self.reports[-1]
        assert isinstance(report, Ended)
        assert report.key == KEY
        return report.outcome


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("O3", "a file")
def test_a_file_is_there_or_not(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        scene = await Scene(world.store).open()
        wanted = tmp_path / "ready"
        assert await scene.outcome({"file": str(wanted)}) == NO
        wanted.touch()
        assert await scene.outcome({"file": str(wanted)}) == YES

    played(story)


@pytest.mark.spec("O3", "what cannot be found out")
@pytest.mark.parametrize("requirement", [{"moon": "full"}, {"job": "no such job"}])
def test_what_cannot_be_found_out_is_a_failure_that_says_why(requirement: dict[str, str]) -> None:
    async def story(world: World) -> None:
        outcome = await (await Scene(world.store).open()).outcome(requirement)
        assert isinstance(outcome, Failed)
        assert next(iter(requirement.values())) in outcome.error

    played(story)


# -- other jobs ------------------------------------------------------------------------------------------------------


class Other:
    """Another job, and how its occurrences went."""

    def __init__(self, world: World, number: JobNumber, node: NodeNumber, timeline: Timeline) -> None:
        self.world, self.number, self.node, self.timeline = world, number, node, timeline

    async def went(
        self,
        instant: int,
        state: OccurrenceState,
        window: Window | None = None,
        kind: Kind = Kind.SCHEDULED,
        request: str = "",
    ) -> None:
        """One occurrence has ended so."""
        await asyncio.sleep(1.0)  # on a clock that does not take any time: each ends later than the one before
        key = Key(instant, self.number, kind, request)
        claimed = await self.world.store.claim(self.node, None, [ClaimRequest(key, 1, EPOCH, window=window)])
        assert isinstance(claimed, list)
        (one,) = claimed
        revision = (await self.world.store.read(StoreStatusQuery())).revision
        start = StartRequest(one.ref, one.fence, 0, "{}", MINUTE, Overlap.ALLOW)
        (started,) = await self.world.store.start(self.node, revision, [start], 0)
        assert isinstance(started, Started)
        change = OwnerWrite(one.ref, started.fence, started.sequence + 1, (Step(state),))
        (written,) = await self.world.store.write(self.node, [change])
        assert isinstance(written, Written)


async def other_job(world: World, schedule: Any = None) -> Other:
    number = await world.register("import", world.task(), schedule=every("5m") if schedule is None else schedule)
    node = await world.store.join("me", "me", "{}")
    timeline = Timeline.of(await world.store.read(EntriesQuery(0)), await world.store.read(JobsQuery()))
    return Other(world, number, node, timeline)


@pytest.mark.spec("O3", "another job")
def test_another_job_must_have_completed_at_its_last_instant_up_to_this_one() -> None:
    async def story(world: World) -> None:
        other = await other_job(world)
        scene = await Scene(world.store, other.timeline).open()
        wanted = {"job": "import"}
        assert await scene.outcome(wanted, EPOCH + 6 * MINUTE) == NO, "nothing is known of it"
        await other.went(EPOCH, OccurrenceState.COMPLETED)
        assert await scene.outcome(wanted, EPOCH + 4 * MINUTE) == YES
        assert await scene.outcome(wanted, EPOCH + 5 * MINUTE) == NO, "its instant at five minutes is this one's too"
        await other.went(EPOCH + 5 * MINUTE, OccurrenceState.COMPLETED)
        assert await scene.outcome(wanted, EPOCH + 5 * MINUTE) == YES
        assert await scene.outcome(wanted, EPOCH + 9 * MINUTE) == YES
        await other.went(EPOCH + 10 * MINUTE, OccurrenceState.FAILED)
        assert await scene.outcome(wanted, EPOCH + 11 * MINUTE) == hopeless(EPOCH + 10 * MINUTE, "failed")

    played(story)


def hopeless(instant: int, status: str) -> Outcome:
    run = f"import:{instant // SECOND}"
    return Succeeded(f'{{"why":"{run} is {status}, and is not waited for; replay {run}, and then this one"}}')


@pytest.mark.spec("O3", "the newest outcome counts")
def test_of_several_runs_for_one_instant_the_newest_outcome_counts_whatever_its_kind() -> None:
    async def story(world: World) -> None:
        other = await other_job(world)
        scene = await Scene(world.store, other.timeline).open()
        wanted, asks_at = {"job": "import"}, EPOCH + 6 * MINUTE
        await other.went(EPOCH + 5 * MINUTE, OccurrenceState.FAILED)
        assert await scene.outcome(wanted, asks_at) == hopeless(EPOCH + 5 * MINUTE, "failed")
        replay = Key(EPOCH + 5 * MINUTE, other.number, Kind.REPLAY, "original/1")
        claimed = await world.store.claim(None, None, [ClaimRequest(replay, 1, EPOCH)])
        assert isinstance(claimed, list)
        assert await scene.outcome(wanted, asks_at) == NO, "a replay has not ended: that one is waited for"
        await other.went(EPOCH + 5 * MINUTE, OccurrenceState.COMPLETED, kind=Kind.BACKFILL)
        assert await scene.outcome(wanted, asks_at) == YES
        await other.went(EPOCH + 5 * MINUTE, OccurrenceState.COMPLETED, kind=Kind.TRIGGER, request="now")
        await other.went(EPOCH + 5 * MINUTE, OccurrenceState.CANCELLED, kind=Kind.REPLAY, request="original/2")
        assert await scene.outcome(wanted, asks_at) == NO, "the newest outcome is cancelled, and a replay is waited for"

    played(story)


@pytest.mark.spec("O3", "the newest outcome counts")
def test_a_backfill_of_another_job_counts_for_instants_before_that_job_was_registered() -> None:
    async def story(world: World) -> None:
        other = await other_job(world)
        scene = await Scene(world.store, other.timeline).open()
        past = EPOCH - 60 * 24 * 60 * MINUTE
        assert await scene.outcome({"job": "import"}, past + MINUTE) == NO
        await other.went(past, OccurrenceState.COMPLETED, kind=Kind.BACKFILL)
        assert await scene.outcome({"job": "import"}, past + MINUTE) == YES

    played(story)


@pytest.mark.spec("O3", "a window")
def test_a_compressed_run_of_another_job_answers_for_all_instants_in_its_window() -> None:
    async def story(world: World) -> None:
        other = await other_job(world)
        scene = await Scene(world.store, other.timeline).open()
        window = Window(EPOCH, EPOCH + 20 * MINUTE + SECOND, 5)
        await other.went(EPOCH + 20 * MINUTE, OccurrenceState.COMPLETED, window)
        assert await scene.outcome({"job": "import"}, EPOCH + 11 * MINUTE) == YES
        assert await scene.outcome({"job": "import"}, EPOCH + 26 * MINUTE) == NO
        later = Window(EPOCH + 30 * MINUTE, EPOCH + 40 * MINUTE + SECOND, 3)
        await other.went(EPOCH + 40 * MINUTE, OccurrenceState.COMPLETED, later)
        assert await scene.outcome({"job": "import"}, EPOCH + 26 * MINUTE) == NO, "one that begins later does not"

    played(story)


@pytest.mark.spec("O3", "a window")
def test_a_window_that_failed_answers_for_nothing() -> None:
    async def story(world: World) -> None:
        other = await other_job(world)
        scene = await Scene(world.store, other.timeline).open()
        window = Window(EPOCH, EPOCH + 20 * MINUTE + SECOND, 5)
        await other.went(EPOCH + 20 * MINUTE, OccurrenceState.FAILED, window)
        assert await scene.outcome({"job": "import"}, EPOCH + 11 * MINUTE) == hopeless(EPOCH + 20 * MINUTE, "failed")

    played(story)


@pytest.mark.spec("O3", "another job")
def test_a_job_that_was_not_due_yet_has_not_completed() -> None:
    async def story(world: World) -> None:
        other = await other_job(world, every("1h"))
        scene = await Scene(world.store, other.timeline).open()
        assert await scene.outcome({"job": "import"}, EPOCH - 30 * MINUTE) == NO

    played(story)


@pytest.mark.spec("O3", "another job")
def test_the_last_instant_is_found_though_it_was_weeks_ago() -> None:
    async def story(world: World) -> None:
        other = await other_job(world, every("400h"))
        day, late = 24 * 60 * MINUTE, EPOCH + 35 * 24 * 60 * MINUTE
        due = other.timeline.expected(EPOCH, late, [other.number]).instants
        scene = await Scene(world.store, other.timeline).open()
        world.store_ahead = 40 * day
        await other.went(int(due[-1]), OccurrenceState.COMPLETED)
        assert await scene.outcome({"job": "import"}, late) == YES

    played(story)


# -- SQL -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("O3", "a query")
@pytest.mark.parametrize(
    ("statement", "outcome"),
    [
        ("select 1", YES),
        ("select 0", NO),
        ("select null", NO),
        ("select 1 where 1 = 2", NO),
        ("select count(*) > 0 from orders", YES),
        ("select 'something', 0", YES),
    ],
)
def test_the_first_value_of_the_first_row_decides(statement: str, outcome: Outcome, tmp_path: Path) -> None:
    async def story() -> None:
        store = open_store(f"sqlite:///{tmp_path}/store.db")
        await store.open()
        try:
            await asyncio.to_thread(_orders, tmp_path / "store.db")
            assert await (await Scene(store).open()).outcome({"sql": statement}) == outcome
        finally:
            await store.close()

    asyncio.run(story())


def _orders(path: Path) -> None:
    import sqlite3  # noqa: PLC0415 - somebody else's table in the same file

    with sqlite3.connect(path) as connection:
        connection.execute("create table orders (id integer)")
        connection.execute("insert into orders values (1)")
    connection.close()


@pytest.mark.spec("O3", "what cannot be found out")
def test_a_statement_that_is_wrong_or_a_store_that_takes_none_is_a_failure(tmp_path: Path) -> None:
    async def story() -> None:
        store = open_store(f"sqlite:///{tmp_path}/store.db")
        await store.open()
        try:
            outcome = await (await Scene(store).open()).outcome({"sql": "select * from nothing_like_it"})
            assert isinstance(outcome, Failed)
            assert "nothing_like_it" in outcome.error
        finally:
            await store.close()

    asyncio.run(story())

    async def in_memory(world: World) -> None:
        outcome = await (await Scene(world.store).open()).outcome({"sql": "select 1"})
        assert isinstance(outcome, Failed)
        assert "has no transactions for tasks" in outcome.error

    played(in_memory)


# -- HTTP ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("O3", "an HTTP answer")
def test_an_http_answer_decides_by_its_status_and_no_answer_is_a_no() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=int(request.path.strip("/")))

    async def story(store: Store) -> None:
        scene = await Scene(store, inner=HttpExecutor(allowed_hosts=["127.0.0.1"])).open()
        server = web.Server(answer)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        try:
            assert await scene.outcome({"http": f"http://127.0.0.1:{port}/200"}) == YES
            assert await scene.outcome({"http": f"http://127.0.0.1:{port}/204"}) == YES
            assert await scene.outcome({"http": f"http://127.0.0.1:{port}/404"}) == NO
            assert await scene.outcome({"http": f"http://127.0.0.1:{port}/302"}) == NO
        finally:
            listener.close()
            await server.shutdown(1.0)
        assert await scene.outcome({"http": f"http://127.0.0.1:{port}/200"}) == NO, "nobody is there any more"
        await scene.requirements.close()

    _on_a_real_loop(story)


@pytest.mark.spec("O3", "what cannot be found out")
@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "no address", "ftp://example.org/"])
def test_an_address_that_may_not_be_called_or_is_none_is_a_failure(address: str) -> None:
    async def story(store: Store) -> None:
        scene = await Scene(store, inner=HttpExecutor()).open()
        outcome = await scene.outcome({"http": address})
        assert isinstance(outcome, Failed)
        await scene.requirements.close()

    _on_a_real_loop(story)


def _on_a_real_loop(story: Callable[[Store], Any]) -> None:
    async def told() -> None:
        store = open_store("memory:")
        await store.open()
        await story(store)
        await store.close()

    asyncio.run(told())


# -- one end for each ------------------------------------------------------------------------------------------------


def test_everything_else_is_passed_on_as_it_is() -> None:
    async def story(world: World) -> None:
        scene = await Scene(world.store).open()
        task = scene.assignment({"python": "etl:load"}, key=AttemptKey(Ref(2), 0, 1))
        check = scene.assignment({"requirement": {"file": "/"}})
        scene.requirements.begin([task, check])
        assert scene.puppet.told == [("begin", [task.key])]
        scene.puppet.report([Ended(task.key, Failed("no"))])
        await asyncio.sleep(0.1)
        assert sorted(scene.reports, key=lambda one: one.key) == [Ended(KEY, YES), Ended(task.key, Failed("no"))]
        scene.requirements.stop([task.key])
        scene.requirements.kill([task.key])
        assert scene.puppet.told[1:] == [("stop", [task.key]), ("kill", [task.key])]
        await scene.requirements.close()
        assert scene.puppet.is_closed

    played(story)


@pytest.mark.spec("O5", "a requirement")
@pytest.mark.parametrize("when", ["before it has begun", "in the middle"])
@pytest.mark.parametrize("how", ["stop", "kill", "close"])
def test_one_that_is_ended_is_reported_once_whenever_that_happens(how: str, when: str) -> None:
    async def story(world: World) -> None:
        world.engine.takes = 10.0
        scene = await Scene(world.store).open()
        scene.requirements.begin([scene.assignment({"requirement": {"job": "import"}})])
        if when == "in the middle":
            await asyncio.sleep(1.0)
        if how == "close":
            await scene.requirements.close()
            assert len(scene.reports) == 1, "and not some time after it was closed"
        else:
            getattr(scene.requirements, how)([KEY])
            getattr(scene.requirements, how)([KEY])
        await asyncio.sleep(60.0)
        assert scene.reports == [Ended(KEY, Stopped())]

    for seed in range(4):
        played(story, seed=seed)


def test_a_hundred_at_once_have_a_hundred_ends() -> None:
    async def story(world: World) -> None:
        scene = await Scene(world.store).open()
        keys = [AttemptKey(Ref(ref), -2, 1) for ref in range(100)]
        scene.requirements.begin([scene.assignment({"requirement": {"file": "/"}}, key=key) for key in keys])
        await asyncio.sleep(0.1)
        assert Counter(report.key for report in scene.reports) == Counter(keys)

    played(story)
