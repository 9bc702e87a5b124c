"""Simulated tasks: they take time, fail, hang and are deaf, and write down themselves what they did."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.attempts import Assignment, AttemptInfo, AttemptKey, Ended, Failed, Report, Stopped, Succeeded
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.testing.processes import in_process
from tests.simulation.parts.scene import EPOCH, Scene, played
from tests.simulation.world.run_log import SimulatedEnd, SimulatedRunLog
from tests.simulation.world.tasks import Behaviour, SimulatedExecutor, result_of

KEY = AttemptKey(Ref(7), 0, 1)


class Stage:
    """An executor, what it reported, and what its tasks wrote."""

    def __init__(self, scene: Scene, behaviour: Behaviour) -> None:
        self.scene, self._behaviour = scene, behaviour
        self.log = SimulatedRunLog()
        self.reports: list[tuple[float, Report]] = []
        self.executor = SimulatedExecutor(scene.process, self, self.log, scene.clock, scene.history)

    def behaviour(self, assignment: Assignment) -> Behaviour:
        return self._behaviour

    async def begin(self) -> None:
        await self.executor.open(lambda reports: self.reports.extend((self.scene.loop.time(), one) for one in reports))
        with in_process(self.scene.process):
            facts = AttemptInfo(
                job="backup",
                version=1,
                task="main",
                node="a",
                key=Key(EPOCH, JobNumber(1), Kind.SCHEDULED),
                attempt=1,
                started_at=EPOCH,
            )
            self.executor.begin([Assignment(KEY, "auto", {}, facts)])


def staged(behaviour: Behaviour, *acts: tuple[float, str]) -> Stage:
    """Begin a task, do something to it at some moments, and wait an hour."""

    async def story(scene: Scene) -> Stage:
        stage = Stage(scene, behaviour)
        await stage.begin()
        for after, act in acts:
            await asyncio.sleep(after)
            if act in ("stop", "kill"):
                with in_process(scene.process):
                    getattr(stage.executor, act)([KEY])
            elif act == "close":
                await stage.executor.close()
            else:
                getattr(scene.loop, act)(scene.process)
        await asyncio.sleep(3_600)
        return stage

    return played(story)


def told(stage: Stage) -> list[tuple[float, object]]:
    assert all(isinstance(report, Ended) and report.key == KEY for _, report in stage.reports)
    return [(at, report.outcome) for at, report in stage.reports if isinstance(report, Ended)]


@pytest.mark.spec("U6", "simulation")
@pytest.mark.parametrize("fails", [False, True])
def test_a_task_takes_its_time_and_ends_as_it_was_to(fails: bool) -> None:
    stage = staged(Behaviour(takes=90, fails=fails))
    ((at, outcome),) = told(stage)
    assert at == 90
    assert isinstance(outcome, Failed) if fails else outcome == Succeeded(result_of(KEY))
    (run,) = stage.log.runs
    assert (run.began_at, run.ended_at) == (EPOCH, EPOCH + 90_000_000)
    assert run.ending is (SimulatedEnd.FAILED if fails else SimulatedEnd.SUCCEEDED)


def test_one_that_listens_ends_when_it_is_asked_once() -> None:
    stage = staged(Behaviour(takes=90, ends_after=2), (10, "stop"), (1, "stop"))
    assert told(stage) == [(12, Stopped())]
    assert stage.log.runs[0].ending is SimulatedEnd.STOPPED


def test_one_that_hangs_and_is_deaf_is_given_up_and_goes_on() -> None:
    stage = staged(Behaviour(takes=90, hangs=True, is_deaf=True), (10, "stop"), (10, "kill"), (1, "kill"))
    assert told(stage) == [(20, Stopped(abandoned=True))]
    (run,) = stage.log.runs
    assert (run.given_up_at, run.ending) == (EPOCH + 20_000_000, None)


def test_one_that_was_given_up_ends_later_and_nobody_is_told_twice() -> None:
    stage = staged(Behaviour(takes=90, is_deaf=True), (10, "stop"), (10, "kill"))
    assert told(stage) == [(20, Stopped(abandoned=True))]
    assert stage.log.runs[0].ending is SimulatedEnd.SUCCEEDED


def test_closing_ends_what_runs_by_force_and_reports_it() -> None:
    stage = staged(Behaviour(takes=90), (10, "close"), (1, "close"))
    assert told(stage) == [(10, Stopped(abandoned=True))]


def test_a_task_stands_still_with_its_process() -> None:
    stage = staged(Behaviour(takes=20), (10, "freeze"), (100, "thaw"))
    assert told(stage) == [(110, Succeeded(result_of(KEY)))]


def test_a_task_dies_with_its_process() -> None:
    stage = staged(Behaviour(takes=20), (10, "crash"))
    assert told(stage) == []
    (run,) = stage.log.runs
    assert (run.ended_at, run.ending) == (EPOCH + 10_000_000, SimulatedEnd.DIED)


@pytest.mark.spec("R9", "release")
def test_what_waits_in_the_queue_of_its_executor_begins_later() -> None:
    stage = staged(Behaviour(takes=20, called_after=5))
    assert told(stage) == [(25, Succeeded(result_of(KEY)))]
    assert stage.log.runs[0].began_at == EPOCH + 5_000_000


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("act", ["stop", "kill", "close"])
def test_what_is_ended_in_the_queue_was_never_called(act: str) -> None:
    stage = staged(Behaviour(takes=20, called_after=5), (2, act))
    assert told(stage) == [(2, Stopped(was_called=False))]
    assert stage.log.runs == []


def test_what_is_in_the_queue_when_its_process_crashes_is_never_called() -> None:
    stage = staged(Behaviour(takes=20, called_after=5), (2, "crash"))
    assert (told(stage), stage.log.runs) == ([], [])


def test_a_task_runs_on_while_the_loop_of_its_node_is_held_up_and_its_report_is_heard_when_that_is_over() -> None:
    async def story(scene: Scene) -> None:
        heard: list[float] = []

        async def wait() -> None:
            await asyncio.sleep(1.0)
            heard.append(scene.loop.time())

        stage = Stage(scene, Behaviour(takes=10.0))
        await stage.begin()
        waits = scene.begin(wait)
        await asyncio.sleep(0.5)
        scene.loop.hold_up(scene.process)
        await asyncio.sleep(59.5)
        assert [run.ending for run in stage.log.runs] == [SimulatedEnd.SUCCEEDED]
        assert stage.log.runs[0].ended_at == EPOCH + 10_000_000
        assert heard == []
        scene.loop.thaw(scene.process)
        await waits
        assert heard == [60.0]

    played(story)


def test_a_huge_result_holds_up_its_node() -> None:
    async def story(scene: Scene) -> None:
        held_up: list[tuple[float, float]] = []
        stage = Stage(scene, Behaviour(takes=10.0, holds_up_for=7.0))
        stage.executor._hold_up = lambda _, seconds: held_up.append((scene.loop.time(), seconds))
        await stage.begin()
        await asyncio.sleep(60.0)
        assert held_up == [(10.0, 7.0)]

    played(story)
