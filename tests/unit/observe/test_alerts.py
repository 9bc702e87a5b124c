"""People are told of a failure, of a run that did not happen, and when it is over: once, whichever node sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from itinerary.config.configuration import read_configuration
from itinerary.model.events import NewEvent
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap, Recovery, RecoveryPolicy
from itinerary.observe.alerts import GIVE_UP_AFTER, Alerts
from itinerary.observe.incidents import ALERTS_STREAM
from itinerary.observe.webhooks import DeliveryFailed, Receiver, receiver_of
from itinerary.operations.doctor import Severity
from itinerary.operations.doctor.last_hour import alerts
from itinerary.operations.doctor.last_hour import undelivered as owed
from itinerary.read.snapshot import StoreSnapshot
from itinerary.runtime.node import Node
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played


class Receivers:
    """Who is told, and whether they listen."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.deaf: set[str] = set()
        self.tries = 0

    async def post(self, receiver: Receiver, alert: str, body: bytes, timestamp: int) -> None:
        self.tries += 1
        await asyncio.sleep(0.1)
        if receiver.name in self.deaf:
            raise DeliveryFailed(f"{receiver.name} answered 500")
        told = json.loads(body)
        assert told["alert"] == alert
        self.told.append((receiver.name, told))

    def kinds(self, receiver: str = "r", *, nodes: bool = False) -> list[str]:
        """What a receiver was told of jobs, or of nodes."""
        told = [one for name, one in self.told if name == receiver and one["job"].startswith("(node ") is nodes]
        return [f"{one['kind']} {one['job']}" for one in told]


class Fate:
    """A task that fails while it should."""

    def __init__(self) -> None:
        self.fails = True
        self.runs = 0

    async def work(self, _: object) -> None:
        self.runs += 1
        if self.fails:
            raise ValueError("no canary-4711 here")


class Scene:
    """A world whose nodes tell people."""

    def __init__(self, world: World, receivers: Receivers, names: tuple[str, ...] = ("r",)) -> None:
        self.world, self.receivers, self.names = world, receivers, names
        self.counts: dict[str, Alerts] = {}

    @asynccontextmanager
    async def running(self, name: str = "a", **settings: Any) -> AsyncIterator[Node]:
        heard: list[Any] = []
        handle: list[Callable[[Any], None]] = [heard.extend]

        def observe(news: Any) -> None:
            handle[0](news)

        node = self.world.node(name, observer=observe, **settings)
        async with self.world.running(node):
            assert node.number is not None
            alerts = self.counts[name] = Alerts(
                self.world.store,
                node.number,
                name,
                node.clock,
                timeline=lambda: node.builder.timeline,
                settings=node.settings,
                webhook=self.receivers,
                receivers=[Receiver(f"https://{one}.example", one) for one in self.names],
                hide=lambda text: text.replace("canary-4711", "…"),
                log=self.world.log,
            )
            handle[0] = alerts.handle
            alerts.handle(heard)
            task = asyncio.create_task(alerts.run())
            try:
                yield node
            finally:
                task.cancel()
                await asyncio.wait([task])
                await alerts.end()


def staged(story: Callable[[World, Scene, Receivers], Awaitable[None]], *names: str) -> None:
    async def whole(world: World) -> None:
        receivers = Receivers()
        await story(world, Scene(world, receivers, names or ("r",)), receivers)

    played(whole)


@pytest.mark.spec("U12", "a dead node")
def test_people_are_told_once_of_a_node_that_died_and_not_of_one_that_left() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        await world.register("etl", world.task())
        async with scene.running("b"):
            async with world.running(world.node("left")):
                await world.sleep_until(30)
            async with world.dying(world.node("killed")):
                await world.sleep_until(60)
            await world.sleep_until(400)
            assert receivers.kinds(nodes=True) == ["died (node killed)"]
        async with scene.running("c"):
            await world.sleep_until(600)
            assert receivers.kinds(nodes=True) == ["died (node killed)"]
        (told,) = [one for _, one in receivers.told if one["kind"] == "died"]
        assert told["why"].startswith("node killed died: it was last heard of at 2026-03-28T12:01:00Z, and did not say")

    staged(story)


@pytest.mark.spec("U12", "failure")
@pytest.mark.spec("U12", "recovery")
def test_of_a_job_that_fails_every_minute_people_are_told_once_and_once_when_it_is_over() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        fate = Fate()
        await world.register("etl", fate.work)
        async with scene.running():
            await world.sleep_until(200)
            assert receivers.kinds() == ["failed etl"]
            fate.fails = False
            await world.sleep_until(260)
            assert receivers.kinds() == ["failed etl", "recovered etl"]
            fate.fails = True
            await world.sleep_until(380)
            assert receivers.kinds() == ["failed etl", "recovered etl", "failed etl"]
        failed, recovered = (told for _, told in receivers.told[:2])
        assert failed["why"] == "task main failed: ValueError: no … here"
        assert failed["run"].startswith("etl:17746992")
        assert failed["outcome"] == "failed"
        assert recovered["incident"] == failed["alert"] == failed["incident"]
        assert set(failed) == {
            *("alert", "kind", "job", "run", "occurrence", "scheduled_at", "at", "outcome", "why", "node", "incident"),
            "output",
        }
        assert fate.runs >= 6

    staged(story)


@pytest.mark.spec("U12", "one alert across nodes")
def test_several_nodes_tell_people_once_and_the_next_goes_on_when_one_is_gone() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        fate = Fate()
        for number in range(6):
            await world.register(f"job_{number}", fate.work)
        async with scene.running("a"):
            async with scene.running("b"):
                await world.sleep_until(130)
            assert sorted(receivers.kinds()) == [f"failed job_{number}" for number in range(6)]
            fate.fails = False
            await world.sleep_until(320)
            assert sorted(receivers.kinds())[6:] == [f"recovered job_{number}" for number in range(6)]
        assert len(receivers.told) == 12

    staged(story)


@pytest.mark.spec("U12", "the run that did not happen")
def test_people_are_told_of_a_run_that_has_not_begun_within_its_grace_and_when_it_has() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        overrides = Overrides(overlap=Overlap.ALLOW)
        await world.register("quick", world.task(), schedule=every("1m"), overrides=overrides)
        await world.register("hog", world.task(100.0), schedule=every("1h"), overrides=Overrides(priority=9))
        async with scene.running(max_concurrent_jobs=1):
            await world.sleep_until(29)
            assert receivers.kinds() == []
            await world.sleep_until(45)
            (told,) = [told for _, told in receivers.told if told["job"] == "quick"]
            assert told["kind"] == "late"
            assert "has not begun" in told["why"]
            await world.sleep_until(130)
            assert receivers.kinds() == ["late quick", "recovered quick"]

    staged(story)


@pytest.mark.spec("U12", "a node that cannot keep up")
def test_people_are_told_once_that_a_node_is_behind_and_for_lack_of_what_and_when_it_is_over() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        await world.register("quick", world.task(), schedule=every("5s"))
        await world.register("hog", world.task(100.0), schedule=every("1h"), overrides=Overrides(priority=9))
        async with scene.running(max_concurrent_jobs=1):
            await world.sleep_until(29)
            assert receivers.kinds(nodes=True) == [], "not within the grace period"
            await world.sleep_until(95)
            (told,) = [told for _, told in receivers.told if told["job"] == "(node a)"]
            assert told["kind"] == "behind"
            assert "all of its slots are in use" in told["why"]
            assert told["scheduled_at"] == "2026-03-28T12:00:00Z", "since when"
            await world.sleep_until(150)
            assert receivers.kinds(nodes=True) == ["behind (node a)", "recovered (node a)"]

    staged(story)


@pytest.mark.spec("U12", "a node that cannot keep up")
def test_the_incident_of_a_node_that_died_behind_is_closed_by_the_next_one_of_its_name() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        await world.register("quick", world.task(), schedule=every("5s"))
        await world.register("hog", world.task(100.0), schedule=every("1h"), overrides=Overrides(priority=9))
        async with scene.running(max_concurrent_jobs=1):
            await world.sleep_until(60)
        assert receivers.kinds(nodes=True) == ["behind (node a)"]
        async with scene.running(max_concurrent_jobs=20):
            await world.sleep_until(100)
        assert receivers.kinds(nodes=True) == ["behind (node a)", "recovered (node a)"]

    staged(story)


@pytest.mark.spec("U12", "a set deadline")
def test_a_job_may_set_how_late_is_late_and_that_nobody_is_told_of_it() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        async def fails(_: object) -> None:
            raise ValueError("no")

        soon, later = Overrides(alert_after="5s"), Overrides(alert_after="10m")
        await world.register("strict", world.task(), schedule=every("1m"), overrides=soon)
        await world.register("patient", world.task(), schedule=every("1m"), overrides=later)
        await world.register("silent", fails, schedule=every("1m"), overrides=Overrides(alerts=False))
        await world.register("hog", world.task(75.0), schedule=every("1h"), overrides=Overrides(priority=9))
        async with scene.running(max_concurrent_jobs=1):
            await world.sleep_until(74)
            assert receivers.kinds() == ["late strict"]
            await world.sleep_until(130)
            assert receivers.kinds() == ["late strict", "recovered strict"]

    staged(story)


@pytest.mark.spec("U12", "the run that did not happen")
def test_what_was_missed_while_nothing_ran_is_told_once_for_each_job_when_a_node_is_back() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        missed = Overrides(recovery=RecoveryPolicy(Recovery.MARK_AS_MISSED))
        await world.register("dropped", world.task(), overrides=missed)
        await world.register("made_up", world.task())
        async with world.running(world.node("before")):
            await world.sleep_until(30)
        await world.sleep_until(645)
        async with scene.running():
            await world.sleep_until(647)
            assert sorted(receivers.kinds()) == ["late made_up", "missed dropped"], "what is made up for is only late"
            await world.sleep_until(710)
            assert sorted(receivers.kinds())[2:] == ["recovered dropped", "recovered made_up"]

    staged(story)


@pytest.mark.spec("U3", "doctor looks at the last hour")
def test_doctor_counts_alerts_that_no_receiver_has() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        url = "http://127.0.0.1:9/hook"  # loopback, which no setting allows: nothing is sent there
        name = receiver_of(url).name
        scene.names = (name,)
        receivers.deaf.add(name)
        await world.register("etl", Fate().work, schedule=every("1h"))
        configuration = read_configuration({"alert_urls": [url], "store": "memory:"}, {}, Path("/nonexistent"))
        async with scene.running():
            await world.sleep_until(30)
            ground = await StoreSnapshot.of(world.store)
            assert not [one for one in await owed(ground, configuration) if "not arrived" in one.words]
            await world.sleep_until(200)
            ground = await StoreSnapshot.of(world.store)
            (found,) = [one for one in await owed(ground, configuration) if "not arrived" in one.words]
            assert (found.level, found.words) == (
                Severity.WRONG,
                "1 alert (of etl) has not arrived, the oldest for 3m20s",
            )
            both = await alerts(ground, configuration)
            assert both[0] == found
            assert both[1].words.startswith("alerts do not reach receiver 1 of alert_urls: ")

    staged(story)


@pytest.mark.spec("U12", "retried")
def test_a_receiver_that_does_not_listen_is_asked_again_and_the_others_are_told_at_once() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        receivers.deaf.add("deaf")
        await world.register("etl", Fate().work, schedule=every("1h"))
        async with scene.running("first"):
            await world.sleep_until(100)
            assert receivers.kinds("good") == ["failed etl"]
            assert 6 <= receivers.tries - 1 <= 8, "after 1, 2, 4, 8, 16 and 32 seconds"
        receivers.deaf.clear()
        async with scene.running("second"):
            await world.sleep_until(170)
            assert receivers.kinds("deaf") == ["failed etl"]
        assert len(receivers.told) == 2, "nobody was told twice"
        said = world.log.said("alert.not_delivered")
        assert [line["again_in"] for line in said][:3] == [1, 2, 4]

    staged(story, "good", "deaf")


@pytest.mark.spec("U12", "retried")
def test_an_alert_is_given_up_after_a_day() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        receivers.deaf.add("r")
        await world.register("etl", Fate().work, schedule=every("1h"))
        async with scene.running():
            await world.sleep_until(20)
        world.store_ahead += GIVE_UP_AFTER + SECOND
        async with scene.running("later"):
            await world.sleep_until(60)
            assert world.log.said("alert.given_up")
            assert scene.counts["later"].counts["given_up"] >= 1

    staged(story)


@pytest.mark.spec("U12", "never in the way")
def test_a_store_that_is_away_holds_alerts_up_and_loses_none() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        await world.register("etl", Fate().work, schedule=every("1m"))
        async with scene.running():
            await world.sleep_until(59.9)
            await world.sleep_until(60.3)
            world.engine.is_down = True
            await world.sleep_until(75)
            assert world.log.said("alerts.held_up")
            world.engine.is_down = False
            await world.sleep_until(100)
            assert receivers.kinds()[:1] == ["failed etl"]

    staged(story)


def test_what_somebody_else_appends_to_the_log_is_passed_over_and_said() -> None:
    async def story(world: World, scene: Scene, receivers: Receivers) -> None:
        junk = [NewEvent(kind="TroubleSeen", record="etl", cause=f"{data}", data=data) for data in ("{}", "[", "null")]
        await world.store.append(ALERTS_STREAM, ALERTS_STREAM, junk)
        await world.register("etl", Fate().work, schedule=every("1h"))
        async with scene.running():
            await world.sleep_until(20)
            assert receivers.kinds() == ["failed etl"]
        assert world.log.said("alerts.unreadable")[0]["count"] == 3

    staged(story)
