"""Coroutine functions: in batches, out of the engine's way, and given up if need be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from itinerary.executors.coroutines import BlockedLoop, CoroutineExecutor
from itinerary.executors.registry import Registry
from itinerary.model.attempts import Ended, Failed, Stopped, Succeeded
from tests.contracts.executors.stage import PATIENCE, Stage, until
from tests.contracts.executors.tasks import ring

LEAKED: ContextVar[str] = ContextVar("LEAKED", default="nothing")


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def elapsed(self) -> int:
        return self.time


class Gate:
    """Blocks the thread of whoever passes until it is opened; says that somebody is there."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    async def block(self, ctx: Any) -> None:
        ring(ctx)
        self._opened.wait(PATIENCE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


async def leaks() -> str:
    before = LEAKED.get()
    LEAKED.set("a secret of the task before")
    return before


async def thread_name() -> str:
    return threading.current_thread().name


async def in_order(ctx: Any) -> str:
    await asyncio.sleep(0)
    return str(ctx.task)


async def gives_up() -> None:
    raise asyncio.CancelledError


async def noop() -> None: ...


def staged(tmp_path: Path, executor: CoroutineExecutor) -> Stage:
    return Stage(executor, tmp_path)


def registry(*functions: Any) -> tuple[Registry, list[dict[str, str]]]:
    made = Registry()
    return made, [{"python": made.register(function, f"jobs:f{n}")} for n, function in enumerate(functions)]


@pytest.mark.spec("X4", "a blocked loop")
def test_a_blocked_loop_is_noticed_and_named(tmp_path: Path, gate: Gate) -> None:
    async def story() -> None:
        known, (block,) = registry(gate.block)
        clock = HandClock()
        executor = CoroutineExecutor(known, clock=clock)
        async with staged(tmp_path, executor) as stage:
            assert executor.blocked_for() == BlockedLoop(0, None)
            key = stage.begin(block, job="etl", task="extract", attempt=2)
            await stage.rung()
            assert executor.blocked_for() == BlockedLoop(0, None), "it has only been asked"
            clock.time += 3_000_000
            assert executor.blocked_for() == BlockedLoop(3_000_000, "etl/extract, attempt 2")
            clock.time += 1_000_000
            assert executor.blocked_for().blocked_for == 4_000_000
            gate.open()
            await stage.outcome(key)
            assert executor.blocked_for() == BlockedLoop(0, None)

    asyncio.run(story())


@pytest.mark.spec("X4", "a blocked loop")
def test_a_loop_that_answers_is_not_blocked_however_late_it_is_asked(tmp_path: Path) -> None:
    async def story() -> None:
        hold = threading.Event()

        async def wait() -> None:
            await until(hold.is_set)

        known, (waiting,) = registry(wait)
        clock = HandClock()
        executor = CoroutineExecutor(known, clock=clock)
        async with staged(tmp_path, executor) as stage:
            key = stage.begin(waiting)
            assert executor.blocked_for() == BlockedLoop(0, None)
            await until(lambda: executor._asked_at is None)
            clock.time += 3_600_000_000
            assert executor.blocked_for() == BlockedLoop(0, None)
            hold.set()
            await stage.outcome(key)

    asyncio.run(story())


@pytest.mark.spec("X4", "given up")
def test_a_task_that_blocks_its_loop_is_given_up_at_once_and_what_ended_before_it_is_reported(
    tmp_path: Path, gate: Gate
) -> None:
    async def story() -> None:
        known, (quick, block) = registry(noop, gate.block)
        executor = CoroutineExecutor(known)
        async with staged(tmp_path, executor) as stage:
            done, stuck = stage.begin_all([stage.assignment(quick), stage.assignment(block)])
            await stage.rung()
            stage.executor.stop([stuck])
            stage.executor.kill([stuck])
            assert {report.key for report in stage.reports if isinstance(report, Ended)} == {done, stuck}
            assert await stage.outcomes([done, stuck]) == [Succeeded(), Stopped(abandoned=True)]
            assert executor.given_up == 1
            with capture_logs() as logs:
                gate.open()
                await until(lambda: not executor.given_up)
                await stage.outcome(stage.begin(quick))
            assert [line["event"] for line in logs] == ["attempt.ended_after_it_was_given_up"]

    asyncio.run(story())


def test_a_loop_that_stays_blocked_is_left_behind_when_the_executor_is_closed(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("itinerary.executors.coroutines._CLOSING_TIMEOUT", 0.05)

    async def story() -> None:
        known, (block,) = registry(gate.block)
        with capture_logs() as logs:
            async with staged(tmp_path, CoroutineExecutor(known)) as stage:
                key = stage.begin(block, job="etl", task="extract")
                await stage.rung()
                await stage.executor.close()
                assert await stage.outcome(key) == Stopped(abandoned=True)
        assert [(line["event"], line["busy_with"]) for line in logs if "busy_with" in line] == [
            ("worker_loop.left_behind", "etl/extract, attempt 1")
        ]

    asyncio.run(story())


@pytest.mark.spec("P4", "batches")
def test_what_begins_together_is_reported_together(tmp_path: Path) -> None:
    async def story() -> None:
        known, (quick,) = registry(noop)
        async with staged(tmp_path, CoroutineExecutor(known)) as stage:
            await stage.outcomes(stage.begin_all([stage.assignment(quick) for _ in range(900)]))
            assert stage.batches == [900]
            await stage.outcomes(stage.begin_all([stage.assignment(quick) for _ in range(2_500)]))
            assert stage.batches == [900, 1_000, 1_000, 500]

    asyncio.run(story())


def test_contexts_do_not_leak_from_the_engine_or_from_task_to_task(tmp_path: Path) -> None:
    async def story() -> None:
        LEAKED.set("a secret of the engine")
        known, (leak,) = registry(leaks)
        async with staged(tmp_path, CoroutineExecutor(known)) as stage:
            for _ in range(2):
                assert await stage.outcome(stage.begin(leak)) == Succeeded('"nothing"')

    asyncio.run(story())


@pytest.mark.parametrize("where", ["own", "given"])
def test_tasks_run_in_another_thread_than_the_engine(tmp_path: Path, where: str) -> None:
    async def story() -> None:
        known, (name,) = registry(thread_name)
        program = asyncio.new_event_loop()
        thread = threading.Thread(target=program.run_forever, name="the program")
        thread.start()
        try:
            executor = CoroutineExecutor(known, loop=program if where == "given" else None)
            async with staged(tmp_path, executor) as stage:
                outcome = await stage.outcome(stage.begin(name))
            assert outcome == Succeeded('"the program"' if where == "given" else '"itinerary-coroutines"')
        finally:
            program.call_soon_threadsafe(program.stop)
            await asyncio.to_thread(thread.join)
            program.close()

    asyncio.run(story())


def test_on_the_engines_loop_nothing_is_left_to_chance(tmp_path: Path) -> None:
    async def story() -> list[str]:
        known, (ordered,) = registry(in_order)
        executor = CoroutineExecutor(known, loop=asyncio.get_running_loop())
        before = threading.active_count()
        async with staged(tmp_path, executor) as stage:
            keys = stage.begin_all([stage.assignment(ordered, task=f"t{number}") for number in range(50)])
            await stage.outcomes(keys)
            assert threading.active_count() == before
            assert stage.threads == {threading.current_thread().name}
            assert stage.ended() == keys
            return [report.outcome.result for report in stage.reports]  # type: ignore[union-attr, misc]  # all ended well

    (tmp_path / "first").mkdir()
    assert asyncio.run(story()) == [f'"t{number}"' for number in range(50)]


def test_a_task_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    async def story() -> None:
        known, (cancels,) = registry(gives_up)
        async with staged(tmp_path, CoroutineExecutor(known)) as stage:
            outcome = await stage.outcome(stage.begin(cancels))
        assert isinstance(outcome, Failed)
        assert outcome.names[0] == "asyncio.exceptions.CancelledError"

    asyncio.run(story())


def test_a_plain_function_would_block_the_loop_and_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        known, (plain,) = registry(lambda: None)
        async with staged(tmp_path, CoroutineExecutor(known)) as stage:
            outcome = await stage.outcome(stage.begin(plain))
        assert isinstance(outcome, Failed)
        assert "is a plain function" in outcome.error

    asyncio.run(story())


def test_a_program_that_closed_its_loop_fails_what_comes_after(tmp_path: Path) -> None:
    async def story() -> None:
        known, (quick,) = registry(noop)
        program = asyncio.new_event_loop()
        program.close()
        async with staged(tmp_path, CoroutineExecutor(known, loop=program)) as stage:
            outcome = await stage.outcome(stage.begin(quick))
        assert isinstance(outcome, Failed)
        assert "Event loop is closed" in outcome.error

    asyncio.run(story())
