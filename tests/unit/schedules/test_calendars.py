"""Calendars: dates, weekends, blackouts, and what becomes of an instant that falls there."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

from itinerary.errors import ScheduleError
from itinerary.schedules import Binding, Calendar, cron, every, excluding, from_json
from tests.unit.schedules.helpers import shown, utc

NEW_YORK = "America/New_York"
HOLIDAYS = Calendar("holidays", ["2026-12-25", date(2026, 12, 24), "2026-12-25"])


@pytest.mark.spec("S6", "exclusions: dates")
@pytest.mark.parametrize(
    ("shift", "days"),
    [
        ("skip", ["12-23", "12-26", "12-27", "12-28"]),  # Christmas Eve 2026 is a Thursday
        ("next", ["12-23", "12-26", "12-27", "12-28"]),
        ("previous", ["12-23", "12-26", "12-27", "12-28"]),
    ],
)
def test_a_date_is_skipped_or_moved_to_a_business_day(shift: str, days: list[str]) -> None:
    daily = excluding(cron("0 9 * * *", tz=NEW_YORK), HOLIDAYS, shift)
    assert [at[:5] for at in shown(daily, "2026-12-23", "2026-12-29")] == days
    eve = excluding(cron("0 9 24,25 * *", tz=NEW_YORK), HOLIDAYS, shift)
    moved = {"skip": [], "next": ["12-28 09:00-0500"], "previous": ["12-23 09:00-0500"]}
    assert shown(eve, "2026-12-01", "2027-01-20") == moved[shift], "two that move onto one count once"


@pytest.mark.spec("S6", "exclusions: dates")
def test_a_date_is_a_day_of_the_schedules_zone() -> None:
    hourly = excluding(cron("0 * * * *", tz="Asia/Tokyo"), HOLIDAYS)
    closed = sorted(
        set(cron("0 * * * *").between(utc("2026-12-20"), utc("2026-12-30")))
        - set(hourly.between(utc("2026-12-20"), utc("2026-12-30")))
    )
    assert (closed[0], closed[-1], len(closed)) == (utc("2026-12-23T15:00"), utc("2026-12-25T14:00"), 48)


@pytest.mark.spec("S6", "exclusions: weekends")
def test_weekends_are_no_target_and_closed_only_if_asked() -> None:
    daily = cron("0 9 * * *")
    week = ("2026-12-25", "2027-01-01")
    assert [at[:5] for at in shown(excluding(daily, Calendar("none")), *week)] == [f"12-{n}" for n in range(25, 32)]
    closed = Calendar("weekends", closed_on_weekends=True)
    assert [at[:5] for at in shown(excluding(daily, closed), *week)] == ["12-25", "12-28", "12-29", "12-30", "12-31"]
    friday = Calendar("gulf", ["2026-12-24"], weekend=["Fri", "SATURDAY"])
    moved = excluding(cron("0 9 24 * *"), friday, "next")
    assert [at[:5] for at in shown(moved, "2026-12-01", "2027-01-01")] == ["12-27"], "a Sunday"
    never = Calendar("no weekend", ["2026-12-25"], weekend=())
    assert [at[:5] for at in shown(excluding(cron("0 9 25 * *"), never, "next"), "2026-12-01", "2027-01-01")] == [
        "12-26"
    ]


@pytest.mark.spec("S6", "exclusions: blackouts")
def test_a_blackout_is_half_open_and_may_be_local_or_absolute() -> None:
    freeze = Calendar(
        "freeze", (), [("2026-06-01T10:00", "2026-06-01T12:00"), ("2026-06-01T20:00Z", "2026-06-01T21:00Z")]
    )
    hourly = excluding(cron("0 * * * *", tz="Asia/Tokyo"), freeze)
    passed = set(range(24)) - {int(at[6:8]) for at in shown(hourly, "2026-06-01", "2026-06-02")}
    assert passed == {10, 11}
    assert utc("2026-06-01T20:00") not in hourly.between(utc("2026-06-01"), utc("2026-06-02"))
    assert utc("2026-06-01T21:00") in hourly.between(utc("2026-06-01"), utc("2026-06-02"))


@pytest.mark.spec("S6", "exclusions: blackouts")
def test_an_instant_in_a_blackout_moves_to_the_same_time_of_a_day_without_one() -> None:
    freeze = Calendar("freeze", (), [("2026-06-01T08:00", "2026-06-03T09:00")])  # Monday to Wednesday
    assert shown(excluding(cron("0 9 1 6 *"), freeze, "next"), "2026-06-01", "2026-06-09") == ["06-03 09:00+0000"]
    assert shown(excluding(cron("30 8 1 6 *"), freeze, "next"), "2026-06-01", "2026-06-09") == ["06-04 08:30+0000"]
    assert shown(excluding(cron("0 9 1 6 *"), freeze, "previous"), "2026-05-01", "2026-06-09") == ["05-29 09:00+0000"]


@pytest.mark.spec("S6", "exclusions: blackouts")
def test_what_moves_out_of_a_long_blackout_is_found_from_any_window() -> None:
    years = Calendar("years", (), [("2020-01-01", "2022-06-01")], weekend=())
    moved = excluding(cron("0 9 15 3 *"), years, "next")
    assert moved.between(utc("2019-12-01"), utc("2023-01-01")) == [utc("2022-06-01T09:00")], "15 March of 2022 alone"
    assert moved.between(utc("2022-06-01"), utc("2022-06-02")) == [utc("2022-06-01T09:00")]
    assert moved.next_after(utc("2022-05-31")) == utc("2022-06-01T09:00")
    assert moved.next_after(utc("2019-06-01")) == utc("2022-06-01T09:00")


@pytest.mark.spec("S9", "every search has a bound")
def test_a_closure_of_three_hundred_years_is_passed_in_one_step() -> None:
    always = Calendar("always", (), [("1900-01-01", "2199-12-30")])
    for shift in ("skip", "next"):
        assert excluding(cron("0 9 * * *"), always, shift).next_after(utc("1900-02-01")) == utc("2199-12-30T09:00")
    assert excluding(cron("0 9 * * *", end="2100-01-01"), always, "previous").next_after(utc("1900-02-01")) is None


@pytest.mark.spec("S6", "exclusions: next and previous business day")
def test_a_day_that_a_zone_jumped_over_is_no_business_day() -> None:
    closed = Calendar("closed", ["2011-12-29"])  # a Thursday; Samoa had no Friday that week
    moved = excluding(cron("0 9 29 12 *", tz="Pacific/Apia"), closed, "next")
    assert shown(moved, "2011-12-28", "2012-01-09") == ["01-02 09:00+1400"]


@pytest.mark.spec("S8", "the schedule's, else the job's")
def test_the_zone_of_an_exclusion_is_that_of_its_schedule_unless_it_has_its_own() -> None:
    outer = excluding(cron("0 9 * * *"), HOLIDAYS, tz=NEW_YORK)
    assert outer.next_after(utc("2026-06-01")) == utc("2026-06-01T13:00")
    inner = excluding(cron("0 9 * * *", tz=NEW_YORK), HOLIDAYS)
    assert inner.between(utc("2026-12-23"), utc("2026-12-28")) == outer.between(utc("2026-12-23"), utc("2026-12-28"))
    assert str(outer) == str(inner) == "At 09:00, America/New_York, except on holidays"


@pytest.mark.spec("S6", "named calendars")
def test_a_named_calendar_is_filled_in_when_the_schedule_is_bound() -> None:
    named = excluding(every("1h"), "holidays", "next")
    assert from_json(named.to_json()) == named
    with pytest.raises(ScheduleError, match="calendar 'holidays' is named and not known yet; register it, or give a"):
        named.between(0, 1)
    bound = named.bind(Binding("job", NEW_YORK, calendars={"holidays": HOLIDAYS}))
    assert bound.calendar == HOLIDAYS
    assert bound == excluding(every("1h", tz=NEW_YORK), HOLIDAYS, "next", tz=NEW_YORK)
    unknown = named.bind(Binding("job", calendars={"other": HOLIDAYS}))
    assert unknown.open_question() == (
        "calendar 'holidays' is named and not known yet; register it, or give a Calendar"
    )


@pytest.mark.spec("S6", "named calendars")
def test_a_calendar_is_a_value_in_one_spelling() -> None:
    same = Calendar("holidays", [date(2026, 12, 25), "2026-12-24"], weekend=["sun", "Saturday"])
    assert same == HOLIDAYS
    assert hash(same) == hash(HOLIDAYS)
    rich = Calendar("rich", ["2026-01-01"], [("2026-01-01", "2026-01-02T03:04:05Z")], ["fri"], closed_on_weekends=True)
    assert Calendar.from_json(rich.to_json()) == rich
    assert Calendar("bare").to_json() == {"name": "bare"}


@pytest.mark.spec("S6", "refused calendars")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "calendar: a name is missing"),
        ({"name": ""}, "a calendar's name is text of 1 to 255 characters, not ''"),
        ({"name": 5}, "a calendar's name is text of 1 to 255 characters, not 5"),
        ({"name": "x", "days": []}, "calendar: key 'days' is unknown; allowed are name, dates, blackouts, weekend, "),
        ({"name": "x", "dates": "2026-01-01"}, "calendar 'x': dates is a list, not '2026-01-01'"),
        ({"name": "x", "dates": None}, "calendar 'x': dates is a list, not None"),
        ({"name": "x", "dates": [5]}, "calendar 'x': 5 is no date; write it as 2026-12-25"),
        ({"name": "x", "dates": ["tomorrow"]}, "calendar 'x': 'tomorrow' is no date; write it as 2026-12-25"),
        ({"name": "x", "dates": [datetime(2026, 1, 1, tzinfo=UTC)]}, "is no date; write it as 2026-12-25"),
        ({"name": "x", "blackouts": {"a": "b"}}, "calendar 'x': blackouts is a list, not {'a': 'b'}"),
        ({"name": "x", "blackouts": [5]}, "calendar 'x': blackout 5 is no pair of moments"),
        ({"name": "x", "blackouts": [["2026-01-01"]]}, "calendar 'x': blackout ['2026-01-01'] is no pair of moments"),
        ({"name": "x", "blackouts": [["a", "b"]]}, "calendar 'x': blackout: 'a' is no ISO 8601 moment to the second"),
        (
            {"name": "x", "blackouts": [["2026-01-02", "2026-01-02"]]},
            "calendar 'x': blackout ends at 2026-01-02T00:00:00, which is not after its start 2026-01-02T00:00:00",
        ),
        (
            {"name": "x", "weekend": ["caturday"]},
            "calendar 'x': weekend day 'caturday' is unknown; allowed are monday, ",
        ),
        ({"name": "x", "weekend": "sunday"}, "calendar 'x': weekend is a list, not 'sunday'"),
        ({"name": "x", "weekend": [None]}, "calendar 'x': weekend day None is unknown"),
        (
            {"name": "x", "weekend": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
            "calendar 'x' has seven days of weekend; leave at least one business day",
        ),
        ({"name": "x", "closed_on_weekends": "yes"}, "calendar 'x': closed_on_weekends is true or false, not 'yes'"),
    ],
)
def test_a_calendar_that_cannot_be_meant_is_refused_with_the_reason(data: dict[str, Any], reason: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(reason)):
        from_json({"excluding": data, "schedule": "* * * * *"})


@pytest.mark.spec("S6", "refused calendars")
def test_an_exclusion_needs_a_schedule_a_calendar_and_a_known_shift() -> None:
    with pytest.raises(ScheduleError, match="excluding needs a schedule, not str"):
        excluding(cast("Any", "* * * * *"), HOLIDAYS)
    with pytest.raises(ScheduleError, match="excluding needs a Calendar or the name of one, not ''"):
        excluding(every("1m"), "")
    with pytest.raises(ScheduleError, match="shift 'later' is unknown; allowed are skip, next, previous"):
        excluding(every("1m"), HOLIDAYS, "later")
    many = [date(1900, 1, 1) + timedelta(days=n) for n in range(10_001)]
    with pytest.raises(ScheduleError, match="calendar 'many' has 10001 entries; at most 10000 are allowed"):
        Calendar("many", many)
