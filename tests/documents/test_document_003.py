"""Document 003, the record scheduler: three flows, the settings, and what happens when something fails (E1 to E11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from itinerary import Itinerary
from itinerary.observe.metrics import METRICS
from itinerary.records import CycleCounts, Event, Record, RecordBatch, RecordScheduler
from itinerary.records.cycle import Backpressure
from itinerary.records.settings import DeskSettings, read_desk_settings
from itinerary.schedules.durations import SECOND
from itinerary.testing import TestNode
from tests.documents.clock import Clock
from tests.unit.records.office import Office
from tests.unit.runtime.world import World, played

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
START = "2026-01-01T12:00"


class Hotel:
    """A desk of folio requests, and what its handlers were given."""

    def __init__(self, app: Itinerary, *, takes: float = 0.0, **settings: Any) -> None:
        """`takes`: the seconds that the handler needs for a batch."""
        self.takes = takes
        self.batches: list[RecordBatch] = []
        self.checks: list[tuple[str, str]] = []
        self.desk: RecordScheduler = app.records("folio", partition_by="hotel", **settings)
        self.desk.handler(self._handle)
        for kind in ("email", "call"):
            self.desk.verification(kind)(self._check(kind))

    async def _handle(self, batch: RecordBatch) -> None:
        await asyncio.sleep(self.takes)
        self.batches.append(batch)

    def _check(self, kind: str) -> Any:
        async def check(record: Record) -> str:
            self.checks.append((kind, record.id))
            return f"{kind} verified"

        return check

    @property
    def handled(self) -> list[tuple[str, bool]]:
        """The id of each record that a handler received, and whether as a retry."""
        return [(record.id, record.is_retry) for batch in self.batches for record in batch]

    def say(self, run: TestNode, kind: str, record: str, **fields: Any) -> int:
        return run.call(self.desk.append(kind, record=record, hotel="lisbon", **fields))

    def log(self, run: TestNode) -> list[Event]:
        """Return the whole event log."""

        async def read() -> list[Event]:
            found: list[Event] = []
            try:
                async with asyncio.timeout(0.1):
                    async for event in self.desk.follow():
                        found.append(event)  # noqa: PERF401 - it never ends by itself
            except TimeoutError:
                pass
            return found

        return run.call(read())

    def kinds(self, run: TestNode, record: str) -> list[str]:
        return [event.kind for event in self.log(run) if event.record == record]


# -- the three flows ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("E2")
@pytest.mark.spec("E4")
def test_new_records_are_queued_once_in_batches_of_fifty_and_picked_up(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, flow diagram, first branch: new records go to the queue, and each queueing and pickup is an event.

    A record that is announced again is not new. The next cycles find nothing.
    """
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    for number in range(120):
        hotel.say(run, "RecordCreated", f"F-{number:03}", data={"room": number})
    hotel.say(run, "RecordCreated", "F-000", data={"room": 0})
    run.advance(minutes=5)
    assert sorted(len(batch) for batch in hotel.batches) == [20, 50, 50]
    assert sorted(hotel.handled) == [(f"F-{number:03}", False) for number in range(120)]
    assert hotel.kinds(run, "F-007") == ["RecordCreated", "RecordQueued", "RecordPickedUp"]
    assert hotel.kinds(run, "F-000").count("RecordQueued") == 1


@pytest.mark.spec("E4")
def test_a_callback_is_queued_again_with_the_retry_flag_when_its_time_has_come(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """003, flow diagram, second branch: a callback for 12:30. The cycle runs every 10 seconds."""
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    hotel.say(run, "RecordCreated", "F-1", data={})
    run.advance(minutes=1)
    hotel.say(run, "CallbackScheduled", "F-1", target_time=NOON + timedelta(minutes=30))
    run.advance_to("2026-01-01T12:29:50")
    assert hotel.handled == [("F-1", False)]
    run.advance_to("2026-01-01T12:30:11")
    assert hotel.handled == [("F-1", False), ("F-1", True)]
    queued = [event.fields for event in hotel.log(run) if event.kind == "RecordQueued"]
    assert [(fields.get("retry", False), fields.get("times", 1)) for fields in queued] == [(False, 1), (True, 2)]


@pytest.mark.spec("E4")
def test_a_verification_goes_to_its_handler_and_its_result_is_an_event(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, flow diagram, third branch: an email check and a follow-up call, triggered at their times."""
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    hotel.say(run, "RecordCreated", "F-1", data={})
    for minutes, kind in ((20, "email"), (40, "call")):
        at = NOON + timedelta(minutes=minutes)
        hotel.say(run, "VerificationScheduled", "F-1", check_time=at, verification=kind)
    run.advance_to("2026-01-01T12:19")
    assert hotel.checks == []
    run.advance_to("2026-01-01T12:22")
    assert hotel.checks == [("email", "F-1")]
    run.advance_to("2026-01-01T12:42")
    assert hotel.checks == [("email", "F-1"), ("call", "F-1")]
    checked = [(event.kind, event.fields.get("result")) for event in hotel.log(run) if event.kind.startswith("Verif")]
    assert checked[2:] == [
        ("VerificationTriggered", None),
        ("VerificationCompleted", "email verified"),
        ("VerificationTriggered", None),
        ("VerificationCompleted", "call verified"),
    ]


@pytest.mark.spec("E4")
def test_a_completed_record_never_comes_back(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, events read: `RecordCompleted` prevents any further work: no callback, no verification, no second pickup."""
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    hotel.say(run, "RecordCreated", "F-1", data={})
    later = NOON + timedelta(minutes=30)
    hotel.say(run, "CallbackScheduled", "F-1", target_time=later)
    hotel.say(run, "VerificationScheduled", "F-1", check_time=later, verification="email")
    run.advance(minutes=1)
    hotel.say(run, "RecordCompleted", "F-1", final_status="paid")
    run.advance(minutes=40)
    assert (hotel.handled, hotel.checks) == ([("F-1", False)], [])


@pytest.mark.spec("E1")
def test_a_replay_of_the_log_gives_the_same_state_and_emits_nothing_again(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """003, event log replay: a node that crashed is followed by one that reads the log from its beginning.

    The log says who is queued already. So the new node does what is left, and nothing twice.
    """
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    for number in range(3):
        hotel.say(run, "RecordCreated", f"F-{number}", data={})
    hotel.say(run, "CallbackScheduled", "F-1", target_time=NOON + timedelta(minutes=30))
    run.advance(minutes=5)
    before = hotel.log(run)
    run.crash()
    run.start()
    run.advance(minutes=5)
    assert hotel.log(run) == before
    run.advance_to("2026-01-01T12:31")
    assert [event.kind for event in hotel.log(run)[len(before) :]] == [
        "RecordQueued",
        "RecordPickedUp",
        "BatchAcknowledged",
    ]
    assert hotel.handled[-1] == ("F-1", True)


@pytest.mark.spec("E3")
def test_scheduling_is_stopped_and_started_and_one_cycle_runs_by_hand(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, the interface: `StartScheduling`, `StopScheduling`, `ProcessScheduledRecords`."""
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    run.advance(minutes=1)
    run.call(hotel.desk.stop_scheduling(reason="migration"))
    hotel.say(run, "RecordCreated", "F-1", data={})
    run.advance(minutes=10)
    assert hotel.handled == []
    assert run.call(hotel.desk.process_scheduled_records()) == CycleCounts(queued=1, requeued=0, triggered=0)
    run.call(hotel.desk.drained())
    assert hotel.handled == [("F-1", False)]
    hotel.say(run, "RecordCreated", "F-2", data={})
    run.call(hotel.desk.start_scheduling())
    run.advance(minutes=1)
    assert hotel.handled[1:] == [("F-2", False)]


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("E4")
@pytest.mark.spec("E9")
def test_the_defaults_are_those_of_the_document_and_the_intervals_are_jobs(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """003, configuration: 30, 10 and 60 seconds, a delay of 5, and batches of at most 50.

    The three intervals are three jobs. Within ten minutes they run 20, 60 and 10 times.
    """
    settings = DeskSettings()
    assert settings.schedule_interval == 30 * SECOND
    assert settings.callback_check_interval == 10 * SECOND
    assert settings.verification_check_interval == 60 * SECOND
    assert (settings.startup_delay, settings.batch_size_max) == (5 * SECOND, 50)
    assert settings.enable_early_morning_skip
    Hotel(app)
    run = itinerary_clock(app, start=START)
    run.advance(minutes=10)
    jobs = ("folio.pickup", "folio.callbacks", "folio.verifications")
    assert [len(run.history(job)) for job in jobs] == [20, 60, 10]


@pytest.mark.spec("E5")
def test_quiet_hours_from_eight_to_six_are_22_hours_and_are_warned_about() -> None:
    """003, configuration: the early morning of the document starts at 8 and ends at 6.

    Our rule (E5): hours run from the start to the end, past midnight. Read so, the example is silent for 22 hours. The
    setting is accepted with a warning, and the default is 0 to 6.
    """
    given = read_desk_settings({"early_morning_start_hour": 8, "early_morning_end_hour": 6})
    assert given.quiet_hours == 22
    (warning,) = given.warnings()
    assert "if the other 2 are meant, exchange" in warning
    assert (DeskSettings().early_morning_start_hour, DeskSettings().early_morning_end_hour) == (0, 6)
    assert DeskSettings().warnings() == []


@pytest.mark.spec("E5")
@pytest.mark.spec("E8", "partitions")
def test_records_of_the_night_wait_for_six_by_the_clock_of_their_hotel(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, configuration and scalability: early morning, with partitions by hotel. Each hotel has its own morning.

    At 05:50 UTC the clock in Lisbon shows 05:50, and in Tokyo 14:50.
    """
    zones = {"lisbon": "Europe/Lisbon", "tokyo": "Asia/Tokyo"}
    hotel = Hotel(app, timezone=zones.get)
    run = itinerary_clock(app, start="2026-01-01T05:50")
    for name in zones:
        run.call(hotel.desk.append("RecordCreated", record=name, hotel=name, data={}))
    run.advance_to("2026-01-01T05:59")
    assert hotel.handled == [("tokyo", False)]
    run.advance_to("2026-01-01T06:01")
    assert hotel.handled == [("tokyo", False), ("lisbon", False)]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E7")
def test_an_event_store_that_is_away_is_asked_again_later_each_time_and_reported_once() -> None:
    """003, failure handling 2: exponential backoff, an alert on a long outage, and work from where it was.

    Ten minutes: after 1, 2, 4 … up to 60 s (E7). One alert, one notice.
    """

    async def story(world: World) -> None:
        office = Office(world)
        clerk = await office.worker()
        async with office.running(clerk), office.ticking(clerk):
            await asyncio.sleep(20)
            world.engine.is_down = True
            await office.say("RecordCreated", "late")
            await asyncio.sleep(600)
            tries = world.log.said("records.store_unavailable")
            world.engine.is_down = False
            await asyncio.sleep(61)
        waits = [line["asked_again_in"] for line in tries if line["what"] == "read seats"]
        assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
        assert len(office.alerts) == 2
        assert office.handled == [("all", 1, ["late"])]

    played(story)


@pytest.mark.spec("E6")
def test_pickup_pauses_above_the_threshold_and_resumes_when_the_queue_has_drained(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """003, failure handling 3: the queue is watched. Our thresholds (E6) are 1,000 and 500; here 100 and 50.

    A handler that takes a minute for ten records: 300 are too many at once. None is lost.
    """
    pressure = Backpressure(DeskSettings())
    assert [pressure.room(size) > 0 for size in (1_000, 1_001, 500, 499)] == [True, False, False, True]

    hotel = Hotel(app, queue_high=100, queue_low=50, batch_size_max=10, handlers_max=1, takes=60)
    sizes: list[float] = []

    run = itinerary_clock(app, start=START)
    for number in range(300):
        hotel.say(run, "RecordCreated", f"F-{number:03}", data={})
    for _ in range(40):
        run.advance(minutes=1)
        size = run.call(hotel.desk.figures())["scheduler_records_queue_size"]
        assert isinstance(size, float)
        sizes.append(size)
    assert 100 < max(sizes) <= 110, "no further batch above the threshold"
    assert sorted(hotel.handled) == [(f"F-{number:03}", False) for number in range(300)]


@pytest.mark.spec("E11", "metrics")
def test_the_five_figures_of_the_document_are_metrics(app: Itinerary, itinerary_clock: Clock) -> None:
    """003, monitoring: records per cycle, queue, callbacks, verifications, and the time of a cycle."""
    names = {
        "scheduler_records_per_cycle",
        "scheduler_records_queue_size",
        "scheduler_records_callback_backlog",
        "scheduler_records_verification_backlog",
        "scheduler_records_cycle_duration_seconds",
    }
    assert names <= {metric.name for metric in METRICS}
    hotel = Hotel(app)
    run = itinerary_clock(app, start=START)
    hotel.say(run, "RecordCreated", "F-1", data={})
    hotel.say(run, "CallbackScheduled", "F-1", target_time=NOON + timedelta(hours=1))
    hotel.say(run, "VerificationScheduled", "F-1", check_time=NOON + timedelta(hours=1), verification="email")
    run.advance(minutes=2)
    figures = run.call(hotel.desk.figures())
    assert names <= set(figures)
    backlogs = [figures[f"scheduler_records_{kind}_backlog"] for kind in ("callback", "verification")]
    assert backlogs == [1, 1]
