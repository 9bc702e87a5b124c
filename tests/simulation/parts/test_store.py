"""A store over a bad network: slow, refused, lost after the commit, late, repeated; and callers that are gone."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from itinerary.errors import StoreError, StoreFull, StoreUnavailable
from itinerary.model.queries import NodesQuery
from itinerary.model.rows import EntryKind, NodeNumber
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.stores.tables import NODES
from tests.simulation.parts.scene import Fixed, Scene, played
from tests.simulation.world.call_faults import CallFate, CallLane, Fortune

pytestmark = pytest.mark.spec("U6", "simulation")


def joined(scene: Scene) -> list[str]:
    return [row.incarnation for row in scene.backend.rows(NODES).values()]


def test_a_call_takes_its_time_there_and_back() -> None:
    async def story(scene: Scene) -> None:
        call = scene.begin(lambda: scene.store.join("a/1", "a", "{}"))
        await asyncio.sleep(2.5)
        assert joined(scene) == []
        await asyncio.sleep(1.0)
        assert joined(scene) == ["a/1"]
        assert await call == 1
        assert scene.loop.time() == 5.0

    played(story, Fixed(CallFate(Fortune.FINE, 3.0, 2.0)))


def test_a_refused_call_never_arrives() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(StoreUnavailable, match="ask again"):
            await scene.store.join("a/1", "a", "{}")
        await asyncio.sleep(1_000)
        assert joined(scene) == []

    played(story, Fixed(CallFate(Fortune.REFUSED, 1.0, 1.0)))


def test_an_answer_is_lost_after_the_commit_and_asking_again_is_answered_as_the_first_time() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(StoreUnavailable):
            await scene.store.join("a/1", "a", "{}")
        assert joined(scene) == ["a/1"]
        assert await scene.store.join("a/1", "a", "{}") == 1

    played(story, Fixed(CallFate(Fortune.LOST, 1.0, 1.0)))


def test_a_late_call_arrives_after_its_caller_was_told_that_it_failed() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(StoreUnavailable):
            await scene.store.join("a/1", "a", "{}")
        assert (scene.loop.time(), joined(scene)) == (2.0, [])
        await asyncio.sleep(10)
        assert joined(scene) == ["a/1"]

    played(story, Fixed(CallFate(Fortune.LATE, 7.0, 2.0)))


@pytest.mark.parametrize(("arrives_after", "is_made"), [(inf, False), (1.0, True), (90.0, True)])
def test_an_unanswered_call_fails_at_its_deadline_and_may_be_made_at_once_or_after_it_or_never(
    arrives_after: float, is_made: bool
) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(StoreUnavailable):
            await scene.store.join("a/1", "a", "{}")
        assert scene.loop.time() == 30.0
        assert joined(scene) == (["a/1"] if arrives_after < 30.0 else [])
        await asyncio.sleep(1_000)
        assert joined(scene) == (["a/1"] if is_made else [])
        assert scene.network.happened == {"unanswered": 1} | ({"arrived after all": 1} if arrives_after == 90.0 else {})

    played(story, Fixed(CallFate(Fortune.UNANSWERED, arrives_after, 30.0)))


def test_while_one_connection_hangs_the_others_answer() -> None:
    async def story(scene: Scene) -> None:
        node = await scene.store.join("a/1", "a", "{}")
        scene.network.stuck[scene.process] = CallLane.HEARTBEATS
        hangs = scene.begin(lambda: scene.store.beat(node))
        assert len(await scene.store.read(NodesQuery())) == 1
        assert scene.loop.time() < 1.0
        with pytest.raises(StoreUnavailable):
            await hangs
        assert scene.loop.time() >= scene.network.fates.weather.deadline
        del scene.network.stuck[scene.process]
        await scene.store.beat(node)

    played(story, Fixed())


def test_a_full_disk_refuses_writes_and_answers_reads() -> None:
    async def story(scene: Scene) -> None:
        scene.network.is_full = True
        with pytest.raises(StoreFull):
            await scene.store.join("a/1", "a", "{}")
        assert list(await scene.store.read(NodesQuery())) == []
        scene.network.is_full = False
        await scene.store.join("a/1", "a", "{}")

    played(story, Fixed())


def test_repeated_work_is_run_twice_and_answered_once() -> None:
    async def story(scene: Scene) -> None:
        ran = []
        await scene.store._engine.write(lambda tx: ran.append(tx.now()))
        assert len(ran) == 2

    played(story, Fixed(CallFate(Fortune.REPEATED, 0.001, 0.001)))


def test_what_cannot_be_done_is_answered_and_not_a_failure_of_the_network() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(StoreError, match="has not joined") as raised:
            await scene.store.beat(NodeNumber(99))
        assert not isinstance(raised.value, StoreUnavailable)

    played(story)


def test_in_an_outage_nothing_arrives_from_anybody() -> None:
    async def story(scene: Scene) -> None:
        scene.network.is_down = True
        with pytest.raises(StoreUnavailable):
            await scene.store.join("a/1", "a", "{}")
        scene.network.is_down = False
        assert await scene.store.join("a/1", "a", "{}") == 1

    played(story)


def test_who_is_cut_off_is_alone_with_that() -> None:
    async def story(scene: Scene) -> None:
        scene.network.cut_off[scene.process] = None
        with pytest.raises(StoreUnavailable):
            await scene.store.join("a/1", "a", "{}")
        other = Scene(scene.loop)
        assert await other.store.join("b/1", "b", "{}") == 1

    played(story)


def test_a_call_is_committed_while_its_process_is_frozen_and_the_answer_waits() -> None:
    async def story(scene: Scene) -> None:
        call = scene.begin(lambda: scene.store.join("a/1", "a", "{}"))
        await asyncio.sleep(0.5)
        scene.loop.freeze(scene.process)
        await asyncio.sleep(10)
        assert joined(scene) == ["a/1"]
        assert isinstance(call, asyncio.Task)
        assert not call.done()
        scene.loop.thaw(scene.process)
        assert await call == 1

    played(story, Fixed(CallFate(Fortune.FINE, 1.0, 1.0)))


@pytest.mark.parametrize("commits", [True, False])
def test_what_was_under_way_when_its_process_crashed_is_committed_or_not(commits: bool) -> None:
    async def story(scene: Scene) -> None:
        scene.begin(lambda: scene.store.join("a/1", "a", "{}"))
        await asyncio.sleep(0.5)
        scene.loop.crash(scene.process)
        await asyncio.sleep(10)
        assert joined(scene) == (["a/1"] if commits else [])

    played(story, Fixed(CallFate(Fortune.FINE, 1.0, 1.0), commits_after_crash=commits))


def test_an_ambush_strikes_while_the_next_call_is_under_way() -> None:
    async def story(scene: Scene) -> None:
        struck: list[float] = []
        scene.network.ambushes[scene.process] = lambda: struck.append(scene.loop.time())
        await asyncio.sleep(10)
        assert struck == []
        await scene.store.join("a/1", "a", "{}")
        await scene.store.join("a/1", "a", "{}")
        (at,) = struck
        assert 10 <= at <= 14

    played(story, Fixed(CallFate(Fortune.FINE, 2.0, 2.0)))


def test_who_watches_is_woken_by_a_commit_and_by_nothing_else() -> None:
    async def story(scene: Scene) -> None:
        heard: list[tuple[float, frozenset[str]]] = []

        async def watch() -> None:
            async for topics in scene.store.watch():
                heard.append((scene.loop.time(), topics))  # noqa: PERF401 - it never ends

        scene.begin(watch)
        await asyncio.sleep(3_600)
        entry = TimelineEntryRequest(
            job="backup", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body="{}"
        )
        await scene.store.amend([entry])
        await scene.store.read(NodesQuery())
        await asyncio.sleep(3_600)
        ((at, topics),) = heard
        assert topics == {"timeline"}
        assert 3_600 < at < 3_601

    played(story)


def test_the_one_who_watches_commits_sees_what_each_row_was() -> None:
    async def story(scene: Scene) -> None:
        seen: list[list[tuple[object, object]]] = []

        class Eye:
            def see(self, commit: object) -> None:
                seen.append(commit.changed(NODES))  # type: ignore[attr-defined]  # it is a Commit

            def handle(self, at: int, request: object, answer: object) -> None:
                raise AssertionError("nobody has said what is asked for")

        node = await scene.store.join("a/1", "a", "{}")
        scene.backend.witness = Eye()
        await scene.store.beat(node)
        await scene.store.read(NodesQuery())
        ((change,),) = seen
        assert [None if row is None else row.counter for row in change] == [0, 1]  # type: ignore[attr-defined]  # rows

    played(story)
