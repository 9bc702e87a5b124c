"""Stop asks, kill ends or gives up, close does both: whatever the task does about it, there is one report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from itinerary.model.attempts import AttemptKey, Failed, Stopped, Succeeded
from tests.contracts.executors.benches import Bench, benches, told
from tests.contracts.executors.stage import Stage

pytestmark = [pytest.mark.spec("X10", "contract"), pytest.mark.spec("X4", "cancellation")]


async def running(bench: Bench, stage: Stage, what: str) -> AttemptKey:
    """A task that has begun."""
    key = stage.begin(bench.run(what, stage))
    await stage.rung()
    return key


@benches()
@told
async def test_a_task_that_obeys_is_stopped(bench: Bench, stage: Stage) -> None:
    key = await running(bench, stage, "obey")
    stage.executor.stop([key])
    assert await stage.outcome(key) == Stopped()


@benches()
@told
async def test_asking_twice_is_asking_once(bench: Bench, stage: Stage) -> None:
    key = await running(bench, stage, "obey")
    stage.executor.stop([key, key])
    stage.executor.stop([key])
    assert await stage.outcome(key) == Stopped()
    stage.executor.stop([key])
    stage.executor.kill([key])


@benches()
@told
async def test_a_task_that_is_stopped_before_it_began_never_runs(bench: Bench, stage: Stage) -> None:
    key = stage.begin(bench.run("obey", stage))
    stage.executor.stop([key])
    outcome = await stage.outcome(key)
    assert isinstance(outcome, Stopped)
    assert outcome.was_called or not stage.bell.rings()


MANY = 60


@benches()
@pytest.mark.spec("R9", "release")
@told
async def test_an_executor_says_truthfully_that_a_stopped_function_was_never_called(bench: Bench, stage: Stage) -> None:
    await ended_early(bench, stage, stage.executor.stop)


@benches()
@pytest.mark.spec("R9", "release")
@told
async def test_an_executor_says_truthfully_that_a_killed_function_was_never_called(bench: Bench, stage: Stage) -> None:
    await ended_early(bench, stage, stage.executor.kill)


async def ended_early(bench: Bench, stage: Stage, end: Callable[[Sequence[AttemptKey]], None]) -> None:
    """Begin many and end them at once: some have been called by then, and the executor knows which."""
    keys = stage.begin_all([stage.assignment(bench.run("obey", stage)) for _ in range(MANY)])
    end(keys)
    outcomes = await stage.outcomes(keys)
    assert all(isinstance(outcome, Stopped) for outcome in outcomes)
    called = sum(outcome.was_called for outcome in outcomes if isinstance(outcome, Stopped))
    assert stage.bell.rings() <= called, "some function was called, and nobody says so"
    if bench.queues_at_first:
        assert called == 0, "some function is said to have been called that was not"


@benches()
@pytest.mark.spec("R9", "release")
@told
async def test_an_executor_says_that_a_function_was_called(bench: Bench, stage: Stage) -> None:
    key = await running(bench, stage, "obey")
    stage.executor.stop([key])
    outcome = await stage.outcome(key)
    assert isinstance(outcome, Stopped)
    assert outcome.was_called


@benches()
@told
async def test_a_task_that_ignores_everything_is_killed_or_given_up(bench: Bench, stage: Stage) -> None:
    key = await running(bench, stage, "ignore")
    stage.executor.stop([key])
    stage.executor.kill([key])
    assert await stage.outcome(key) == Stopped(abandoned=not bench.is_forceful)


@benches()
@told
async def test_a_task_may_be_killed_without_being_asked(bench: Bench, stage: Stage) -> None:
    key = await running(bench, stage, "obey")
    stage.executor.kill([key])
    stage.executor.kill([key])
    assert await stage.outcome(key) == Stopped(abandoned=not bench.is_forceful)


@benches()
@told
async def test_a_task_that_is_killed_before_it_began_is_over(bench: Bench, stage: Stage) -> None:
    key = stage.begin(bench.run("obey", stage))
    stage.executor.kill([key])
    assert isinstance(await stage.outcome(key), Stopped)


@benches()
@told
async def test_others_run_while_one_ignores_everything(bench: Bench, stage: Stage) -> None:
    stuck = await running(bench, stage, "ignore")
    stage.executor.stop([stuck])
    assert isinstance(await stage.outcome(stage.begin(bench.run("nothing", stage))), Succeeded)
    stage.executor.kill([stuck])
    await stage.outcome(stuck)
    assert isinstance(await stage.outcome(stage.begin(bench.run("nothing", stage))), Succeeded)


@benches()
@told
async def test_stopping_what_nobody_knows_changes_nothing(bench: Bench, stage: Stage) -> None:
    done = stage.begin(bench.run("nothing", stage))
    await stage.outcome(done)
    unknown = AttemptKey(done.ref, 7, 7)
    stage.executor.stop([done, unknown])
    stage.executor.kill([done, unknown])
    assert isinstance(await stage.outcome(stage.begin(bench.run("nothing", stage))), Succeeded)


@benches()
@told
async def test_closing_reports_what_is_in_flight_and_refuses_what_comes_after(bench: Bench, stage: Stage) -> None:
    keys = [await running(bench, stage, what) for what in ("obey", "ignore")]
    await stage.executor.close()
    assert set(stage.ended()) == set(keys)
    for outcome in await stage.outcomes(keys):
        assert isinstance(outcome, Stopped), outcome
    await stage.executor.close()
    refused = await stage.outcome(stage.begin(bench.run("nothing", stage)))
    assert isinstance(refused, Failed), refused
    assert "closed" in refused.error


@benches()
@told
async def test_a_stop_that_meets_the_end_leaves_one_report(bench: Bench, stage: Stage) -> None:
    """At any moment of the task's short life; the stage counts."""
    for turns in range(20):
        key = stage.begin(bench.run("nothing", stage))
        for _ in range(turns):
            await asyncio.sleep(0)
        stage.executor.stop([key])
        stage.executor.kill([key])
        await stage.outcome(key)
