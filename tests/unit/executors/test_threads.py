"""Plain functions in threads: a limit, a line, and threads that are stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from itinerary.errors import ConfigError
from itinerary.executors.registry import Registry
from itinerary.executors.threads import ThreadExecutor
from itinerary.model.attempts import Failed, Stopped, Succeeded
from tests.contracts.executors.stage import PATIENCE, Stage, until
from tests.contracts.executors.tasks import ring

LEAKED: ContextVar[str] = ContextVar("LEAKED", default="nothing")


class Gate:
    """Holds threads until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.passed: list[str] = []

    def hold(self, ctx: Any) -> None:
        ring(ctx)
        self.opened.wait(PATIENCE)
        self.passed.append(ctx.task)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def leaks() -> str:
    before = LEAKED.get()
    LEAKED.set("a secret of the task before")
    return before


def thread_name() -> str:
    return f"{threading.current_thread().name} {threading.get_ident()}"


def noop() -> None: ...


def registry(*functions: Any) -> tuple[Registry, list[dict[str, str]]]:
    made = Registry()
    return made, [{"python": made.register(function, f"jobs:f{n}")} for n, function in enumerate(functions)]


@pytest.mark.spec("X4", "given up")
def test_threads_that_are_stuck_take_no_room_from_others(tmp_path: Path, gate: Gate) -> None:
    async def story() -> None:
        known, (hold, quick) = registry(gate.hold, noop)
        executor = ThreadExecutor(known, threads_max=2)
        async with Stage(executor, tmp_path) as stage:
            stuck = [stage.begin(hold) for _ in range(2)]
            await stage.rung(2)
            waiting = stage.begin(quick)
            stage.executor.kill(stuck)
            assert await stage.outcomes(stuck) == [Stopped(abandoned=True)] * 2
            assert isinstance(await stage.outcome(waiting), Succeeded)
            assert executor.given_up == 2
            with capture_logs() as logs:
                gate.opened.set()
                await until(lambda: not executor.given_up)
            assert [line["event"] for line in logs] == ["attempt.ended_after_it_was_given_up"] * 2

    asyncio.run(story())


def test_beyond_the_limit_tasks_wait_in_line_and_keep_their_order(tmp_path: Path, gate: Gate) -> None:
    async def story() -> None:
        known, (hold,) = registry(gate.hold)
        async with Stage(ThreadExecutor(known, threads_max=1), tmp_path) as stage:
            keys = [stage.begin(hold, task=name) for name in "abcd"]
            await stage.rung()
            assert stage.reports == []
            stage.executor.stop([keys[1]])
            stage.executor.kill([keys[2]])
            assert await stage.outcomes(keys[1:3]) == [Stopped(was_called=False)] * 2, "they never had a thread"
            gate.opened.set()
            await stage.outcomes(keys)
        assert gate.passed == ["a", "d"]

    asyncio.run(story())


@pytest.mark.spec("X4", "given up")
def test_too_many_stuck_threads_stop_new_work_with_the_reason(tmp_path: Path, gate: Gate) -> None:
    async def story() -> None:
        known, (hold, quick) = registry(gate.hold, noop)
        async with Stage(ThreadExecutor(known, given_up_max=1), tmp_path) as stage:
            key = stage.begin(hold)
            await stage.rung()
            stage.executor.kill([key])
            outcome = await stage.outcome(stage.begin(quick))
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("1 threads of this node are stuck in tasks that were given up")
        assert "restart the node" in outcome.error

    asyncio.run(story())


def test_idle_threads_are_used_again_and_end_with_the_executor(tmp_path: Path) -> None:
    async def story() -> None:
        known, (name,) = registry(thread_name)
        executor, seen = ThreadExecutor(known), set()
        async with Stage(executor, tmp_path) as stage:
            for _ in range(5):
                seen.add(await stage.outcome(stage.begin(name)))
                await until(lambda: executor._idle)  # it tells its outcome, and is idle a moment later
        assert len(seen) == 1

    asyncio.run(story())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("itinerary-t")]


def test_contexts_do_not_leak_from_task_to_task(tmp_path: Path) -> None:
    async def story() -> None:
        known, (leak,) = registry(leaks)
        async with Stage(ThreadExecutor(known, threads_max=1), tmp_path) as stage:
            for _ in range(3):
                assert await stage.outcome(stage.begin(leak)) == Succeeded('"nothing"')

    asyncio.run(story())


def test_a_coroutine_function_is_refused(tmp_path: Path) -> None:
    async def work() -> None: ...

    async def story() -> None:
        known, (coroutine,) = registry(work)
        async with Stage(ThreadExecutor(known), tmp_path) as stage:
            outcome = await stage.outcome(stage.begin(coroutine))
        assert isinstance(outcome, Failed)
        assert "which a thread cannot await; say async" in outcome.error

    asyncio.run(story())


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="threads_max: 0 is too few"):
        ThreadExecutor(Registry(), threads_max=0)
