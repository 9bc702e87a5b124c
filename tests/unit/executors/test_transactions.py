"""A task's own transaction stays on the engine's loop, wherever the task runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from itinerary.errors import TransactionError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.threads import ThreadExecutor
from itinerary.model.attempts import AttemptKey, Failed, Stopped, Succeeded
from itinerary.ports import Executor
from tests.contracts.executors.stage import Stage, until
from tests.contracts.executors.tasks import ring

pytestmark = pytest.mark.spec("D6", "executors")


class Paper:
    """A store's transactions, as a list: what is on it was committed. It knows which thread it belongs to."""

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.undone: list[str] = []
        self.refuses_commits = False
        self._thread = threading.get_ident()

    @asynccontextmanager
    async def transaction(self, key: AttemptKey, timeout: float) -> AsyncIterator[Sheet]:  # noqa: ASYNC109 - the factory's
        self.check()
        sheet = Sheet(self)
        try:
            yield sheet
        except BaseException:
            self.undone += sheet.lines
            raise
        self.check()
        if self.refuses_commits:
            raise TransactionError("no longer this node's")
        self.committed += sheet.lines

    def check(self) -> None:
        assert threading.get_ident() == self._thread, "it was used outside the engine's loop"


class Sheet:
    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self.lines: list[str] = []

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        self._paper.check()
        await asyncio.sleep(0)
        if "nonsense" in statement:
            raise LookupError(statement)
        self.lines.append(statement)
        return len(parameters)

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._paper.check()
        return [(statement, *parameters)]


# -- tasks -------------------------------------------------------------------------------------------------------------


async def writes(ctx: Any) -> list[Any]:
    async with ctx.transaction(timeout=3) as tx:
        return [await tx.execute("insert", [1, 2]), await tx.fetch("select", ["x"])]


async def fails(ctx: Any) -> None:
    async with ctx.transaction() as tx:
        await tx.execute("insert")
        raise KeyError("after all")


async def stumbles(ctx: Any) -> str:
    async with ctx.transaction() as tx:
        try:
            await tx.execute("nonsense")
        except LookupError:
            await tx.execute("insert")
    return "went on"


async def waits(ctx: Any) -> None:
    async with ctx.transaction() as tx:
        await tx.execute("insert")
        ring(ctx)
        await asyncio.get_running_loop().create_future()


async def too_late(ctx: Any) -> None:
    async with ctx.transaction() as tx:
        pass
    await tx.execute("insert")


async def blocking(ctx: Any) -> None:
    with ctx.transaction():
        pass


async def ignores(ctx: Any) -> None:
    async with ctx.transaction() as tx:
        await tx.execute("insert")
        ring(ctx)
        while not ctx._flags.is_given_up:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue


def plain_writes(ctx: Any) -> list[Any]:
    with ctx.transaction(timeout=3) as tx:
        return [tx.execute("insert", [1, 2]), tx.fetch("select", ["x"])]


def plain_fails(ctx: Any) -> None:
    with ctx.transaction() as tx:
        tx.execute("insert")
        raise KeyError("after all")


def plain_ignores(ctx: Any) -> None:
    with ctx.transaction() as tx:
        tx.execute("insert")
        ring(ctx)
        while not ctx._flags.is_given_up:
            threading.Event().wait(0.001)


class Scene:
    """A stage whose tasks have transactions on a paper."""

    def __init__(self, where: str, tmp_path: Path) -> None:
        self.paper = Paper()
        self.registry = Registry([__name__])
        self.prefix = "plain_" if where == "thread" else ""
        self.stage = Stage(self._executor(where), tmp_path)

    def _executor(self, where: str) -> Executor:
        if where == "thread":
            return ThreadExecutor(self.registry, transaction=self.paper.transaction)
        loop = asyncio.get_running_loop() if where == "same loop" else None
        return CoroutineExecutor(self.registry, loop=loop, transaction=self.paper.transaction)

    def begin(self, what: str) -> AttemptKey:
        return self.stage.begin({"python": f"{__name__}:{self.prefix}{what}"})


anywhere = pytest.mark.parametrize("where", ["same loop", "another loop", "thread"])
coroutines = pytest.mark.parametrize("where", ["same loop", "another loop"])


@anywhere
def test_statements_reach_the_store_and_commit_with_the_body(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            assert await stage.outcome(scene.begin("writes")) == Succeeded('[2,[["select","x"]]]')
        assert scene.paper.committed == ["insert"]

    asyncio.run(story())


@anywhere
def test_a_body_that_raises_leaves_nothing(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            outcome = await stage.outcome(scene.begin("fails"))
        assert isinstance(outcome, Failed)
        assert outcome.names[0] == "KeyError"
        assert (scene.paper.committed, scene.paper.undone) == ([], ["insert"])

    asyncio.run(story())


@anywhere
def test_a_commit_that_is_refused_fails_the_task(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        scene.paper.refuses_commits = True
        async with scene.stage as stage:
            outcome = await stage.outcome(scene.begin("writes"))
        assert isinstance(outcome, Failed)
        assert outcome.names[0] == "itinerary.errors.TransactionError"
        assert outcome.error.endswith("no longer this node's")

    asyncio.run(story())


@anywhere
@pytest.mark.spec("X4", "given up")
def test_what_was_given_up_cannot_commit(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            key = scene.begin("ignores")
            await stage.rung()
            stage.executor.kill([key])
            assert await stage.outcome(key) == Stopped(abandoned=True)
            await until(lambda: scene.paper.undone)
        assert (scene.paper.committed, scene.paper.undone) == ([], ["insert"])

    asyncio.run(story())


@coroutines
def test_a_task_that_is_cancelled_leaves_nothing(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            key = scene.begin("waits")
            await stage.rung()
            stage.executor.stop([key])
            assert await stage.outcome(key) == Stopped()
        assert (scene.paper.committed, scene.paper.undone) == ([], ["insert"])

    asyncio.run(story())


@coroutines
def test_a_statement_that_fails_is_raised_where_it_was_made(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            assert await stage.outcome(scene.begin("stumbles")) == Succeeded('"went on"')
        assert scene.paper.committed == ["insert"]

    asyncio.run(story())


def test_a_statement_after_the_end_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene("another loop", tmp_path)
        async with scene.stage as stage:
            outcome = await stage.outcome(scene.begin("too_late"))
        assert isinstance(outcome, Failed)
        assert "this transaction is over" in outcome.error

    asyncio.run(story())


@coroutines
def test_a_coroutine_is_told_to_write_async_with(where: str, tmp_path: Path) -> None:
    async def story() -> None:
        scene = Scene(where, tmp_path)
        async with scene.stage as stage:
            outcome = await stage.outcome(scene.begin("blocking"))
        assert isinstance(outcome, Failed)
        assert "opens its transaction with async with" in outcome.error

    asyncio.run(story())
