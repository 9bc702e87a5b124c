"""A test node: a real node on a clock that the test moves; what it keeps, and what it leaves (U11)."""

from __future__ import annotations

import asyncio
import threading

import pytest
import structlog

from itinerary import ExecutionContext, Itinerary, every
from itinerary.errors import ClockError, NodeError
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")


def test_what_tasks_and_node_log_is_kept(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def talking(ctx: ExecutionContext) -> None:
        ctx.log.info("building", rows=3)

    @app.job(every("1h"))
    def plain(ctx: ExecutionContext) -> None:
        ctx.log.warning("odd")

    before = list(structlog.get_config()["processors"])
    run = start_node(app)
    structlog.get_logger().info("not of a task")
    run.advance(hours=1)
    (fields,) = run.logged("building")
    assert (fields["rows"], fields["job"], fields["attempt"]) == (3, "talking", 1)
    assert len(run.logged("odd")) == len(run.logged("node.started")) == 1
    assert not run.logged("not of a task")
    run.close()
    assert structlog.get_config()["processors"] == before


def test_two_apps_have_clocks_of_their_own(start_node: Begin) -> None:
    one, two = Itinerary(), Itinerary()
    for app in (one, two):

        @app.job(every("1h"), name="hourly")
        async def hourly(ctx: ExecutionContext) -> None:
            ctx.log.info("here")

    first, second = start_node(one), start_node(two, start="2030-01-01")
    first.advance(hours=2)
    second.advance(hours=1)
    assert (len(first.history("hourly")), len(second.history("hourly"))) == (2, 1)
    assert (len(first.logged("here")), len(second.logged("here"))) == (2, 1)


def test_an_app_that_runs_a_node_has_no_test_node_meanwhile(app: Itinerary, start_node: Begin) -> None:
    run = start_node(app)
    with pytest.raises(NodeError, match="runs a node already"):
        start_node(app)
    run.close()
    start_node(app).advance(hours=1)


def test_nothing_is_left_of_a_test_node(app: Itinerary, start_node: Begin) -> None:
    threads = set(threading.enumerate())
    ends = []

    @app.job(every("1h"))
    async def long() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ends.append("clean-up")

    @app.job(every("1h"))
    async def in_a_transaction(ctx: ExecutionContext) -> None:
        async with ctx.transaction():
            await asyncio.sleep(10)

    run = start_node(app)
    run.advance(hours=1)
    run.spawn(asyncio.sleep(60))
    run.close()
    run.close()
    assert ends == ["clean-up"]
    assert not app.is_running
    assert set(threading.enumerate()) == threads
    with pytest.raises(ClockError, match="this test node is closed"):
        run.advance(hours=1)
    assert run.history("long").statuses == ["running"]
    assert "long" in run.describe()


def test_a_job_that_there_is_not_comes_with_the_nearest(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def nightly_report() -> None: ...

    run = start_node(app)
    with pytest.raises(ClockError, match="no job 'nightly_reports' in this app; did you mean 'nightly_report'"):
        run.history("nightly_reports")
    with pytest.raises(ClockError, match="there are nightly_report"):
        run.trigger("x")


def test_a_task_cannot_move_the_clock(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    def meddling() -> None:
        run.advance(hours=1)

    run = start_node(app)
    run.advance(hours=1)
    assert "ClockError: the clock is moved by the test" in run.history("meddling").errors[0]


def test_it_works_inside_a_coroutine(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None:
        await asyncio.sleep(60)

    async def story() -> None:
        run = start_node(app)
        run.advance(hours=1, minutes=2)
        await app["hourly"].pause()
        run.advance(hours=1)
        assert run.history("hourly").statuses == ["completed", "skipped"]
        run.close()

    asyncio.run(story())


def test_the_same_test_comes_out_the_same(start_node: Begin) -> None:
    def story() -> list[str]:
        app, order = Itinerary(), list[str]()

        def plain(ctx: ExecutionContext) -> None:
            order.append(ctx.job)

        async def coroutine(ctx: ExecutionContext) -> None:
            order.append(ctx.job)

        for number in range(10):
            app.job(every("1h"), name=f"plain {number}")(plain)
            app.job(every("1h"), name=f"coroutine {number}")(coroutine)
        start_node(app).advance(hours=3)
        return order

    first = story()
    assert len(first) == 60
    assert first == story()
