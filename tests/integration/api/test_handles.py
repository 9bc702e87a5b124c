"""Handles: pause, resume, stop, start, skip, trigger; and what they answer (S11, S12)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from itinerary import ExecutionContext, Itinerary, LoopLeft, cron, every, once
from itinerary.errors import ConfigError, NodeError
from itinerary.model import Kind, OccurrenceState, TaskState
from itinerary.model.queries import EntriesQuery
from itinerary.model.rows import EntryKind
from itinerary.stores import open_store
from tests.hours import HOURLY
from tests.integration.api.conftest import PATIENCE, run

MakeApp = Callable[[], Itinerary]
NEVER = cron("0 0 29 2 *")


def app_with_hourly(make_app: MakeApp) -> Itinerary:
    app = make_app()

    @app.job(HOURLY)
    def hourly() -> None: ...

    return app


@pytest.mark.spec("S11", "pause and resume")
@pytest.mark.spec("S12", "who, when and why")
def test_a_pause_and_its_reason_survive_a_restart(make_app: MakeApp, store: str) -> None:
    async def first() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            handle = app["hourly"]
            assert (handle.is_paused, handle.is_enabled, handle.is_active) == (False, True, True)
            following = handle.next_run()
            await handle.pause(reason="migration")
            await handle.pause(reason="again, which has no effect")
            assert (handle.is_paused, handle.is_enabled, handle.next_run()) == (True, False, following)

    async def second() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            assert app["hourly"].is_paused
            await app["hourly"].resume()
            assert app["hourly"].is_enabled

    async def kept() -> None:
        async with open_store(store) as opened:
            entries = await opened.read(EntriesQuery(0))
        kinds = [entry.kind for entry in entries]
        assert kinds == [EntryKind.VERSION, EntryKind.PAUSE, EntryKind.PAUSE, EntryKind.RESUME]
        assert entries[1].reason == "migration"
        assert all(entry.entered_by and entry.entered_at for entry in entries)

    run(first())
    run(second())
    run(kept())


@pytest.mark.spec("S11", "stop and start")
def test_a_stopped_job_has_no_next_run_until_it_is_started(make_app: MakeApp) -> None:
    async def program() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            handle = app["hourly"]
            await handle.stop(reason="not needed")
            assert (handle.is_stopped, handle.is_enabled, handle.next_run()) == (True, False, None)
            now = datetime.now(UTC)
            assert handle.occurrences_between(now, now + timedelta(days=1)) == []
        async with app.running():
            assert handle.is_stopped
            await handle.start()
            assert handle.is_enabled
            assert handle.next_run() is not None

    run(program())


@pytest.mark.spec("S11", "next_run and occurrences_between")
@pytest.mark.spec("S12", "skip one named occurrence")
def test_one_named_instant_is_skipped_and_the_others_stay(make_app: MakeApp) -> None:
    async def program() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            handle = app["hourly"]
            following = handle.next_run()
            assert following is not None
            end = following + timedelta(hours=3)
            assert handle.occurrences_between(following, end) == [following + timedelta(hours=n) for n in range(3)]
            await handle.skip(following, reason="holiday")
            assert handle.next_run() == following + timedelta(hours=1)
            assert handle.occurrences_between(following, end) == [following + timedelta(hours=n) for n in (1, 2)]
            with pytest.raises(ConfigError, match="has no occurrence at"):
                await handle.skip(following + timedelta(minutes=1))
            with pytest.raises(ConfigError, match="is past"):
                await handle.skip(following - timedelta(hours=2))

    run(program())


@pytest.mark.spec("S12", "pause until an instant")
def test_a_pause_may_have_an_end(make_app: MakeApp) -> None:
    async def program() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            handle = app["hourly"]
            following = handle.next_run()
            assert following is not None
            await handle.pause(until=following + timedelta(minutes=30))
            assert handle.is_paused
            assert handle.next_run() == following + timedelta(hours=1)
            with pytest.raises(ConfigError, match=r"until: .* is past"):
                await handle.pause(until=following - timedelta(days=1))

    run(program())


@pytest.mark.spec("S5", "finished")
@pytest.mark.spec("S11", "is_active")
def test_a_job_whose_instant_is_past_is_finished(make_app: MakeApp) -> None:
    async def program() -> None:
        app = make_app()
        app.job("past", once("2020-01-01T00:00:00Z")).shell("true", ["true"])
        app.job("over", every("1h", end="2020-01-01T00:00:00Z")).shell("true", ["true"])
        async with app.running():
            assert (app["past"].next_run(), app["past"].is_active, app["past"].is_enabled) == (None, False, False)
            assert (app["over"].next_run(), app["over"].is_active, app["over"].is_enabled) == (None, False, False)

    run(program())


@pytest.mark.spec("R4", "trigger now")
@pytest.mark.spec("S11", "is_running")
def test_a_trigger_runs_at_once_and_one_key_is_one_run(make_app: MakeApp) -> None:
    app = make_app()
    attempts: list[ExecutionContext] = []
    begun, proceed = threading.Event(), threading.Event()

    @app.job(NEVER)
    def work(ctx: ExecutionContext) -> None:
        attempts.append(ctx)
        begun.set()
        assert proceed.wait(PATIENCE)

    async def program() -> None:
        async with app.running() as node:
            handle = app["work"]
            assert not await handle.is_running()
            first = await handle.trigger(key="request-7", reason="by hand")
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            assert await handle.is_running()
            assert await handle.trigger(key="request-7") == first
            proceed.set()
            report = await node.wait(first.id)
            assert await handle.trigger(key="request-7") == first
            assert (report.kind, report.occurrence, report.outcome) == (
                Kind.TRIGGER,
                first.id,
                OccurrenceState.COMPLETED,
            )
            second = await handle.trigger()
            assert second.id != first.id
            await node.wait(second)
            assert not await handle.is_running()
        assert len(attempts) == 2

    run(program())


@pytest.mark.spec("X5", "occurrence")
def test_a_trigger_may_override_what_an_occurrence_may(make_app: MakeApp) -> None:
    app = make_app()
    tries: list[int] = []

    @app.job(NEVER)
    def flaky(ctx: ExecutionContext) -> None:
        tries.append(ctx.attempt)
        raise ValueError("no")

    async def program() -> None:
        async with app.running() as node:
            retry = {"max_retries": 2, "retry_interval": "1ms"}
            report = await node.wait(await app["flaky"].trigger(retry=retry))
            assert report.outcome is OccurrenceState.FAILED
            assert [one.status for one in report.tasks[0].attempts] == [TaskState.FAILED] * 3
            with pytest.raises(ConfigError, match="timezone: cannot be set on an occurrence"):
                await app["flaky"].trigger(timezone="UTC")  # type: ignore[call-arg]  # not on an occurrence

    run(program())
    assert tries == [1, 2, 3]


@pytest.mark.spec("O5", "cancel by a person")
@pytest.mark.spec("L12", "cancel")
def test_what_runs_is_cancelled_by_a_person_with_the_reason(make_app: MakeApp) -> None:
    app = make_app()
    begun = threading.Event()

    @app.job(NEVER)
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.job(NEVER)
    async def short() -> None: ...

    async def program() -> None:
        async with app.running() as node:
            triggered = await app["long"].trigger()
            await asyncio.to_thread(begun.wait, PATIENCE)
            assert [one.key for one in await node.active()] == [triggered.key]
            assert await node.cancel(triggered.id, reason="wrong data")
            report = await node.wait(triggered)
            assert report.outcome is OccurrenceState.CANCELLED
            assert "wrong data" in (report.reason or "")
            assert await node.cancel(triggered, reason="again, which changes nothing")
            assert (await node.wait(triggered)).reason == report.reason
            completed = await app["short"].trigger()
            await node.wait(completed)
            assert not await node.cancel(completed, reason="too late")
            with pytest.raises(NodeError, match=r"there is no occurrence .*, or it is no longer kept"):
                await node.cancel(uuid4())
            with pytest.raises(NodeError, match="not the run id of a job"):
                await node.wait("nobody:1")

    run(program())


@pytest.mark.spec("L6", "statistics")
def test_a_node_says_how_it_is(make_app: MakeApp) -> None:
    app = app_with_hourly(make_app)

    async def program() -> None:
        async with app.running() as node:
            statistics = await node.statistics()
            assert statistics.received <= statistics.sent
            assert statistics.loop.iterations > 0
            assert (statistics.timeouts, statistics.unwritten_updates) == (0, 0)
            assert (node.name, node.store.startswith("sqlite:///")) == ("here", True)

    run(program())


@pytest.mark.spec("D10", "removed")
def test_a_removed_job_is_gone_until_it_is_declared_again(make_app: MakeApp) -> None:
    async def program() -> None:
        app = app_with_hourly(make_app)
        async with app.running():
            await app["hourly"].remove(reason="moved elsewhere")
            assert (app["hourly"].next_run(), app["hourly"].is_active) == (None, False)
            with pytest.raises(NodeError, match="is not there at present"):
                await app["hourly"].trigger()
        async with app.running():
            assert app["hourly"].is_enabled

    run(program())


def test_what_is_asked_of_a_job_that_is_only_in_the_store_works_and_of_an_unknown_one_does_not(
    make_app: MakeApp,
) -> None:
    async def program() -> None:
        async with app_with_hourly(make_app).running():
            pass
        other = make_app()
        async with other.running():
            await other["hourly"].pause()
            assert other["hourly"].is_paused
            with pytest.raises(NodeError, match="there is no job 'hurly' in the store"):
                other["hurly"]

    run(program())


@pytest.mark.spec("S11", "an async iterator")
def test_the_occurrences_of_a_job_without_tasks_are_given_to_a_loop(make_app: MakeApp) -> None:
    app = make_app()
    ticks = app.job("ticks", NEVER, overlap="allow")

    async def program() -> None:
        async with app.running() as node:
            first, second = await ticks.trigger(), await ticks.trigger()
            seen = []
            async for ctx in ticks:
                seen.append(ctx.occurrence_id)
                if len(seen) == 2:
                    break
            assert set(seen) == {first.id, second.id}
            reports = {report.occurrence: report for report in [await node.wait(first), await node.wait(second)]}
            assert reports[seen[0]].outcome is OccurrenceState.COMPLETED
            left = reports[seen[1]]
            assert left.outcome is OccurrenceState.FAILED  # nobody said that it was done
            assert LoopLeft.__name__ in (left.tasks[0].attempts[0].error or "")

    run(program())


def test_a_job_with_tasks_is_not_iterated(make_app: MakeApp) -> None:
    app = app_with_hourly(make_app)

    async def program() -> None:
        with pytest.raises(ConfigError, match="has tasks of its own"):
            aiter(app["hourly"])
        app.job("free", NEVER)
        with pytest.raises(NodeError, match="no node runs"):
            aiter(app["free"])

    run(program())
