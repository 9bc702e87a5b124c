"""Every search has a bound: years, instants a call, and what an instant may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import numpy as np
import pytest

from itinerary.errors import ScheduleError, WindowError
from itinerary.schedules import INSTANTS_MAX, Calendar, Schedule, cron, enumerate_many, every, excluding, iso8601, union
from tests.unit.schedules.helpers import utc

YEAR = utc("2026-01-01"), utc("2027-01-01")
TOO_MANY = "the window holds more than 10,000,000 instants, the most that one call returns; ask for a shorter window"
SECONDLY = "* * * * * *"


class Vague(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        return None


@pytest.mark.spec("S9", "10 million instants a call")
@pytest.mark.parametrize(
    "schedule",
    [
        cron(SECONDLY),
        cron(SECONDLY, tz="America/New_York"),
        every("1s"),
        iso8601("R/2026-01-01T00:00Z/PT1S"),
        union(cron(SECONDLY), every("1h")),
        excluding(cron(SECONDLY), Calendar("closed", ["2026-01-01"])),
        excluding(every("1s"), Calendar("closed", ["2026-01-01"]), "next"),
    ],
    ids=str,
)
def test_a_year_of_seconds_in_one_call_is_refused(schedule: Schedule) -> None:
    with pytest.raises(WindowError, match=TOO_MANY):
        schedule.between(*YEAR)
    with pytest.raises(WindowError, match=TOO_MANY):
        enumerate_many([schedule], *YEAR)


@pytest.mark.spec("S9", "10 million instants a call")
@pytest.mark.parametrize(
    "schedules",
    [
        [cron("* * * * *")] * 20,
        [every("1m"), cron("* * * * *"), iso8601("R/2026-01-01T00:00Z/PT1M"), union(every("1m"))] * 5,
        [every(60 + n % 2) for n in range(21)],
    ],
    ids=["cron", "mixed", "every"],
)
def test_the_limit_is_of_the_call_and_not_of_each_schedule(schedules: list[Schedule]) -> None:
    with pytest.raises(WindowError, match=TOO_MANY):
        enumerate_many(schedules, *YEAR)
    _, instants = enumerate_many(schedules, utc("2026-01-01"), utc("2026-01-01T00:10"))
    assert len(instants)


@pytest.mark.spec("S9", "10 million instants a call")
def test_exactly_ten_million_are_returned() -> None:
    start, end = utc("2026-01-01"), utc("2026-01-01") + timedelta(seconds=INSTANTS_MAX)
    numbers, instants = enumerate_many([every("1s")], start, end)
    assert len(numbers) == len(instants) == INSTANTS_MAX
    assert str(numbers.dtype) == str(instants.dtype) == "int64"
    with pytest.raises(WindowError, match=TOO_MANY):
        enumerate_many([every("1s")], start, end + timedelta(seconds=1))


@pytest.mark.spec("S9", "10 million instants a call")
def test_a_gap_costs_one_instant_a_schedule_however_many_times_fall_into_it() -> None:
    lost = [cron(SECONDLY, tz="Pacific/Apia", gap="run_after", repeat="first")] * 300
    start = utc("2011-12-30T10:00")
    numbers, instants = enumerate_many(lost, start, start + timedelta(seconds=1))
    assert sorted(numbers.tolist()) == list(range(300))
    assert set(instants.tolist()) == {int(start.timestamp()) * 1_000_000}


@pytest.mark.spec("S9", "year 2199")
@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        ("1899-12-31T23:59:59", "1900-01-02", "the window starts outside the supported years 1900 to 2199"),
        ("2199-12-31", "2200-01-01T00:00:01", "the window ends outside the supported years 1900 to 2199"),
        ("0001-01-01", "9999-12-31", "the window starts outside the supported years 1900 to 2199"),
        ("2300-01-01", "2026-01-01", "the window starts outside the supported years 1900 to 2199"),
    ],
)
def test_a_window_outside_the_supported_years_is_refused(start: str, end: str, reason: str) -> None:
    for ask in (cron("@yearly").between, lambda *window: enumerate_many([], *window)):
        with pytest.raises(WindowError, match=reason):
            ask(utc(start), utc(end))
    with pytest.raises(WindowError, match="the window starts outside"):
        cron("@yearly").between(-(10**5_000), 10**5_000)


@pytest.mark.spec("S9", "year 2199")
def test_the_whole_supported_time_is_one_window() -> None:
    whole = utc("1900-01-01"), utc("2200-01-01")
    assert len(cron("@yearly").between(*whole)) == 300
    assert cron("59 23 31 12 *").next_after(utc("2198-12-31T23:59")) == utc("2199-12-31T23:59")
    assert cron("59 23 31 12 *").next_after(utc("2199-12-31T23:59")) is None
    east = cron("0 0 1 1 *", tz="Pacific/Kiritimati")
    assert east.between(*whole)[-1] == east.next_after(utc("2199-12-01")) == utc("2199-12-31T10:00"), "2200 over there"
    tokyo = cron("0 0 * * *", tz="Asia/Tokyo", start="1900-01-01")
    assert tokyo.next_after(utc("1800-01-01")) == utc("1900-01-01T15:00"), "its start is 1899 in UTC"
    assert tokyo.between(*whole)[0] == utc("1900-01-01T15:00")


@pytest.mark.spec("S13", "windows")
def test_windows_of_fractions_are_rounded_up_and_empty_ones_are_empty() -> None:
    half, second = timedelta(seconds=0.5), timedelta(seconds=1)
    start = utc("2026-01-01")
    assert every("1s").between(start - half, start + half) == [start]
    assert every("1s").between(start + half, start + second) == []
    assert every("1s").between(start, start) == []
    assert every("1s").between(start + second, start) == []
    numbers, instants = enumerate_many([], start, start + second)
    assert (len(numbers), len(instants)) == (0, 0)


@pytest.mark.spec("S9", "aware instants")
@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=Vague()), utc("2026-01-01").replace(tzinfo=None)])
def test_an_instant_without_a_zone_is_refused(value: datetime) -> None:
    for ask in (
        lambda: every("1s").next_after(value),
        lambda: every("1s").between(value, 0),
        lambda: enumerate_many([], 0, value),
    ):
        with pytest.raises(WindowError, match="2026-01-01T00:00:00 has no time zone; give an aware datetime"):
            ask()


@pytest.mark.spec("S9", "aware instants")
@pytest.mark.parametrize("value", [None, "2026-01-01", 1.5, True, np.int64(5), utc("2026-01-01").date()])
def test_what_is_no_instant_is_refused(value: object) -> None:
    with pytest.raises(WindowError, match="is no instant; give an aware datetime, or microseconds since the epoch"):
        every("1s").next_after(cast("Any", value))


@pytest.mark.spec("S9", "aware instants")
def test_an_instant_may_be_in_any_zone_or_in_microseconds() -> None:
    at = utc("2026-01-01T12:00")
    for same in (at, at.astimezone(timezone(timedelta(hours=9))), int(at.timestamp()) * 1_000_000):
        assert every("1h").next_after(same) == utc("2026-01-01T13:00")
        assert every("1h").between(same, same) == []
    found = every("1h").next_after(at)
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.spec("S3")
def test_an_end_before_its_start_is_refused_and_one_at_it_is_a_moment() -> None:
    with pytest.raises(ScheduleError, match="end 2026-01-01T00:00:00 is before start 2026-02-01T00:00:00"):
        cron("* * * * *", start="2026-02-01", end="2026-01-01")
    assert cron("* * * * *", start="2026-01-01", end="2026-01-01").between(*YEAR) == [utc("2026-01-01")]
    mixed = cron("* * * * *", tz="Asia/Tokyo", start="2026-01-01T12:00", end="2026-01-01T02:00Z")
    assert mixed.between(*YEAR) == [], "only the zone tells that this one ends before it starts"
    assert mixed.next_after(YEAR[0]) is None
