"""A desk in a program: declared on an app, run by its node, asked from the program's loop (E3, E9, E10)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary
from itinerary.errors import ConfigError, NodeError, RecordError
from itinerary.model import OccurrenceState
from itinerary.model.queries import HistoryQuery, JobsByNameQuery, PartitionsQuery
from itinerary.records import Event, Record, RecordBatch, RecordScheduler
from itinerary.stores import open_store
from tests.integration.api.conftest import run
from tests.unit.runtime.world import Log

ZONES = {"lisbon": "Europe/Lisbon", "tokyo": "Asia/Tokyo"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/itinerary.db"


@pytest.fixture
def make_app(store: str) -> Callable[[], Itinerary]:
    return lambda: Itinerary(store=store, name="here", kill_grace="200ms", shutdown_grace_period="5s")


def folio(app: Itinerary, **settings: Any) -> RecordScheduler:
    options: Any = {"enable_early_morning_skip": False, "startup_delay": 0, **settings}
    return app.records("folio", partition_by="hotel", timezone=ZONES.__getitem__, **options)


@pytest.mark.spec("E3")
@pytest.mark.spec("E10")
def test_records_go_through_a_desk_of_a_program_and_its_log_tells_of_it(make_app: Callable[[], Itinerary]) -> None:
    app = make_app()
    desk, seen = folio(app), list[RecordBatch]()

    @desk.handler
    async def work(batch: RecordBatch) -> None:
        seen.append(batch)

    @desk.verification("email")
    def check_mail(record: Record) -> str:
        assert threading.current_thread().name.startswith("itinerary-records"), "a plain function has a thread"
        return f"mail of {record.id} was read"

    async def program() -> list[Event]:
        async with app.running():
            first = await desk.append(
                "RecordCreated", record="F-100", hotel="lisbon", data={"guest": "Ada"}, key="import-7:F-100"
            )
            again = await desk.append(
                "RecordCreated", record="F-100", hotel="lisbon", data={"guest": "Ada"}, key="import-7:F-100"
            )
            assert first == again == 1
            await desk.append(
                "VerificationScheduled", record="F-100", check_time=datetime.now(UTC), verification="email"
            )
            await desk.append("CallbackScheduled", record="F-100", target_time=datetime.now(UTC) + timedelta(days=1))
            done = await desk.process_scheduled_records()
            assert (done.queued, done.requeued, done.triggered) == (1, 0, 1)
            await desk.drained()
            await desk.append("RecordCompleted", record="F-100", final_status="paid")
            events = []
            async for event in desk.follow(after=1):
                events.append(event)
                if event.kind == "RecordCompleted":
                    return events
        raise AssertionError

    events = run(program())
    assert [(record.id, record.data) for batch in seen for record in batch] == [("F-100", {"guest": "Ada"})]
    kinds = [event.kind for event in events]
    assert kinds[:2] == ["VerificationScheduled", "CallbackScheduled"]
    assert sorted(kinds[2:]) == [
        "BatchAcknowledged",
        "RecordCompleted",
        "RecordPickedUp",
        "RecordQueued",
        "VerificationCompleted",
        "VerificationTriggered",
    ]
    assert [event.fields["result"] for event in events if event.kind == "VerificationCompleted"] == [
        "mail of F-100 was read"
    ]
    assert isinstance(events[1].fields["target_time"], datetime)


@pytest.mark.spec("E9")
def test_the_three_cycles_are_jobs_with_history_and_the_desk_works_without_being_asked(
    make_app: Callable[[], Itinerary],
) -> None:
    app = make_app()
    desk = folio(app, schedule_interval="1s", callback_check_interval="1s", verification_check_interval="1s")
    handled: list[str] = []
    is_handled = threading.Event()

    @desk.handler
    def work(batch: RecordBatch) -> None:
        handled.extend(record.id for record in batch)
        if len(handled) == 2:
            is_handled.set()

    async def program() -> None:
        async with app.running():
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")
            await desk.append("RecordCreated", record="F-2", hotel="tokyo")
            await asyncio.to_thread(is_handled.wait, 30)
            assert sorted(await desk.partitions()) == ["lisbon", "tokyo"]

    run(program())
    assert sorted(handled) == ["F-1", "F-2"]
    assert [job.name for job in app] == ["folio.pickup", "folio.callbacks", "folio.verifications"]


@pytest.mark.spec("E3")
def test_a_stop_of_scheduling_survives_a_restart_and_a_start_ends_it(make_app: Callable[[], Itinerary]) -> None:
    handled, is_handled = list[str](), threading.Event()

    def declared(app: Itinerary) -> RecordScheduler:
        desk = folio(app, schedule_interval="1s", callback_check_interval="1s", verification_check_interval="1s")

        @desk.handler
        def work(batch: RecordBatch) -> None:
            handled.extend(record.id for record in batch)
            is_handled.set()

        return desk

    async def first() -> None:
        app = make_app()
        desk = declared(app)
        async with app.running():
            await desk.stop_scheduling(reason="stocktaking")
            assert all(app[f"folio.{cycle}"].next_run() is None for cycle in ("pickup", "callbacks", "verifications"))
            while await app["folio.pickup"].is_running():  # noqa: ASYNC110 - one that was due before may still run
                await asyncio.sleep(0.05)
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")

    async def second() -> None:
        app = make_app()
        desk = declared(app)
        async with app.running():
            await asyncio.sleep(2.5)
            assert handled == []
            await desk.start_scheduling()
            await asyncio.to_thread(is_handled.wait, 30)

    run(first())
    run(second())
    assert handled == ["F-1"]


@pytest.mark.spec("E8")
def test_a_node_that_ends_waits_for_its_handlers_and_gives_its_partitions_back(
    make_app: Callable[[], Itinerary], store: str
) -> None:
    app = make_app()
    desk, ended, begun = folio(app), list[str](), asyncio.Event()

    @desk.handler
    async def work(batch: RecordBatch) -> None:
        begun.set()
        await asyncio.sleep(0.5)
        ended.append(batch.id)

    async def program() -> None:
        async with app.running():
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")
            await desk.process_scheduled_records()
            await begun.wait()
        assert ended == ["1"]
        async with open_store(store) as opened:
            (row,) = await opened.read(PartitionsQuery("folio"))
            assert row.holder is None

    run(program())


def test_what_is_wrong_is_said_where_it_is_written(make_app: Callable[[], Itinerary]) -> None:
    app = make_app()
    desk = folio(app)
    with pytest.raises(ConfigError, match="desk 'folio' is declared already"):
        folio(app)
    with pytest.raises(ConfigError, match="did you mean 'batch_size_max'"):
        app.records("other", batch_size=3)  # type: ignore[call-arg]  # that is what is tested
    with pytest.raises(ValueError, match="time zone 'Europe/Lissabon' is unknown"):
        app.records("other", timezone="Europe/Lissabon")
    with pytest.raises(ConfigError, match="is a field of events"):
        app.records("other", partition_by="record")
    with pytest.raises(ConfigError, match="has a '/'"):
        app.records("a/b")
    with pytest.raises(ConfigError, match="takes one argument, a batch"):
        desk.handler(lambda: None)  # type: ignore[type-var]  # that is what is tested
    desk.handler(print)
    with pytest.raises(ConfigError, match="has a handler already"):
        desk.handler(print)
    desk.verification("email")(str)
    with pytest.raises(ConfigError, match="has a handler for verification 'email' already"):
        desk.verification("email")(str)

    async def outside() -> None:
        with pytest.raises(NodeError, match="no node runs"):
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")

    async def inside() -> None:
        async with app.running():
            with pytest.raises(NodeError, match="be given handlers only when that has ended"):
                desk.verification("call")(str)
            with pytest.raises(RecordError, match="is not known to desk 'folio'"):
                await desk.append("RecordCompleted", record="F-1")
            with pytest.raises(RecordError, match="hotel: 7 is not text"):
                await desk.append("RecordCreated", record="F-1", hotel=7)

    run(outside())
    run(inside())


@pytest.mark.spec("E9")
def test_a_cycle_can_be_triggered_like_any_job_and_its_pause_holds_pickups_back(
    make_app: Callable[[], Itinerary], store: str
) -> None:
    app = make_app()
    desk = folio(app, schedule_interval="1s", callback_check_interval="1s", verification_check_interval="1s")
    handled, is_handled = list[str](), threading.Event()

    @desk.handler
    def work(batch: RecordBatch) -> None:
        handled.extend(record.id for record in batch)
        is_handled.set()

    async def program() -> None:
        async with app.running() as node:
            report = await node.wait(await app["folio.pickup"].trigger())
            assert report.outcome is OccurrenceState.COMPLETED
            await app["folio.pickup"].pause(reason="stocktaking")
            skipped = await _skipped_after(store, "folio.pickup", 0)  # so what was due before the pause has begun
            while await app["folio.pickup"].is_running():  # noqa: ASYNC110 - the store is asked, and tells nobody
                await asyncio.sleep(0.05)
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")
            await _skipped_after(store, "folio.pickup", skipped + 1)
            assert handled == []
            await app["folio.pickup"].resume()
            assert await asyncio.to_thread(is_handled.wait, 30)

    run(program())
    assert handled == ["F-1"]


async def _skipped_after(store: str, name: str, count: int) -> int:
    """Wait until more than so many instants of a job have been skipped, and say how many were."""
    async with open_store(store) as opened:
        job = (await opened.read(JobsByNameQuery((name,))))[name].number
        while True:
            rows = (await opened.read(HistoryQuery(job, limit=100))).rows
            skipped = sum(row.status is OccurrenceState.SKIPPED for row in rows)
            if skipped > count:
                return skipped
            await asyncio.sleep(0.05)


@pytest.mark.spec("E9")
def test_a_node_that_lacks_a_desk_leaves_its_cycles_to_others(make_app: Callable[[], Itinerary], store: str) -> None:
    first, second = make_app(), make_app()
    desk = folio(first, schedule_interval="1s", callback_check_interval="1s", verification_check_interval="1s")
    second.records("another desk")
    is_handled = threading.Event()

    @desk.handler
    def work(_: RecordBatch) -> None:
        is_handled.set()

    async def program() -> None:
        async with first.running(), second.running():
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")
            assert await asyncio.to_thread(is_handled.wait, 30)
            await asyncio.sleep(3)
        async with open_store(store) as opened:
            job = (await opened.read(JobsByNameQuery(("folio.callbacks",))))["folio.callbacks"]
            page = await opened.read(HistoryQuery(job.number))
            assert {row.status for row in page.rows} <= {"completed", "cancelled", "skipped"}, "none has failed"

    run(program())


@pytest.mark.spec("E10")
@pytest.mark.parametrize("kind", ["coroutine", "plain"])
def test_a_handler_that_tries_to_end_the_program_only_brings_its_batch_back(
    make_app: Callable[[], Itinerary], kind: str
) -> None:
    app = make_app()
    desk, attempts = folio(app), list[int]()

    def work(batch: RecordBatch) -> None:
        attempts.append(batch.attempt)
        if batch.attempt == 1:
            sys.exit("enough")

    async def work_on_the_loop(batch: RecordBatch) -> None:
        work(batch)

    desk.handler(work if kind == "plain" else work_on_the_loop)

    async def program() -> None:
        async with app.running():
            await desk.append("RecordCreated", record="F-1", hotel="lisbon")
            await desk.process_scheduled_records()
            await desk.drained()

    run(program())
    assert attempts == [1, 2]


@pytest.mark.spec("E5")
def test_quiet_hours_of_most_of_the_day_are_warned_about_when_a_node_starts(make_app: Callable[[], Itinerary]) -> None:
    app = make_app()
    app.records("folio", early_morning_start_hour=8, early_morning_end_hour=6)
    app.log = Log()

    async def program() -> None:
        async with app.running():
            pass

    run(program())
    (said,) = app.log.said("settings.questionable")
    assert said["what"].startswith("desk folio: quiet hours from 8 to 6 are 22 hours of each day")
