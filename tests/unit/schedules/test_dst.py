"""What happens in a gap and in a repeated hour, on nights that people remember."""

from __future__ import annotations

import pytest

from itinerary.schedules import cron, every, iso8601, once, union
from tests.unit.schedules.helpers import shown, utc

NEW_YORK, LORD_HOWE, ST_JOHNS = "America/New_York", "Australia/Lord_Howe", "America/St_Johns"
APIA, CASABLANCA = "Pacific/Apia", "Africa/Casablanca"

GAPS = [
    (NEW_YORK, "30 2 * * *", "2026-03-08", "run_after", ["03-08 03:00-0400"]),
    (NEW_YORK, "30 2 * * *", "2026-03-08", "skip", []),
    (NEW_YORK, "15,45 2 * * *", "2026-03-08", "run_after", ["03-08 03:00-0400"]),
    (NEW_YORK, "0,30 2,3 * * *", "2026-03-08", "run_after", ["03-08 03:00-0400", "03-08 03:30-0400"]),
    (NEW_YORK, "0,30 2,3 * * *", "2026-03-08", "skip", ["03-08 03:00-0400", "03-08 03:30-0400"]),
    (NEW_YORK, "59 1 * * *", "2026-03-08", "run_after", ["03-08 01:59-0500"]),
    (LORD_HOWE, "15 2 * * *", "2026-10-04", "run_after", ["10-04 02:30+1100"]),
    (LORD_HOWE, "15 2 * * *", "2026-10-04", "skip", []),
    (LORD_HOWE, "45 2 * * *", "2026-10-04", "run_after", ["10-04 02:45+1100"]),
    (ST_JOHNS, "30 0 * * *", "2010-03-14", "run_after", ["03-14 01:01-0230"]),
    (ST_JOHNS, "30 0 * * *", "2010-03-14", "skip", []),
    (ST_JOHNS, "0 0 * * *", "2010-03-14", "run_after", ["03-14 00:00-0330"]),
    (APIA, "0 9 30 12 *", "2011-12-31", "run_after", ["12-31 00:00+1400"]),
    (APIA, "0 9 30 12 *", "2011-12-31", "skip", []),
    (APIA, "0 9 * * *", "2011-12-31", "run_after", ["12-31 00:00+1400", "12-31 09:00+1400"]),
    (APIA, "0 9 * * *", "2011-12-31", "skip", ["12-31 09:00+1400"]),
    (CASABLANCA, "30 2 * * *", "2026-03-22", "run_after", ["03-22 03:00+0100"]),
    (CASABLANCA, "30 2 * * *", "2026-03-22", "skip", []),
]

REPEATS = [
    (NEW_YORK, "30 1 * * *", "2026-11-01", "11-01 01:30", ("-0400", "-0500")),
    (LORD_HOWE, "45 1 * * *", "2026-04-05", "04-05 01:45", ("+1100", "+1030")),
    (ST_JOHNS, "30 23 * * *", "2010-11-06", "11-06 23:30", ("-0230", "-0330")),
    (ST_JOHNS, "0 0 * * *", "2010-11-07", "11-07 00:00", ("-0230", "-0330")),
    (CASABLANCA, "30 2 * * *", "2026-02-15", "02-15 02:30", ("+0100", "+0000")),
]


@pytest.mark.spec("S8", "gap")
@pytest.mark.parametrize(("zone", "expression", "day", "gap", "instants"), GAPS)
def test_a_time_that_a_night_lacks_runs_after_the_gap_or_not_at_all(
    zone: str, expression: str, day: str, gap: str, instants: list[str]
) -> None:
    assert shown(cron(expression, tz=zone, gap=gap), day, f"{day}T23:59:59") == instants
    if gap == "run_after":
        assert shown(cron(expression, tz=zone), day, f"{day}T23:59:59") == instants, "the default for fixed times"


@pytest.mark.spec("S8", "repeat")
@pytest.mark.parametrize(("zone", "expression", "day", "reading", "offsets"), REPEATS)
def test_a_time_that_a_night_has_twice_runs_first_second_or_both_times(
    zone: str, expression: str, day: str, reading: str, offsets: tuple[str, str]
) -> None:
    first, second = (reading + offset for offset in offsets)
    choices = {"first": [first], "second": [second], "both": [first, second], None: [first]}
    for repeat, instants in choices.items():
        found = shown(cron(expression, tz=zone, repeat=repeat), day, next_noon(day))
        assert [at for at in found if at.startswith(reading)] == instants


def next_noon(day: str) -> str:
    """Late enough to see both passes of a time shortly before midnight."""
    return f"{day[:-2]}{int(day[-2:]) + 1:02}T12:00"


@pytest.mark.spec("S8", "wildcards follow real time")
def test_wildcards_follow_real_time_neither_doubled_nor_lost() -> None:
    half_hourly = cron("*/30 * * * *", tz=NEW_YORK)
    assert shown(half_hourly, "2026-03-08T01:00", "2026-03-08T04:00") == (
        ["03-08 01:00-0500", "03-08 01:30-0500", "03-08 03:00-0400", "03-08 03:30-0400"]
    )
    assert shown(half_hourly, "2026-11-01T00:30", "2026-11-01T02:30") == (
        [
            *("11-01 00:30-0400", "11-01 01:00-0400", "11-01 01:30-0400"),
            *("11-01 01:00-0500", "11-01 01:30-0500", "11-01 02:00-0500"),
        ]
    )


@pytest.mark.spec("S8", "wildcards follow real time")
@pytest.mark.parametrize("expression", ["*/20 * * * *", "0 * * * *", "17 */1 * * *", "* * * * *", "*/15 * * * * *"])
@pytest.mark.parametrize(
    ("zone", "around"),
    [
        *((NEW_YORK, "2026-03-08T06:00"), (NEW_YORK, "2026-11-01T05:00"), (APIA, "2011-12-30T09:00")),
        *((CASABLANCA, "2026-02-15T01:00"), (CASABLANCA, "2026-03-22T01:00")),
    ],
)
def test_whole_hour_shifts_leave_a_steady_wildcard_steady(expression: str, zone: str, around: str) -> None:
    start, end = utc(around), utc(around).replace(hour=utc(around).hour + 3)
    assert cron(expression, tz=zone).between(start, end) == cron(expression).between(start, end)


@pytest.mark.spec("S8", "shifts of any size")
def test_half_an_hour_on_lord_howe_follows_the_wall_clock() -> None:
    hourly = cron("0 * * * *", tz=LORD_HOWE)
    assert shown(hourly, "2026-10-04T01:00", "2026-10-04T04:00") == ["10-04 01:00+1030", "10-04 03:00+1100"]
    assert shown(hourly, "2026-04-05T00:00", "2026-04-05T03:00") == (
        ["04-05 00:00+1100", "04-05 01:00+1100", "04-05 02:00+1030"]
    )


@pytest.mark.spec("S8", "shifts of any size")
def test_the_day_that_samoa_lost_has_no_instants_of_its_own() -> None:
    every_minute = cron("* * 30 12 *", tz=APIA)
    assert every_minute.between(utc("2011-01-01T00:00"), utc("2012-12-01T00:00")) == []
    fixed = cron("0 0,12 30 12 *", tz=APIA)
    assert fixed.between(utc("2011-01-01T00:00"), utc("2012-12-01T00:00")) == [utc("2011-12-30T10:00")]


@pytest.mark.spec("S8", "gap")
def test_two_times_that_meet_after_a_gap_count_once() -> None:
    both = union(cron("30 2 * * *"), cron("0 3 * * *"), tz=NEW_YORK)
    assert shown(both, "2026-03-08", "2026-03-09") == ["03-08 03:00-0400"]


@pytest.mark.spec("S8", "windows inside a gap or a repeated hour")
def test_a_window_may_begin_and_end_inside_a_repeated_hour() -> None:
    both = cron("30 1 * * *", tz=NEW_YORK, repeat="both")
    assert both.between(utc("2026-11-01T05:30"), utc("2026-11-01T05:31")) == [utc("2026-11-01T05:30")]
    assert both.between(utc("2026-11-01T05:31"), utc("2026-11-01T06:30")) == []
    assert both.between(utc("2026-11-01T06:30"), utc("2026-11-01T06:31")) == [utc("2026-11-01T06:30")]
    gap = cron("30 2 * * *", tz=NEW_YORK)
    assert gap.between(utc("2026-03-08T07:00"), utc("2026-03-08T07:00:01")) == [utc("2026-03-08T07:00")]
    assert gap.between(utc("2026-03-08T07:00:01"), utc("2026-03-08T12:00")) == []


@pytest.mark.spec("S8", "every kind")
def test_the_choices_hold_for_intervals_and_single_moments_too() -> None:
    daily = "R3/2026-03-07T02:30/P1D"
    assert shown(iso8601(daily, tz=NEW_YORK), "2026-03-01", "2026-04-01") == (
        ["03-07 02:30-0500", "03-08 03:00-0400", "03-09 02:30-0400"]
    )
    assert shown(iso8601(daily, tz=NEW_YORK, gap="skip"), "2026-03-01", "2026-04-01") == (
        ["03-07 02:30-0500", "03-09 02:30-0400"]
    )
    repeated = "R/2026-10-31T01:30/P1D"
    for repeat, at in (("first", ["-0400"]), ("second", ["-0500"]), ("both", ["-0400", "-0500"])):
        found = shown(iso8601(repeated, tz=NEW_YORK, repeat=repeat), "2026-10-31", "2026-11-03")
        assert found == ["10-31 01:30-0400", *(f"11-01 01:30{offset}" for offset in at), "11-02 01:30-0500"]
    assert shown(once("2026-03-08T02:30", tz=NEW_YORK), "2026-03-01", "2026-04-01") == ["03-08 03:00-0400"]
    assert shown(once("2026-03-08T02:30", tz=NEW_YORK, gap="skip"), "2026-03-01", "2026-04-01") == []
    assert shown(once("2026-11-01T01:30", tz=NEW_YORK), "2026-11-01", "2026-12-01") == ["11-01 01:30-0400"]
    assert shown(once("2026-11-01T01:30", tz=NEW_YORK, repeat="second"), "2026-11-01", "2026-12-01") == (
        ["11-01 01:30-0500"]
    )


@pytest.mark.spec("S3", "local start and end")
def test_a_local_start_or_end_is_read_like_a_time_that_runs() -> None:
    minutes = cron("*/30 * * * *", tz=NEW_YORK, start="2026-03-08T02:30", end="2026-03-08T03:30")
    assert shown(minutes, "2026-03-08", "2026-03-09") == ["03-08 03:00-0400", "03-08 03:30-0400"]
    steady = every("1h", tz=NEW_YORK, start="2026-03-08T02:30", end="2026-03-08T05:00")
    assert shown(steady, "2026-03-08", "2026-03-09") == [f"03-08 0{hour}:00-0400" for hour in (3, 4, 5)]
