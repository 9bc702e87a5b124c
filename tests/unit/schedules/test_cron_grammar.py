"""Which cron expressions are read, and what they match."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from itinerary.schedules import Cron, cron
from itinerary.schedules.cron_parse import NICKNAMES
from tests.unit.schedules.helpers import utc

DAYS = [utc("2026-01-01T00:00") + timedelta(days=n) for n in range(365)]


def days(expression: str, start: str = "2026-01-01T00:00", end: str = "2027-01-01T00:00") -> list[str]:
    """The days on which an expression fires."""
    return [f"{at:%Y-%m-%d}" for at in cron(expression).between(utc(start), utc(end))]


def times(expression: str) -> list[str]:
    """The times at which an expression fires on one day, a Thursday."""
    return [f"{at:%H:%M:%S}" for at in cron(expression).between(utc("2026-01-01T00:00"), utc("2026-01-02T00:00"))]


@pytest.mark.spec("S1", "lists, ranges, steps")
@pytest.mark.parametrize(
    ("minute", "matched"),
    [
        ("*", range(60)),
        ("5", [5]),
        ("005", [5]),
        ("5,7,5", [5, 7]),
        ("7,5", [5, 7]),
        ("5-8", range(5, 9)),
        ("5-5", [5]),
        ("*/20", [0, 20, 40]),
        ("*/1", range(60)),
        ("10-30/10", [10, 20, 30]),
        ("10-31/10", [10, 20, 30]),
        ("5-5/3", [5]),
        ("1,10-12,*/30", [0, 1, 10, 11, 12, 30]),
        ("*/9999", [0]),
    ],
)
def test_a_field_takes_lists_ranges_and_steps(minute: str, matched: list[int]) -> None:
    assert times(f"{minute} 3 * * *") == [f"03:{number:02}:00" for number in matched]


@pytest.mark.spec("S1", "names")
@pytest.mark.parametrize("name", ["FRI", "fri", "Fri", "5"])
def test_names_of_weekdays_are_read_in_any_case(name: str) -> None:
    assert days(f"0 0 * * {name}") == [f"{day:%Y-%m-%d}" for day in DAYS if day.isoweekday() == 5]


@pytest.mark.spec("S1", "names")
@pytest.mark.parametrize(("names", "months"), [("JAN-mar/2", [1, 3]), ("dec", [12]), ("oct,Nov,2", [2, 10, 11])])
def test_names_of_months_are_read_in_any_case(names: str, months: list[int]) -> None:
    assert days(f"0 0 1 {names} *") == [f"2026-{month:02}-01" for month in months]


@pytest.mark.spec("S1", "7 = Sunday")
@pytest.mark.parametrize(
    ("written", "weekdays"),
    [
        ("7", {7}),
        ("0", {7}),
        ("SUN", {7}),
        ("0,7", {7}),
        ("5-7", {5, 6, 7}),
        ("0-7", set(range(1, 8))),
        ("1-7/2", {1, 3, 5, 7}),
        ("0-7/7", {7}),
        ("*/2", {7, 2, 4, 6}),
        ("SUN-SAT", set(range(1, 8))),
    ],
)
def test_sunday_is_nought_and_seven(written: str, weekdays: set[int]) -> None:
    assert days(f"0 0 * * {written}") == [f"{day:%Y-%m-%d}" for day in DAYS if day.isoweekday() in weekdays]


@pytest.mark.spec("S1", "OR-ed")
def test_two_restricted_days_are_either_or() -> None:
    fired = [f"{day:%Y-%m-%d}" for day in DAYS if day.day == 13 or day.isoweekday() == 5]
    assert days("0 0 13 * 5") == fired


@pytest.mark.spec("S1", "*/n counts as *")
@pytest.mark.parametrize(
    ("expression", "both"),
    [
        ("0 0 */2 * 1", lambda day: day.day % 2 == 1 and day.isoweekday() == 1),
        ("0 0 13 * */2", lambda day: day.day == 13 and day.isoweekday() in {7, 2, 4, 6}),
        ("0 0 *,13 * 5", lambda day: day.isoweekday() == 5),
    ],
)
def test_a_stepped_star_counts_as_a_star_so_both_days_must_match(
    expression: str, both: Callable[[datetime], bool]
) -> None:
    assert days(expression) == [f"{day:%Y-%m-%d}" for day in DAYS if both(day)]


@pytest.mark.spec("S1", "with a warning")
def test_what_may_surprise_is_a_warning_on_the_value() -> None:
    both = "a day field that begins with * counts as *, so day of month and day of week must both match"
    assert _warnings("0 0 */2 * 1") == (both,)
    assert _warnings("0 0 1 * */2") == (both,)
    assert _warnings("0 0 */1 * 1") == _warnings("0 0 */2 * *") == _warnings("0 0 13 * 5") == ()
    assert _warnings("*/60 * * * *") == ("minute */60 steps over the whole field and matches 0 alone",)
    assert _warnings("0 0 */31 * *") == ("day of month */31 steps over the whole field and matches 1 alone",)


def _warnings(expression: str) -> tuple[str, ...]:
    schedule = cron(expression)
    assert isinstance(schedule, Cron)
    return schedule.warnings


@pytest.mark.spec("S1", "L LW 15W 5L 5#2")
@pytest.mark.parametrize(
    ("expression", "fired"),
    [
        ("0 0 L 1-4 *", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"]),
        ("0 0 LW 1-5 *", ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"]),
        ("0 0 15W 1-3 *", ["2026-01-15", "2026-02-16", "2026-03-16"]),
        ("0 0 1W 2,3,8 *", ["2026-02-02", "2026-03-02", "2026-08-03"]),  # 1 August is a Saturday
        ("0 0 31W 1,5 *", ["2026-01-30", "2026-05-29"]),  # 31 May is a Sunday
        ("0 0 l,1w 2 *", ["2026-02-02", "2026-02-28"]),
        ("0 0 * 1-3 5L", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * 1-3 friL", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * 1-3 5#2", ["2026-01-09", "2026-02-13", "2026-03-13"]),
        ("0 0 * 1-6 5#5", ["2026-01-30", "2026-05-29"]),
        ("0 0 * 1 sun#1,7L,0#2", ["2026-01-04", "2026-01-11", "2026-01-25"]),
        ("0 0 L 1 5#1", ["2026-01-02", "2026-01-31"]),
    ],
)
def test_days_are_counted_from_the_end_and_by_weekday(expression: str, fired: list[str]) -> None:
    assert days(expression) == fired


@pytest.mark.spec("S1", "15W never leaves its month")
@pytest.mark.parametrize("day", range(1, 32))
def test_the_nearest_weekday_stays_in_its_month_and_is_never_more_than_two_days_away(day: int) -> None:
    fired = cron(f"0 0 {day}W * *").between(utc("2000-01-01T00:00"), utc("2028-01-01T00:00"))
    assert len(fired) >= 28 * 7
    for at in fired:
        assert at.isoweekday() <= 5
        assert abs(at.day - day) <= 2
        asked = at.replace(day=day)
        assert (asked.isoweekday() <= 5) == (asked == at)


@pytest.mark.spec("S1", "nicknames")
@pytest.mark.parametrize("nickname", NICKNAMES)
def test_a_nickname_is_the_expression_that_it_stands_for(nickname: str) -> None:
    named, spelt = cron(nickname.upper()), cron(NICKNAMES[nickname])
    assert str(named) == str(spelt)
    start, end = utc("2026-01-01T00:00"), utc("2028-01-01T00:00")
    assert named.between(start, end) == spelt.between(start, end) != []


@pytest.mark.spec("S2", "seconds")
def test_six_fields_begin_with_seconds() -> None:
    assert times("*/30 59 23 * * *") == ["23:59:00", "23:59:30"]
    assert times("15 0 0 * * *") == ["00:00:15"]
    assert len(times("* * * * * *")) == 86_400


@pytest.mark.spec("S2", "years to 2199")
def test_seven_fields_end_with_a_year() -> None:
    whole = ("1970-01-01T00:00", "2200-01-01T00:00")
    assert days("0 0 0 1 1 * 2026,2030-2032", *whole) == ["2026-01-01", "2030-01-01", "2031-01-01", "2032-01-01"]
    assert days("0 0 0 31 12 * 2199", *whole) == ["2199-12-31"]
    assert days("0 0 0 1 1 * 1970", *whole) == ["1970-01-01"]
    assert len(days("0 0 0 1 1 * */10", *whole)) == 23
    assert days("0 0 0 29 2 * 2096-2104", *whole) == ["2096-02-29", "2104-02-29"]


@pytest.mark.spec("S1", "whitespace")
def test_fields_are_separated_by_any_number_of_blanks() -> None:
    assert cron("  0\t5  * * 1-5 ") == cron("0 5 * * 1-5")


@pytest.mark.spec("S9", "never fires")
def test_rare_days_are_found_and_cost_no_more() -> None:
    leap_sunday = cron("0 0 29 2 */7")  # both must match: a Sunday
    assert leap_sunday.next_after(utc("2005-01-01T00:00")) == utc("2032-02-29T00:00")
    assert cron("0 0 29 2 *").next_after(utc("2096-03-01T00:00")) == utc("2104-02-29T00:00")
    assert cron("0 0 0 29 2 * 2028").next_after(datetime.max.replace(tzinfo=UTC)) is None
