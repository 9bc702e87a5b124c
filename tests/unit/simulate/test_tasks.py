"""Simulated tasks: they take time, fail, hang and are deaf, and write down themselves what they did."""

from __future__ import annotations

import asyncio

import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.work import Assignment, AttemptKey, Ended, Facts, Failed, Report, Stopped, Succeeded
from itinerary.simulate.processes import in_process
from itinerary.simulate.runs import Ending, RunLog
from itinerary.simulate.tasks import Behaviour, SimulatedExecutor, result_of
from tests.unit.simulate.scene import EPOCH, Scene, played

KEY = AttemptKey(Ref(7), 0, 1)


class Stage:
    """An executor, what it reported, and what its tasks wrote."""

    def __init__(self, scene: Scene, behaviour: Behaviour) -> None:
        self.scene, self._behaviour = scene, behaviour
        self.log = RunLog()
        self.reports: list[tuple[float, Report]] = []
        self.executor = SimulatedExecutor(scene.process, self, self.log, scene.clock, scene.history)

    def behaviour(self, assignment: Assignment) -> Behaviour:
        return self._behaviour

    async def begin(self) -> None:
        await self.executor.open(lambda reports: self.reports.extend((self.scene.loop.time(), one) for one in reports))
        with in_process(self.scene.process):
            facts = Facts(
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
    assert run.ending is (Ending.FAILED if fails else Ending.SUCCEEDED)


def test_one_that_listens_ends_when_it_is_asked_once() -> None:
    stage = staged(Behaviour(takes=90, ends_after=2), (10, "stop"), (1, "stop"))
    assert told(stage) == [(12, Stopped())]
    assert stage.log.runs[0].ending is Ending.STOPPED


def test_one_that_hangs_and_is_deaf_is_given_up_and_goes_on() -> None:
    stage = staged(Behaviour(takes=90, hangs=True, is_deaf=True), (10, "stop"), (10, "kill"), (1, "kill"))
    assert told(stage) == [(20, Stopped(abandoned=True))]
    (run,) = stage.log.runs
    assert (run.given_up_at, run.ending) == (EPOCH + 20_000_000, None)


def test_one_that_was_given_up_ends_later_and_nobody_is_told_twice() -> None:
    stage = staged(Behaviour(takes=90, is_deaf=True), (10, "stop"), (10, "kill"))
    assert told(stage) == [(20, Stopped(abandoned=True))]
    assert stage.log.runs[0].ending is Ending.SUCCEEDED


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
    assert (run.ended_at, run.ending) == (EPOCH + 10_000_000, Ending.DIED)
