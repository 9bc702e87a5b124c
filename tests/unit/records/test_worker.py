"""A desk at work on one node (E2 to E6, E10, E11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from itinerary.errors import RecordError
from itinerary.model.writes import BATCH_MAX
from itinerary.records.batches import CycleCounts, RecordBatch
from itinerary.records.cycle import EVENTS_MAX, Cycle
from itinerary.records.event_types import produced, read_fields
from itinerary.records.metrics import FIGURES
from itinerary.records.settings import BATCH_SIZE_LIMIT
from itinerary.schedules.durations import SECOND
from tests.unit.records.office import Office, called
from tests.unit.runtime.world import EPOCH, World, played

ALL = "all"


@pytest.mark.spec("E2")
def test_a_record_goes_from_the_log_to_its_handler_and_each_step_is_an_event() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", "F-2", data={"guest": "Ada"})
            done = await worker.cycle()
            assert (done.queued, done.requeued, done.triggered) == (2, 0, 0)
            await worker.drained()
        assert [(row.kind, row.record) for row in await office.log()] == [
            ("RecordCreated", "F-1"),
            ("RecordCreated", "F-2"),
            ("RecordQueued", "F-1"),
            ("RecordQueued", "F-2"),
            ("RecordPickedUp", "F-1"),
            ("RecordPickedUp", "F-2"),
            ("BatchAcknowledged", ""),
        ]
        assert office.handled == [(ALL, 1, ["F-1", "F-2"])]

    played(story)


def test_a_handler_is_given_the_records_with_their_data() -> None:
    async def story(world: World) -> None:
        office, seen = Office(world), list[RecordBatch]()
        office.handler = seen.append
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", hotel="lisbon", data={"guest": "Ada"})
            await worker.cycle()
            await worker.drained()
            await office.say("CallbackScheduled", "F-1", hotel="lisbon", target_time=EPOCH)
            await worker.cycle()
            await worker.drained()
        first, second = seen
        assert (first.desk, first.partition, first.attempt, len(first)) == ("folio", "lisbon", 1, 1)
        (record,) = first
        assert (record.id, record.data, record.is_retry, record.times_queued) == ("F-1", {"guest": "Ada"}, False, 1)
        assert record.created_at.timestamp() * SECOND == EPOCH
        (again,) = second
        assert (again.data, again.is_retry, again.times_queued) == ({"guest": "Ada"}, True, 2)

    played(story)


@pytest.mark.spec("E10")
def test_a_batch_whose_handler_raises_comes_back_later_each_time_until_it_is_acknowledged() -> None:
    async def story(world: World) -> None:
        office, times = Office(world), list[float]()

        async def work(batch: RecordBatch) -> None:
            times.append(world.loop.time())
            if batch.attempt < 5:
                raise ValueError("the printer is on fire")

        office.handler = work
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            await worker.cycle()
            await worker.drained()
            assert await worker.cycle() == CycleCounts(), "it is queued once all the same"
        assert [round(after - before) for before, after in pairwise(times)] == [1, 2, 4, 8]
        assert len(await office.queued()) == 1
        assert len(await office.log("RecordPickedUp")) == 5
        assert len(await office.log("BatchAcknowledged")) == 1
        (failed, *_) = world.log.said("records.batch_failed")
        assert (failed["error"], failed["again_in"]) == ("ValueError: the printer is on fire", 1.0)

    played(story)


@pytest.mark.spec("E10")
def test_a_batch_whose_handler_takes_too_long_or_is_cancelled_comes_back() -> None:
    async def story(world: World) -> None:
        office = Office(world, handler_timeout="10s")

        async def work(batch: RecordBatch) -> None:
            if batch.attempt == 1:
                await asyncio.sleep(1_000)
            if batch.attempt == 2:
                raise asyncio.CancelledError
            await office._handle(batch)

        office.handler = work
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            await worker.cycle()
            await worker.drained()
        assert office.handled == [(ALL, 3, ["F-1"])]
        assert "took longer than 10 s" in world.log.said("records.batch_failed")[0]["error"]

    played(story)


@pytest.mark.spec("E10")
def test_a_crashed_handlers_batch_is_delivered_by_the_next_node() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        first = await office.worker()
        async with office.running(first, is_killed=True):
            office.handler = lambda _: asyncio.sleep(1_000)
            await office.say("RecordCreated", "F-1")
            await first.cycle()
            await asyncio.sleep(1)
            assert len(await office.log("RecordPickedUp")) == 1
        office.handler = office._handle
        second = await office.worker()
        async with office.running(second):
            await asyncio.sleep(31)  # nobody has to ask: what is in the queue of a partition that was taken goes out
        assert office.handled == [(ALL, 2, ["F-1"])]
        assert len(await office.queued()) == 1

    played(story)


@pytest.mark.spec("E4")
def test_a_record_that_is_completed_while_its_batch_waits_is_left_out_of_it() -> None:
    async def story(world: World) -> None:
        office = Office(world, handlers_max=1, batch_size_max=2)
        worker = await office.worker()

        async def slow(batch: RecordBatch) -> None:
            await asyncio.sleep(10)
            await office._handle(batch)

        office.handler = slow
        async with office.running(worker):
            await office.say("RecordCreated", *(f"F-{number}" for number in range(6)))
            await worker.cycle()
            await office.say("RecordCompleted", "F-2", "F-4", "F-5")
            await worker.cycle()
            await worker.drained()
        assert [records for _, _, records in office.handled] == [["F-0", "F-1"], ["F-3"]]
        assert len(await office.log("BatchAcknowledged")) == 3, "the one that nothing was left of, too"

    played(story)


@pytest.mark.spec("E4")
def test_verifications_go_to_their_handler_by_kind_and_the_result_is_appended() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            at = EPOCH + 60 * SECOND
            await office.say("VerificationScheduled", "F-1", check_time=at, verification="email")
            await office.say("VerificationScheduled", "F-1", check_time=at, verification="call")
            await office.say("VerificationScheduled", "F-1", check_time=at, verification="visit")
            assert (await worker.cycle({Cycle.VERIFICATIONS})).triggered == 0
            await world.sleep_until(60)
            assert (await worker.cycle({Cycle.VERIFICATIONS})).triggered == 3
            await worker.drained()
            assert (await worker.cycle({Cycle.VERIFICATIONS})).triggered == 0
        assert sorted(office.verified) == [("call", "F-1"), ("email", "F-1")]
        results = [read_fields(row) for row in await office.log("VerificationCompleted")]
        assert sorted((said.verification, said.result) for said in results) == [
            ("call", "call is fine"),
            ("email", "email is fine"),
        ]
        assert [said["kind"] for said in world.log.said("records.no_handler")] == ["visit"]

    played(story)


@pytest.mark.spec("E4")
def test_a_verification_whose_handler_raises_or_returns_nonsense_is_tried_again() -> None:
    async def story(world: World) -> None:
        office, answers = Office(world), [ValueError("no line"), object(), "fine"]

        def check(_: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, ValueError):
                raise answer
            return answer

        worker = await office.worker()
        worker._delivery._handlers.verifications["email"] = check  # type: ignore[index]  # it is a dictionary here
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            await office.say("VerificationScheduled", "F-1", check_time=EPOCH, verification="email")
            await worker.cycle()
            await worker.drained()
        assert len(await office.log("VerificationTriggered")) == 1
        assert [read_fields(row).result for row in await office.log("VerificationCompleted")] == ["fine"]
        errors = [said["error"] for said in world.log.said("records.verification_failed")]
        assert errors[0] == "ValueError: no line"
        assert "is not JSON" in errors[1]

    played(story)


@pytest.mark.spec("E5")
def test_what_falls_into_quiet_hours_waits_for_each_partition_by_its_own_clock() -> None:
    async def story(world: World) -> None:
        office = Office(world, enable_early_morning_skip=True, early_morning_start_hour=22, early_morning_end_hour=6)
        zones = {"lisbon": "Europe/Lisbon", "tokyo": "Asia/Tokyo", "honolulu": "Pacific/Honolulu"}
        office.timezone = zones.__getitem__
        worker = await office.worker()
        async with office.running(worker):
            for hotel in zones:
                await office.say("RecordCreated", hotel.upper(), hotel=hotel)
            seen: dict[str, float] = {}
            for half in range(10):
                await world.sleep_until(half * 1_800)
                await worker.cycle()
                await worker.drained()
                for _, _, (record,) in office.handled:
                    seen.setdefault(record, half / 2)
        # It is noon in UTC and in Lisbon; 21:00 in Tokyo; 02:00 in Honolulu.
        assert seen == {"LISBON": 0, "TOKYO": 0, "HONOLULU": 4}

    played(story)


@pytest.mark.spec("E5")
def test_callbacks_wait_for_the_end_of_quiet_hours_and_verifications_do_not() -> None:
    async def story(world: World) -> None:
        office = Office(world, enable_early_morning_skip=True, early_morning_start_hour=13, early_morning_end_hour=15)
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            await worker.cycle()
            await worker.drained()
            at = EPOCH + 3_700 * SECOND
            await office.say("CallbackScheduled", "F-1", target_time=at)
            await office.say("VerificationScheduled", "F-1", check_time=at, verification="email")
            await world.sleep_until(3_800)
            done = await worker.cycle()
            assert (done.requeued, done.triggered) == (0, 1)
            await world.sleep_until(3 * 3_600 - 1)
            assert (await worker.cycle()).requeued == 0
            await world.sleep_until(3 * 3_600)
            assert (await worker.cycle()).requeued == 1
            await worker.drained()

    played(story)


@pytest.mark.spec("E6")
def test_with_a_slow_handler_the_queue_stays_within_a_batch_of_its_threshold_and_nothing_is_lost() -> None:
    async def story(world: World) -> None:
        office = Office(world, queue_high=100, queue_low=40, batch_size_max=20, handlers_max=2)

        async def slow(batch: RecordBatch) -> None:
            await asyncio.sleep(3)
            await office._handle(batch)

        office.handler = slow
        worker = await office.worker()
        sizes, paused = [], []
        async with office.running(worker), office.ticking(worker, each=30.0):
            for hotel in ("lisbon", "tokyo", "honolulu"):
                await office.say("RecordCreated", *(f"{hotel} {number}" for number in range(200)), hotel=hotel)
            await worker.cycle()
            for _ in range(2_000):
                await asyncio.sleep(1)
                truth = await _queue_size(office)
                sizes.append(truth)
                paused.append(worker._pressure.is_paused)
                if len(office.handled) == 30:
                    break
            await worker.drained()
        assert 100 < max(sizes) <= 100 + 20
        assert any(paused)
        assert max(sizes[10:25]) > 100, "it goes on as soon as there is room, without waiting for the next tick"
        assert sorted(record for _, _, records in office.handled for record in records) == sorted(
            f"{hotel} {number}" for hotel in ("lisbon", "tokyo", "honolulu") for number in range(200)
        )

    played(story)


@pytest.mark.spec("E4")
def test_a_large_backlog_of_every_kind_is_worked_off_in_one_cycle() -> None:
    async def story(world: World) -> None:
        office = Office(world, queue_high=1_000_000, batch_size_max=1_000)
        worker = await office.worker()
        old = [f"old {number}" for number in range(6_000)]
        async with office.running(worker):
            await office.say("RecordCreated", *old)
            await worker.cycle()
            await worker.drained()
            await office.say("RecordCreated", *(f"new {number}" for number in range(6_000)))
            await office.say("CallbackScheduled", *old, target_time=EPOCH)
            await office.say("VerificationScheduled", *old, check_time=EPOCH, verification="email")
            assert await worker.cycle() == CycleCounts(6_000, 6_000, 6_000)
            await worker.drained()

    played(story)


def test_what_is_decided_at_once_fits_into_one_write() -> None:
    assert 2 * (EVENTS_MAX + BATCH_SIZE_LIMIT) + EVENTS_MAX <= BATCH_MAX


@pytest.mark.spec("E9")
def test_a_cycle_that_waits_for_room_does_not_outlive_the_pause_of_its_job() -> None:
    async def story(world: World) -> None:
        office = Office(world, queue_high=10, queue_low=5, batch_size_max=5, handlers_max=1)

        async def slow(batch: RecordBatch) -> None:
            await asyncio.sleep(3)
            await office._handle(batch)

        office.handler = slow
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", *(f"F-{number}" for number in range(500)))
            await worker.tick(Cycle.PICKUP)
            await asyncio.sleep(600)  # and nobody ticks any more
            assert 5 <= len(office.handled) <= 16

    played(story)


async def _queue_size(office: Office) -> int:
    queued: dict[str, int] = {}
    done = 0
    for row in await office.log("RecordQueued", "BatchAcknowledged"):
        said = read_fields(row)
        if row.kind == "RecordQueued":
            queued[said.batch] = queued.get(said.batch, 0) + 1
        else:
            done += queued[said.batch]
    return sum(queued.values()) - done


@pytest.mark.spec("E8")
def test_a_partition_that_is_new_is_taken_by_the_cycle_that_hears_of_it() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", hotel="lisbon")
            assert (await worker.cycle()).queued == 1
            await office.say("RecordCreated", "F-2", hotel="tokyo")
            assert (await worker.cycle()).queued == 1
            assert worker.partitions == ["lisbon", "tokyo"]
            await worker.drained()

    played(story)


@pytest.mark.spec("E8")
def test_a_partition_whose_time_zone_nobody_knows_waits_and_holds_up_no_other() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        office.timezone = {"lisbon": "Europe/Lisbon", "atlantis": "Europe/Atlantis"}.__getitem__
        worker = await office.worker()
        async with office.running(worker):
            for hotel in ("atlantis", "lisbon", "nowhere"):
                await office.say("RecordCreated", f"of {hotel}", hotel=hotel)
            assert (await worker.cycle()).queued == 1
            await worker.drained()
        assert [records for _, _, records in office.handled] == [["of lisbon"]]
        told = {said["partition"]: said["error"] for said in world.log.said("records.no_zone")}
        assert told["nowhere"] == "KeyError: 'nowhere'"
        assert "time zone 'Europe/Atlantis' is unknown" in told["atlantis"]

    played(story)


@pytest.mark.spec("E8")
def test_a_time_zone_function_that_raises_once_is_called_again_and_its_partition_goes_on() -> None:
    async def story(world: World) -> None:
        office, calls = Office(world), list[str]()

        def zone_of(hotel: str) -> str:
            calls.append(hotel)
            if len(calls) == 1:
                raise ConnectionError("the directory is down")
            return "Europe/Lisbon"

        office.timezone = zone_of
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", hotel="lisbon")
            assert (await worker.cycle()).queued == 0
            (stalled,) = worker.stalled
            assert (stalled.partition, stalled.error) == ("lisbon", "ConnectionError: the directory is down")
            assert worker.figures.published()["scheduler_records_stalled_partitions"] == 1.0
            await asyncio.sleep(1.5)
            assert (await worker.cycle()).queued == 1
            assert worker.stalled == []
            assert worker.figures.published()["scheduler_records_stalled_partitions"] == 0.0
            await worker.drained()
        assert calls == ["lisbon", "lisbon"]
        (failed,), (found,) = world.log.said("records.no_zone"), world.log.said("records.zone_found")
        assert (failed["tries"], failed["again_in"]) == (1, 1.0)
        assert (found["partition"], found["tries"]) == ("lisbon", 2)

    played(story)


@pytest.mark.spec("E8")
def test_a_time_zone_function_that_hangs_is_called_again_and_holds_up_no_other_partition() -> None:
    async def story(world: World) -> None:
        office, never, calls = Office(world), asyncio.Event(), list[str]()
        worker = await office.worker()

        async def call(function: Callable[[Any], Any], argument: Any) -> Any:
            if argument == "lisbon":
                calls.append(argument)
                if len(calls) == 1:
                    await never.wait()
            return await called(function, argument)

        worker._environment.call = call
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", hotel="lisbon")
            await office.say("RecordCreated", "F-2", hotel="tokyo")
            assert (await worker.cycle()).queued == 1
            assert [one.error for one in worker.stalled] == ["the timezone function has not returned for 10 s"]
            await office.say("RecordCreated", "F-3", hotel="tokyo")
            assert (await worker.cycle()).queued == 1
            await asyncio.sleep(1.5)
            assert (await worker.cycle()).queued == 1
            assert worker.stalled == []
            await worker.drained()
        assert len(calls) == 2

    played(story)


@pytest.mark.spec("E8")
def test_a_time_zone_function_that_always_hangs_is_called_three_times_and_its_late_answer_counts() -> None:
    async def story(world: World) -> None:
        office, answers, calls = Office(world), asyncio.Event(), list[str]()
        worker = await office.worker()

        async def call(function: Callable[[Any], Any], argument: Any) -> Any:
            if argument == "lisbon":
                calls.append(argument)
                await answers.wait()
            return await called(function, argument)

        worker._environment.call = call
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", hotel="lisbon")
            await worker.cycle()
            await asyncio.sleep(3_600)
            assert len(calls) == 3
            assert [one.partition for one in worker.stalled] == ["lisbon"]
            answers.set()
            await asyncio.sleep(1)
            assert (await worker.cycle()).queued == 1
            assert worker.stalled == []
            await worker.drained()
        assert len(calls) == 3

    played(story)


@pytest.mark.spec("E10")
def test_an_event_sent_twice_with_the_same_key_is_one_event() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        event = produced("RecordCreated", "F-1", {"data": 1}, "import-7:F-1")
        assert await worker.append(event, "lisbon") == await worker.append(event, "lisbon") == 1
        later = produced("CallbackScheduled", "F-1", {"target_time": EPOCH}, "later")
        assert await worker.append(later, None) == 2, "the log knows where it lives"
        with pytest.raises(RecordError, match="record 'F-9' is not known to desk 'folio'"):
            await worker.append(produced("RecordCompleted", "F-9", {}, "x"), None)
        with pytest.raises(RecordError, match="lives in partition 'lisbon' of desk 'folio', not in 'tokyo'"):
            await worker.append(produced("RecordCreated", "F-1", {}, "y"), "tokyo")

    played(story)


@pytest.mark.spec("E10")
def test_the_log_can_be_followed_live_from_any_number() -> None:
    async def story(world: World) -> None:
        office = Office(world, startup_delay="1h")
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1", "F-2", "F-3")
            assert [row.sequence for row in await worker.page(1)] == [2, 3]
            waiting = asyncio.create_task(worker.page(3))
            await asyncio.sleep(100)
            assert not waiting.done()
            await office.say("RecordCompleted", "F-1")
            async with asyncio.timeout(1):
                assert [row.kind for row in await waiting] == ["RecordCompleted"]

    played(story)


@pytest.mark.spec("E11")
def test_the_figures_of_a_desk_have_their_names_and_values() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        office.handler = lambda _: asyncio.sleep(1_000)
        worker = await office.worker()
        async with office.running(worker, is_killed=True):
            await office.say("RecordCreated", "F-1", "F-2", "F-3")
            await office.say("CallbackScheduled", "F-1", "F-2", target_time=EPOCH + 10**9)
            await office.say("VerificationScheduled", "F-1", check_time=EPOCH + 10**9)
            await worker.cycle()
            published = worker.figures.published()
        assert set(published) == set(FIGURES)
        assert published["scheduler_records_queue_size"] == 3
        assert published["scheduler_records_callback_backlog"] == 2
        assert published["scheduler_records_verification_backlog"] == 1
        assert published["scheduler_records_per_cycle"] == {"pickup": 3, "callbacks": 0, "verifications": 0}
        assert set(published["scheduler_records_cycle_duration_seconds"]) == {"pickup", "callbacks", "verifications"}  # type: ignore[arg-type]

    played(story)


@pytest.mark.spec("E11", "log")
def test_each_step_is_a_log_event_with_record_batch_and_sequence() -> None:
    async def story(world: World) -> None:
        office = Office(world)
        worker = await office.worker()
        async with office.running(worker):
            await office.say("RecordCreated", "F-1")
            await worker.cycle()
            await worker.drained()
            await office.say("CallbackScheduled", "F-1", target_time=EPOCH)
            await worker.cycle()
            await worker.drained()
        (queued,), (requeued,) = world.log.said("records.queued"), world.log.said("records.requeued")
        assert (queued["record"], queued["batch"], queued["sequence"]) == ("F-1", "1", 2)
        assert (requeued["record"], requeued["batch"], requeued["sequence"]) == ("F-1", f"{EPOCH}:1", 6)
        assert [said["sequence"] for said in world.log.said("records.picked_up")] == [3, 7]
        assert [said["batch"] for said in world.log.said("records.acknowledged")] == ["1", f"{EPOCH}:1"]

    played(story)
