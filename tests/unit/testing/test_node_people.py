"""People and outages in a test node: pauses, triggers, nodes that go and come (U11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from itinerary import ExecutionContext, Itinerary, every, once
from itinerary.errors import ClockError, NotFoundError
from itinerary.model import Kind
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")


# -- people ------------------------------------------------------------------------------------------------------------


def test_a_pause_skips_and_a_trigger_runs(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = start_node(app)
    run.pause("hourly", reason="migration")
    run.advance(hours=2, minutes=30)
    run.resume("hourly")
    run.skip("hourly", run.upcoming("hourly", count=1)[0].at, reason="holiday")
    run.advance(hours=2)
    assert run.history("hourly").statuses == ["skipped", "skipped", "skipped", "completed"]
    triggered = run.trigger("hourly", reason="by hand")
    assert triggered.key.request == "trigger 1"
    assert [str(one.report.kind) for one in run.history("hourly")[-1:]] == ["trigger"]
    assert run.wait(triggered).outcome == "completed"
    assert run.call(run.node.wait(run.call(run.node.replay(triggered)))).outcome == "completed"


def test_handles_of_the_app_work_too(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None:
        await asyncio.sleep(600)

    run = start_node(app)
    app.blocking(app["hourly"].pause(until=datetime(2026, 1, 1, 2, 30, tzinfo=UTC)))
    assert app["hourly"].is_paused
    run.advance(hours=3)
    assert run.history("hourly").statuses == ["skipped", "skipped", "running"]
    running = run.trigger("hourly", overlap="allow")
    assert run.cancel(running, reason="enough")
    assert run.wait(running).outcome == "cancelled"


@pytest.mark.spec("S5", "finished")
@pytest.mark.spec("S11", "is_active")
def test_a_job_with_one_instant_is_neither_active_nor_enabled_after_it(app: Itinerary, start_node: Begin) -> None:
    @app.job(once("2026-01-01T12:00:00Z"))
    async def fireworks() -> None: ...

    run = start_node(app)
    handle = app["fireworks"]
    assert (handle.is_active, handle.is_enabled, handle.next_run()) == (
        True,
        True,
        datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    run.advance(hours=13)
    assert run.history("fireworks").statuses == ["completed"]
    assert (handle.is_active, handle.is_enabled, handle.next_run()) == (False, False, None)


@pytest.mark.spec("R4", "a run that was asked for waits for its turn")
@pytest.mark.spec("X6", "skip")
def test_a_run_that_was_asked_for_waits_for_its_turn_and_is_not_skipped(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"), overlap="skip")
    async def hourly() -> None:
        await asyncio.sleep(240)

    run = start_node(app)
    run.advance(hours=1, minutes=30)
    first = run.history("hourly")[0]
    run.advance(minutes=32)
    assert run.history("hourly").statuses == ["completed", "running"]
    replayed = run.call(run.node.replay(first.report.occurrence))
    triggered = run.trigger("hourly")
    unwanted = run.trigger("hourly", overlap="skip")
    assert run.wait(unwanted).outcome == "skipped"
    assert [run.wait(one).outcome for one in (replayed, triggered)] == ["completed", "completed"]
    started = [run.wait(one).started_at for one in (replayed, triggered)]
    assert [None if one is None else (one.hour, one.minute) for one in started] == [(2, 4), (2, 8)]


@pytest.mark.spec("O3", "the newest outcome counts")
@pytest.mark.spec("R4", "replay")
def test_a_replay_of_a_failed_upstream_repairs_its_downstream(app: Itinerary, start_node: Begin) -> None:
    is_broken = True

    @app.job(every("1h"))
    async def load() -> None:
        if is_broken:
            raise ValueError("the source is empty")

    @app.job(every("1h"))
    async def report() -> None: ...

    app["report"].requires(job="load", every="1m", deadline="50m")
    run = start_node(app)
    run.advance(hours=1, minutes=5)
    (failed,), (waited,) = run.history("load"), run.history("report")
    assert (failed.report.outcome, waited.report.outcome) == ("failed", "failed")
    assert waited.report.duration is not None
    assert waited.report.duration.total_seconds() <= 60, "a failed upstream is not waited for until the deadline"
    assert waited.report.reason == (
        "requires job load, which is not so: load:1767229200 is failed, and is not waited for;"
        " replay load:1767229200, and then this one"
    )
    is_broken = False
    assert run.wait(run.call(run.node.replay(failed.report.occurrence))).outcome == "completed"
    assert run.wait(run.call(run.node.replay(waited.report.occurrence))).outcome == "completed"


def test_a_loop_over_occurrences_runs_beside_the_test(app: Itinerary, start_node: Begin) -> None:
    ticks = app.job("ticks", every("1h"))
    seen: list[tuple[str, int]] = []

    async def follow() -> None:
        async for ctx in ticks:
            await asyncio.sleep(60)
            seen.append((ctx.job, ctx.scheduled_at.hour))

    run = start_node(app)
    run.spawn(follow())
    run.advance(hours=3, minutes=2)
    assert seen == [("ticks", 1), ("ticks", 2), ("ticks", 3)]


# -- nodes that go and come --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_missed_while_nobody_was_there_is_recovered(app: Itinerary, start_node: Begin, crash: bool) -> None:
    recovered = []

    @app.job(every("1h"))
    async def hourly(ctx: ExecutionContext) -> None:
        recovered.append(ctx.is_recovery)

    @app.job(every("1h"), recovery="execute_last")
    async def last() -> None: ...

    run = start_node(app)
    run.advance(hours=1)
    run.down(hours=3, minutes=10, crash=crash)
    run.advance(minutes=10)
    assert run.history("hourly").statuses == ["completed"] * 4
    assert recovered == [False, True, True, True]
    assert run.history("last").statuses == ["completed", "missed", "missed", "completed"]


def test_what_a_killed_node_ran_is_orphaned_and_its_code_goes_no_further(app: Itinerary, start_node: Begin) -> None:
    steps = []

    @app.job(every("1d"), task_timeout="20m")
    async def long() -> None:
        steps.append("begun")
        await asyncio.sleep(600)
        steps.append("ended")

    run = start_node(app)
    run.advance(days=1, minutes=5)
    run.crash()
    assert not run.is_running
    with pytest.raises(ClockError, match="no node runs now"):
        run.trigger("long")
    run.start()
    run.advance(minutes=30)
    assert run.history("long").statuses == ["orphaned"]
    assert steps == ["begun"]


def test_a_graceful_end_cancels_what_runs(app: Itinerary, start_node: Begin) -> None:
    ends = []

    @app.job(every("1d"))
    async def long() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    run = start_node(app)
    run.advance(days=1)
    run.shut_down()
    assert run.history("long").statuses == ["cancelled"]
    assert ends == ["cancelled"]


@pytest.mark.spec("R4", "run ids of replays")
def test_a_replay_has_a_run_id_of_its_own_and_each_of_them_is_found(app: Itinerary, start_node: Begin) -> None:
    @app.job(every("1h"))
    async def hourly() -> None: ...

    run = start_node(app)
    run.advance(hours=1, minutes=30)
    node = run.node
    original = "hourly:1767229200"
    first = run.call(node.replay(original))
    run.call(node.wait(first))
    second = run.call(node.replay(original))
    run.call(node.wait(second))
    of_a_replay = run.call(node.replay(first.run_id))
    run.call(node.wait(of_a_replay))
    assert [first.run_id, second.run_id] == [f"{original}.replay-1", f"{original}.replay-2"]
    assert of_a_replay.run_id == f"{original}.{str(first.id)[:8]}.replay-1"
    scheduled = run.call(node.wait(original))
    assert (scheduled.kind, scheduled.replay_of) == (Kind.SCHEDULED, None)
    for replay, parent in ((first, scheduled.occurrence), (second, scheduled.occurrence), (of_a_replay, first.id)):
        found = run.call(node.wait(replay.run_id))
        assert (found.occurrence, found.kind, found.replay_of) == (replay.id, Kind.REPLAY, parent)
    with pytest.raises(NotFoundError, match="job 'hourly' has no replay 'replay-7' at 1767229200"):
        run.call(node.wait(f"{original}.replay-7"))
