"""`once` and `every`: one instant, and a steady row of them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import DurationError, ScheduleError
from itinerary.schedules import Binding, DurationLike, every, from_json, once
from tests.unit.schedules.helpers import examples, utc

START, END = utc("1900-01-01"), utc("2200-01-01")
NAIVE = utc("2026-07-01").replace(tzinfo=None)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "written",
    [
        "2026-12-31T23:59:00Z",
        "2026-12-31T23:59Z",
        "20261231T235900Z",
        "2026-12-31t23:59:00z",
        "2027-01-01T00:59+01:00",
        "2026-12-31 23:59:00+00",
        datetime(2026, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2027, 1, 1, 8, 59, tzinfo=timezone(timedelta(hours=9))),
        datetime(2026, 12, 31, 18, 59, tzinfo=ZoneInfo("America/New_York")),
    ],
)
def test_a_single_instant_fires_once_and_then_never_again(written: str | datetime) -> None:
    schedule, instant = once(written, tz="Asia/Tokyo"), utc("2026-12-31T23:59")
    assert schedule.between(START, END) == [instant]
    assert schedule.next_after(START) == instant
    assert schedule.next_after(instant - timedelta(microseconds=1)) == instant
    assert schedule.next_after(instant) is None


@pytest.mark.spec("S5")
@pytest.mark.parametrize("written", ["2026-07-01T00:00", "2026-07-01", date(2026, 7, 1), NAIVE])
def test_a_moment_without_an_offset_is_read_on_the_wall_clock(written: str | date) -> None:
    assert once(written).between(START, END) == [utc("2026-07-01T00:00")]
    assert once(written, tz="Asia/Tokyo").between(START, END) == [utc("2026-06-30T15:00")]
    assert once(written).bind(Binding("job", "America/New_York")).between(START, END) == [utc("2026-07-01T04:00")]


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("soon", "once: 'soon' is no ISO 8601 moment to the second, such as 2026-01-31T09:00 or …T09:00:00Z"),
        ("2026-02-30", "once: '2026-02-30' is no date or time: day is out of range for month"),
        ("2026-01-01T25:00", "once: '2026-01-01T25:00' is no date or time: "),
        ("2026-01-01T00:00+25:00", "once: '2026-01-01T00:00+25:00' is no date or time: "),
        ("x" * 1_000, f"once: '{'x' * 40}…' is no ISO 8601 moment"),
        ("2026-01-01T00:00:00.5Z", "once: '2026-01-01T00:00:00.5Z' is no ISO 8601 moment"),
        (datetime(2026, 1, 1, 0, 0, 0, 5, UTC), "once: 2026-01-01T00:00:00.000005+00:00 is not a whole second"),
        ("1899-12-31T23:59:59Z", "once: 1899-12-31T23:59:59Z lies outside the supported years 1900 to 2199"),
        ("2200-01-01", "once: 2200-01-01 lies outside the supported years 1900 to 2199"),
        ("0001-01-01T00:00+14:00", "once: 0001-01-01T00:00+14:00 lies outside the supported years 1900 to 2199"),
        (5, "once: 5 is no moment; write ISO 8601 such as 2026-01-31T09:00, or give a datetime"),
        (None, "once: None is no moment"),
        ([2026], "once: [2026] is no moment"),
    ],
)
def test_a_moment_that_cannot_be_read_is_refused_with_the_reason(written: object, reason: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(reason)}"):
        once(cast("Any", written))


@pytest.mark.spec("S5")
def test_one_instant_is_never_two() -> None:
    with pytest.raises(ScheduleError, match="repeat 'both' makes two instants of one; once allows first or second"):
        once("2026-11-01T01:30", tz="America/New_York", repeat="both")


@pytest.mark.spec("S5")
def test_the_first_and_the_last_supported_second_can_be_met() -> None:
    for written in ("1900-01-01T00:00:00Z", "2199-12-31T23:59:59Z"):
        assert once(written).between(START, END) == [datetime.fromisoformat(written)]
        assert once(written).next_after(START - timedelta(seconds=1)) == datetime.fromisoformat(written)


@pytest.mark.spec("S6", "multiples of the interval since the epoch")
@examples(300)
@given(interval=st.integers(1, 10**7), at=st.integers(-(2**31), 7 * 10**9))
def test_without_a_start_instants_are_multiples_of_the_interval_since_the_epoch(interval: int, at: int) -> None:
    schedule = every(interval)
    if not -2_208_988_800 <= at < 7_258_118_400 - interval:
        return
    found = schedule.next_after(at * 1_000_000)
    assert found is not None
    seconds = int(found.timestamp())
    assert seconds % interval == 0
    assert 0 < seconds - at <= interval


@pytest.mark.spec("S6", "since a given start")
def test_with_a_start_they_count_from_there() -> None:
    schedule = every("6h", start="2026-01-01T03:00Z", end="2026-01-02T03:00Z")
    assert [at.hour for at in schedule.between(START, END)] == [3, 9, 15, 21, 3]
    local = every("6h", start="2026-01-01T03:00", tz="Asia/Tokyo", end="2026-01-01T10:00")
    assert local.between(START, END) == [utc("2025-12-31T18:00"), utc("2026-01-01T00:00")]


@pytest.mark.spec("S6", "every")
def test_an_interval_is_real_time_over_a_dst_change() -> None:
    daily = every("1d", start="2026-03-07T09:00", tz="America/New_York")
    assert daily.between(utc("2026-03-07"), utc("2026-03-10")) == (
        [utc("2026-03-07T14:00"), utc("2026-03-08T14:00"), utc("2026-03-09T14:00")]
    )


@pytest.mark.spec("S6", "every")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("0s", "duration '0s' is too short; at least 1s is required"),
        (0, "duration 0 is too short; at least 1s is required"),
        (-1, "duration -1 is negative; give 0 or more"),
        ("500ms", "duration '500ms' is too short; at least 1s is required"),
        ("1.5s", "duration '1.5s' is not a whole number of seconds"),
        (timedelta(seconds=1, microseconds=1), "is not a whole number of seconds"),
        ("P1M", "duration 'P1M' has years or months, whose length varies; use days or less"),
    ],
)
def test_an_interval_of_nothing_or_of_fractions_is_refused(written: DurationLike, reason: str) -> None:
    with pytest.raises(DurationError, match=re.escape(reason)):
        every(written)


@pytest.mark.spec("S6", "every")
def test_a_stored_interval_cannot_smuggle_in_what_is_refused() -> None:
    with pytest.raises(DurationError):
        from_json({"every": "0s"})
    with pytest.raises(ScheduleError, match="every 0s: the interval must be whole seconds, at least one"):
        type(every("1s"))(0)


@pytest.mark.spec("S6", "jitter")
@pytest.mark.parametrize("jitter", ["90s", 90, timedelta(minutes=1.5), "PT90S"])
def test_jitter_is_kept_and_moves_no_instant(jitter: DurationLike) -> None:
    plain, jittered = every("1h"), every("1h", jitter=jitter)
    assert jittered.jitter == 90_000_000
    assert jittered.to_json() == {"every": "1h", "jitter": "1m30s"}
    assert jittered.between(utc("2026-01-01"), utc("2026-01-02")) == plain.between(utc("2026-01-01"), utc("2026-01-02"))
    assert jittered != plain


@pytest.mark.spec("S6", "jitter")
@pytest.mark.parametrize("jitter", ["", None, [], "-1s", -1, False, float("nan")])
def test_a_jitter_that_is_no_duration_is_refused(jitter: object) -> None:
    with pytest.raises(DurationError):
        every("1h", jitter=cast("Any", jitter))


@pytest.mark.spec("S8", "every kind")
def test_a_single_instant_takes_no_choice_that_could_have_no_effect() -> None:
    with pytest.raises(ScheduleError, match="is an instant, and no DST change touches it; leave out gap and repeat"):
        once("2026-01-01T00:00:00Z", gap="skip")
