"""An app runs a node: embedded in a program, plain or with a loop, and until it is told to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from itinerary import ExecutionContext, Itinerary, ItineraryError, OccurrenceReport, cron, every
from itinerary.errors import ConfigError, NodeError
from itinerary.model import Occurrence, OccurrenceState, TaskState
from itinerary.model.queries import NodesQuery
from itinerary.stores import open_store
from tests.integration.api.conftest import PATIENCE, run

MakeApp = Callable[[], Itinerary]
NEVER = cron("0 0 29 2 *")
"""Due so rarely that only a trigger runs it."""


@pytest.mark.spec("U1", "embedded")
def test_a_program_embeds_a_node_in_three_lines(make_app: MakeApp) -> None:
    app = make_app()
    loops: list[asyncio.AbstractEventLoop] = []

    @app.job(NEVER)
    async def report(ctx: ExecutionContext) -> dict[str, object]:
        loops.append(asyncio.get_running_loop())
        return {"job": ctx.job, "node": ctx.node}

    async def program() -> None:
        async with app.running() as node:
            found = await node.wait(await app["report"].trigger())
            assert (found.outcome, found.job) == (OccurrenceState.COMPLETED, "report")
            assert [task.status for task in found.tasks] == [TaskState.SUCCESS]
        assert loops == [asyncio.get_running_loop()]

    run(program())
    assert not app.is_running
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("itinerary-engine")] == []


@pytest.mark.spec("U1", "sync")
def test_a_plain_program_runs_a_node_and_waits_for_what_it_asks(make_app: MakeApp) -> None:
    app = make_app()
    places: list[str] = []

    @app.job(NEVER)
    async def coroutine() -> None:
        places.append(threading.current_thread().name)

    @app.job(NEVER)
    def plain() -> None:
        places.append(threading.current_thread().name)

    with app.running() as node:
        for name in ("coroutine", "plain"):
            found = app.blocking(node.wait(app.blocking(app[name].trigger())))
            assert found.outcome is OccurrenceState.COMPLETED
    assert places == ["itinerary-coroutines", "itinerary-task"]
    with pytest.raises(NodeError, match="no node runs"):
        app.blocking(app["plain"].trigger())


@pytest.mark.spec("S5", "run")
def test_what_is_due_by_its_schedule_runs_by_itself(make_app: MakeApp) -> None:
    app = make_app()
    ran = threading.Event()

    @app.job(every("1s"))
    def tick(ctx: ExecutionContext) -> None:
        assert ctx.scheduled_at <= ctx.started_at
        ran.set()

    with app.running():
        assert ran.wait(PATIENCE)


@pytest.mark.spec("X7", "told")
def test_hooks_are_told_of_the_start_and_of_the_end(make_app: MakeApp) -> None:
    app = make_app()
    told: list[object] = []
    etl = app.job("etl", NEVER, failure="continue")

    @etl.task
    def extract() -> None:
        told.append("extract")

    @etl.task
    def fail() -> None:
        raise ValueError("no")

    @etl.on_start
    def greet(occurrence: Occurrence) -> None:
        told.append(occurrence)

    @etl.on_complete
    async def notify(report: OccurrenceReport) -> None:
        told.append(report)

    @etl.on_complete
    def stumble(report: OccurrenceReport) -> None:
        raise RuntimeError("changes no outcome")

    async def program() -> OccurrenceReport:
        async with app.running() as node:
            return await node.wait(await etl.trigger())

    found = run(program())
    occurrence, task, report = told
    assert isinstance(occurrence, Occurrence)
    assert isinstance(report, OccurrenceReport)
    assert task == "extract"
    assert found.outcome is report.outcome is OccurrenceState.COMPLETED_WITH_ERRORS
    assert occurrence.id == report.occurrence == found.occurrence
    assert [one.status for one in report.tasks] == [TaskState.SUCCESS, TaskState.FAILED]


@pytest.mark.spec("L11", "starting twice")
def test_an_app_runs_one_node_at_a_time_and_another_one_afterwards(make_app: MakeApp) -> None:
    app = make_app()

    @app.job(NEVER)
    def work() -> None: ...

    async def program() -> None:
        async with app.running():
            with pytest.raises(NodeError, match="runs a node already"):
                async with app.running():
                    pytest.fail("it must not start")
            with pytest.raises(NodeError, match="can declare jobs only when that has ended"):
                app.job("late", every("1h"))
        async with app.running() as node:
            assert (await node.wait(await app["work"].trigger())).outcome is OccurrenceState.COMPLETED

    run(program())


@pytest.mark.spec("L11", "a failing start")
def test_an_error_of_the_start_is_raised_where_the_block_begins(tmp_path: Path) -> None:
    app = Itinerary(store=f"sqlite:///{tmp_path}")  # a directory

    async def program() -> None:
        with pytest.raises(ItineraryError):
            async with app.running():
                pytest.fail("it must not start")
        assert not app.is_running

    run(program())
    with pytest.raises(ConfigError, match="unknown kind 'nowhere'"), Itinerary(store="nowhere:").running():
        pytest.fail("it must not start")


@pytest.mark.spec("R9", "leaving the block")
def test_leaving_the_block_cancels_what_runs_and_says_that_the_node_is_gone(make_app: MakeApp, store: str) -> None:
    app = make_app()
    begun, ended = threading.Event(), threading.Event()

    @app.job(NEVER)
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def program() -> None:
        async with app.running():
            run_ = await app["long"].trigger()
            await asyncio.to_thread(begun.wait, PATIENCE)
        assert ended.is_set()
        app_again = make_app()
        app_again.job(NEVER)(long)
        async with app_again.running() as node:
            found = await node.wait(run_)
            assert found.outcome is OccurrenceState.CANCELLED
            assert "shut down" in (found.reason or "")

    async def gone() -> None:
        async with open_store(store) as opened:
            assert all(node.left_at is not None for node in await opened.read(NodesQuery()))

    run(program())
    run(gone())


@pytest.mark.spec("R9", "at once")
def test_who_cancels_the_wait_for_a_graceful_end_ends_it_at_once(store: str) -> None:
    app = Itinerary(store=store, name="here", shutdown_grace_period="1h", kill_grace="1h")
    begun = threading.Event()
    given_up = threading.Event()

    @app.job(NEVER)
    def stubborn() -> None:
        begun.set()
        given_up.wait(PATIENCE)  # asked to end, it does not listen

    async def block() -> None:
        async with app.running():
            await app["stubborn"].trigger()
            await asyncio.to_thread(begun.wait, PATIENCE)
            leaving.set()

    async def program() -> None:
        task = asyncio.create_task(block())
        await leaving.wait()
        await asyncio.sleep(0)  # it is leaving now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not app.is_running

    leaving = asyncio.Event()
    run(program())
    given_up.set()


def test_a_call_that_would_block_a_loop_is_refused(make_app: MakeApp) -> None:
    app = make_app()
    app.job("work", NEVER).shell("true", ["true"])

    async def program() -> None:
        async with app.running():
            with pytest.raises(NodeError, match="await the call itself"):
                app.blocking(app["work"].is_running())
            with pytest.raises(NodeError, match="async with"), app.running():
                pytest.fail("it must not start")

    run(program())


@pytest.mark.spec("D9", "code that is gone")
def test_a_stored_job_whose_code_is_gone_is_left_alone_and_said_so(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_app()

    @first.job(every("1s"))
    def vanishing() -> None: ...

    with first.running():
        pass
    second = make_app()
    with second.running() as node:
        assert second["vanishing"].next_run() is not None
        assert second.blocking(node.active()) == []
    said = [message for message in caplog.messages if "vanishing" in message]
    assert any("is not registered" in message for message in said)
