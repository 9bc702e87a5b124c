"""What cycles decide, from a log in plain Python (E1, E2, E4, E6)."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from itinerary.errors import ConfigError, RecordError
from itinerary.records.cycle import Backpressure
from itinerary.records.event_types import DATA_MAX, acknowledged, produced, read_fields, verified
from itinerary.records.projection import Projection
from itinerary.records.settings import DeskSettings, read_desk_settings
from tests.unit.records.book import Book


def queued(book: Book) -> list[tuple[str, bool, int]]:
    """Each record that was queued: whether as a retry, and the how manieth time."""
    found = []
    for row in book.rows:
        if row.kind == "RecordQueued":
            said = read_fields(row)
            found.append((row.record, said.retry, said.times))
    return found


def state_of(known: Projection) -> Any:
    """Everything that is known, to compare."""
    known.advance(10**9)
    return (
        known._records,
        {name: (batch.records, batch.attempts) for name, batch in known.batches.items()},
        known.queue_size,
        known.new_backlog,
        known.callback_backlog,
        known.verification_backlog,
        known._callbacks,
        known._verifications,
        known.triggered,
        {record: sorted(waiting) for record, waiting in known._parked.items()},
        sorted(known._due_callbacks),
        sorted(known._due_verifications),
        list(known.new_records()),
    )


# -- queueing ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E4")
def test_new_records_are_queued_once_in_batches_of_at_most_fifty() -> None:
    book = Book()
    for number in range(120):
        book.say("RecordCreated", f"F-{number}", data={"guest": number})
    book.cycle(0)
    assert [record for record, *_ in queued(book)] == [f"F-{number}" for number in range(120)]
    assert [len(batch.records) for batch in book.known.batches.values()] == [50, 50, 20]
    assert book.cycle(1) == []


@pytest.mark.spec("E4")
def test_a_record_created_twice_is_queued_once() -> None:
    book = Book()
    book.say("RecordCreated", "F-1", key="import 1")
    book.say("RecordCreated", "F-1", key="import 2")
    book.cycle(0)
    book.say("RecordCreated", "F-1", key="import 3")
    book.cycle(0)
    book.work_off()
    book.say("RecordCreated", "F-1", key="import 4")
    assert book.cycle(0) == []
    assert queued(book) == [("F-1", False, 1)]


@pytest.mark.spec("E4")
def test_a_callback_is_queued_again_when_its_time_has_come_with_the_retry_flag() -> None:
    book = Book()
    book.say("RecordCreated", "F-1")
    book.cycle(0)
    book.work_off()
    book.say("CallbackScheduled", "F-1", target_time=100)
    book.say("CallbackScheduled", "F-1", target_time=100)
    book.say("CallbackScheduled", "F-1", target_time=200)
    assert book.cycle(99) == []
    book.cycle(100)
    book.work_off()
    assert book.cycle(199) == []
    book.cycle(200)
    assert queued(book) == [("F-1", False, 1), ("F-1", True, 2), ("F-1", True, 3)]


@pytest.mark.spec("E4")
def test_a_callback_of_a_record_that_is_in_the_queue_waits_until_that_is_done_with() -> None:
    book = Book()
    book.say("RecordCreated", "F-1")
    book.say("CallbackScheduled", "F-1", target_time=1)
    book.say("CallbackScheduled", "F-1", target_time=2)
    for _ in range(3):
        book.cycle(10)
        assert book.known.queue_size == 1, "at most once at a time"
        assert book.cycle(10) == []
        book.work_off()
    assert queued(book) == [("F-1", False, 1), ("F-1", True, 2), ("F-1", True, 3)]
    assert book.cycle(10) == []


@pytest.mark.spec("E4")
def test_what_is_due_and_cannot_be_done_yet_costs_a_cycle_nothing() -> None:
    book = Book()
    for number in range(1_000):
        book.say("CallbackScheduled", f"never created {number}", target_time=1)
        book.say("VerificationScheduled", f"never created {number}", check_time=1)
    book.say("RecordCreated", "F-1")
    for at in range(1, 50):
        book.say("CallbackScheduled", "F-1", target_time=at)
    book.cycle(100)
    assert (list(book.known.due_callbacks(100)), list(book.known.due_verifications(100))) == ([], [])
    book.work_off()
    assert len(list(book.known.due_callbacks(100))) == 49
    book.cycle(100)
    assert list(book.known.due_callbacks(100)) == []


@pytest.mark.spec("E2")
def test_a_callback_that_is_said_before_its_record_waits_for_it() -> None:
    book = Book()
    book.say("CallbackScheduled", "F-1", target_time=1)
    book.say("VerificationScheduled", "F-1", check_time=1, verification="email")
    assert book.cycle(10) == []
    book.say("RecordCreated", "F-1")
    book.cycle(10)
    book.work_off()
    book.cycle(10)
    assert queued(book) == [("F-1", False, 1), ("F-1", True, 2)]
    assert ("VerificationTriggered", "F-1") in book.kinds()


@pytest.mark.spec("E4")
def test_a_verification_is_triggered_once_and_again_for_another_kind_or_time() -> None:
    book = Book()
    book.say("RecordCreated", "F-1")
    book.say("VerificationScheduled", "F-1", check_time=5, verification="email")
    book.say("VerificationScheduled", "F-1", check_time=5, verification="email")
    book.say("VerificationScheduled", "F-1", check_time=5, verification="call")
    book.cycle(4)
    assert not book.known.triggered
    book.cycle(5)
    assert [(one.kind, one.record) for one in book.known.triggered] == [("call", "F-1"), ("email", "F-1")]
    assert book.known.verification_backlog == 2
    book.work_off()
    assert book.known.verification_backlog == 0
    book.say("VerificationScheduled", "F-1", check_time=5, verification="email")
    assert book.cycle(6) == []


@pytest.mark.spec("E4")
@pytest.mark.parametrize("when", ["before it is created", "new", "queued", "done with"])
def test_a_record_completed_while_its_callback_or_verification_waits_never_comes_back(when: str) -> None:
    book = Book()
    book.say("CallbackScheduled", "F-1", target_time=5)
    book.say("VerificationScheduled", "F-1", check_time=5)
    if when != "before it is created":
        book.say("RecordCreated", "F-1")
    if when in ("queued", "done with"):
        book.cycle(0)
    if when == "done with":
        book.work_off()
    emitted = len(book.rows)
    book.say("RecordCompleted", "F-1", final_status="paid")
    book.say("RecordCreated", "F-1")
    book.say("CallbackScheduled", "F-1", target_time=6)
    book.say("VerificationScheduled", "F-1", check_time=6)
    said = len(book.rows)
    book.cycle(10)
    known = book.known
    assert len(book.rows) == said > emitted
    assert (known.queue_size, known.new_backlog, known.callback_backlog, known.verification_backlog) == (0, 0, 0, 0)
    assert [list(batch.records) for batch in known.batches.values()] == ([[]] if when == "queued" else [])


# -- pressure ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E6")
def test_the_queue_passes_its_threshold_by_less_than_a_batch_and_resumes_below_the_lower_one() -> None:
    book = Book(DeskSettings(enable_early_morning_skip=False, queue_high=100, queue_low=40, batch_size_max=30))
    for number in range(1_000):
        book.say("RecordCreated", f"F-{number}")
    sizes = []
    for turn in range(200):
        book.cycle(0)
        sizes.append(book.known.queue_size)
        assert book.known.queue_size <= 100 + 30
        before = book.known.queue_size
        oldest = next(iter(book.known.batches), None)
        if oldest is None:
            break
        book.add([acknowledged(oldest)])
        if book.pressure.is_paused and before - 30 >= 40:
            assert book.cycle(0) == [], f"turn {turn}: it is paused until there are fewer than 40"
    assert max(sizes) == 120
    assert len(queued(book)) == 1_000, "and nothing is lost"


@pytest.mark.spec("E6")
def test_pressure_has_two_thresholds() -> None:
    pressure = Backpressure(DeskSettings(queue_high=10, queue_low=5))
    rooms = [pressure.room(size) for size in (0, 10, 11, 10, 5, 4, 10, 11)]
    assert rooms == [11, 1, 0, 0, 0, 7, 1, 0]


@pytest.mark.spec("E6")
def test_callbacks_are_held_back_by_pressure_too() -> None:
    book = Book(DeskSettings(enable_early_morning_skip=False, queue_high=3, queue_low=2, batch_size_max=2))
    for number in range(10):
        book.say("RecordCreated", f"F-{number}")
    while book.read().new_backlog or book.known.batches:
        book.cycle(0)
        book.work_off()
    for number in range(10):
        book.say("CallbackScheduled", f"F-{number}", target_time=1)
    book.cycle(5)
    assert book.known.queue_size == 4
    assert book.cycle(5) == []


# -- replaying ---------------------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("RecordCreated"), st.integers(0, 3), st.just({})),
    st.tuples(st.just("RecordCompleted"), st.integers(0, 3), st.just({})),
    st.tuples(
        st.just("CallbackScheduled"), st.integers(0, 3), st.fixed_dictionaries({"target_time": st.integers(1, 6)})
    ),
    st.tuples(
        st.just("VerificationScheduled"),
        st.integers(0, 3),
        st.fixed_dictionaries({"check_time": st.integers(1, 6), "verification": st.sampled_from(["email", "call"])}),
    ),
    st.tuples(st.just("cycle"), st.integers(0, 8), st.just({})),
    st.tuples(st.just("work off"), st.just(0), st.just({})),
)


def play(steps: list[tuple[str, int, dict[str, Any]]]) -> Book:
    book = Book(DeskSettings(enable_early_morning_skip=False, batch_size_max=2, queue_high=4, queue_low=2))
    for what, number, fields in steps:
        if what == "cycle":
            book.cycle(number)
        elif what == "work off":
            book.work_off()
        else:
            book.say(what, f"F-{number}", **fields)
    return book


@pytest.mark.spec("E1")
@given(st.lists(STEPS, max_size=40))
def test_replaying_the_log_from_zero_gives_the_same_state_and_emits_nothing_new(steps: list[Any]) -> None:
    book = play(steps)
    book.read()
    for _ in range(3):
        assert state_of(book.replayed()) == state_of(book.known)
    while book.cycle(10) or book.known.batches or book.known.triggered:
        book.work_off()
    book.known = book.replayed()
    assert book.cycle(10) == []


@pytest.mark.spec("E2")
@given(st.lists(STEPS.filter(lambda step: step[0] not in ("cycle", "work off")), max_size=15), st.randoms())
def test_events_out_of_order_and_duplicated_deliver_the_same_result(steps: list[Any], dice: Any) -> None:
    disorder = [*steps, *dice.sample(steps, len(steps) // 2)]
    dice.shuffle(disorder)
    results = []
    for said in (steps, disorder):
        book = play(said)
        while book.cycle(10) or book.known.batches or book.known.triggered:
            book.work_off()
        emitted = sorted(
            (row.kind, row.record, said.retry, said.times) if row.kind == "RecordQueued" else (row.kind, row.record)
            for row in book.rows
            if row.kind in ("RecordQueued", "VerificationTriggered", "VerificationCompleted")
            for said in [read_fields(row)]
        )
        results.append((emitted, book.known.callback_backlog, book.known.verification_backlog, book.known.new_backlog))
    assert results[0] == results[1]


# -- what may be said --------------------------------------------------------------------------------------------------


@pytest.mark.spec("E2")
@pytest.mark.parametrize(
    ("kind", "record", "fields", "why"),
    [
        ("RecordQueued", "F-1", {}, "is written by the desk itself"),
        ("RecordMade", "F-1", {}, "is no kind of event; append one of RecordCreated"),
        ("RecordCreated", "", {}, "record is empty"),
        ("RecordCreated", "F\x00", {}, "U\\+0000"),
        ("RecordCreated", "F-1", {"dat": 1}, "unknown field `dat`; it takes data"),
        ("RecordCreated", "F-1", {"data": object()}, "it takes data"),
        ("RecordCreated", "F-1", {"data": "x" * DATA_MAX}, "bytes of JSON"),
        ("RecordCreated", "F-1", {"data": "a\x00b"}, "U\\+0000"),
        ("CallbackScheduled", "F-1", {}, "missing required field `target_time`"),
        ("CallbackScheduled", "F-1", {"target_time": "soon"}, "'soon' is no time"),
        ("CallbackScheduled", "F-1", {"target_time": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ("CallbackScheduled", "F-1", {"target_time": True}, "is no time"),
        ("CallbackScheduled", "F-1", {"target_time": 10**18}, "outside the supported years"),
        ("VerificationScheduled", "F-1", {"check_time": 1, "verification": "a/b"}, "has a '/'"),
        ("RecordCompleted", "F-1", {"final_status": 3}, "Expected `str | null`"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(kind: str, record: str, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RecordError, match=why):
        produced(kind, record, fields, "key")


@pytest.mark.parametrize("huge", ["x" * 50_000_000, [None] * 2_000_000, {"a": [b"x" * 50_000_000]}])
def test_huge_data_of_a_record_is_refused_before_it_is_encoded(huge: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match=r"at least \d+ bytes of JSON"):
            produced("RecordCreated", "F-1", {"data": huge}, "key")
        with pytest.raises(RecordError, match=r"at least \d+ bytes of JSON"):
            verified("F-1", 1, "email", huge)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.spec("E2")
def test_a_time_may_be_written_as_text_or_as_a_datetime_of_any_zone() -> None:
    at = datetime(2026, 3, 1, 9, tzinfo=UTC)
    said = [
        produced("CallbackScheduled", "F-1", {"target_time": value}, "key").data
        for value in (at, "2026-03-01T10:00:00+01:00", at.astimezone(timezone.max), 1_772_355_600_000_000)
    ]
    assert set(said) == {'{"target_time":1772355600000000}'}


def test_a_result_that_is_not_json_is_refused() -> None:
    with pytest.raises(RecordError, match="returned a value of type 'object', which is not JSON"):
        verified("F-1", 1, "email", object())


def test_an_event_that_cannot_be_read_is_passed_over_and_told() -> None:
    book = Book()
    book.say("RecordCreated", "F-1")
    book.say("CallbackScheduled", "F-1", target_time=1)
    damaged = [replace(row, data='{"target_time": "soon"}') if row.sequence == 2 else row for row in book.rows]
    known = Projection("here")
    (error,) = known.fold(damaged)
    assert "event 2 of desk, CallbackScheduled of 'F-1'" in str(error)
    assert (known.new_backlog, known.callback_backlog) == (1, 0)


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E4", "settings")
def test_settings_have_the_defaults_of_the_source_but_for_its_quiet_hours() -> None:
    second = 1_000_000
    settings = read_desk_settings({})
    assert (settings.schedule_interval, settings.callback_check_interval) == (30 * second, 10 * second)
    assert (settings.verification_check_interval, settings.startup_delay) == (60 * second, 5 * second)
    assert (settings.batch_size_max, settings.queue_high, settings.queue_low) == (50, 1_000, 500)
    assert (settings.lease_for, settings.quiet_hours, settings.warnings()) == (30 * second, 6, [])


@pytest.mark.parametrize(
    ("given_settings", "why"),
    [
        ({"batch_size": 5}, "did you mean 'batch_size_max'"),
        ({"batch_size_max": 0}, "batch_size_max: 0 is out of range"),
        ({"early_morning_start_hour": 24}, "early_morning_start_hour: 24 is out of range 0-23"),
        ({"enable_early_morning_skip": "yes"}, "neither true nor false"),
        ({"queue_high": 10, "queue_low": 20}, "queue_low .20. must not be above queue_high .10."),
        ({"schedule_interval": "1ms"}, "schedule_interval"),
    ],
)
def test_settings_that_cannot_be_are_refused(given_settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_desk_settings(given_settings)
