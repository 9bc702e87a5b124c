"""The model beside answers worked out by hand from the almanac: an oracle must be trusted before it judges.

Each case names a real transition. Times on the left are what the wall clock shows, instants are UTC.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.oracles.grammar import numbers, parse
from tests.oracles.model import EPOCH, Table, fires, step_through
from tests.oracles.zones import transitions_of

HOUR = timedelta(hours=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def answers(
    expression: str, key: str, start: str, end: str, gap: str | None = None, repeat: str | None = None, step: int = 60
) -> list[str]:
    """What the model fires in `[start, end)`, as `HH:MM`, with seconds only where there are any."""
    margin = timedelta(days=3) if step == 60 else 2 * HOUR
    table = step_through(key, utc(start), utc(end), step=step, margin=margin)
    instants = [EPOCH + timedelta(seconds=at) for at in fires(parse(expression), table, gap, repeat)]
    return [f"{at:%d %H:%M:%S}".removesuffix(":00") for at in instants if utc(start) <= at < utc(end)]


SPRING = ("America/New_York", "2024-03-10T05:00", "2024-03-10T09:00")  # 02:00 EST becomes 03:00 EDT at 07:00 UTC
AUTUMN = ("America/New_York", "2024-11-03T04:00", "2024-11-03T08:00")  # 02:00 EDT becomes 01:00 EST at 06:00 UTC


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("expression", "gap", "expected"),
    [
        ("30 2 * * *", None, ["10 07:00"]),
        ("0,15,30 2 * * *", None, ["10 07:00"]),
        ("0 2,3 * * *", None, ["10 07:00"]),
        ("30 2,3 * * *", None, ["10 07:00", "10 07:30"]),
        ("30 2 * * *", "skip", []),
        ("*/20 2 * * *", None, []),
        ("*/20 2 * * *", "run_after", ["10 07:00"]),
        ("30 * * * *", None, ["10 05:30", "10 06:30", "10 07:30", "10 08:30"]),
        ("30 * * * *", "run_after", ["10 05:30", "10 06:30", "10 07:00", "10 07:30", "10 08:30"]),
        ("30 30 2 * * *", None, ["10 07:00"]),
        ("30 0 2,3 * * *", None, ["10 07:00", "10 07:00:30"]),
        ("30 2 11 3 *", None, []),
    ],
)
def test_a_time_in_new_yorks_lost_hour_runs_after_it_or_not(
    expression: str, gap: str | None, expected: list[str]
) -> None:
    assert answers(expression, *SPRING, gap=gap) == expected


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("expression", "repeat", "expected"),
    [
        ("30 1 * * *", None, ["03 05:30"]),
        ("30 1 * * *", "second", ["03 06:30"]),
        ("30 1 * * *", "both", ["03 05:30", "03 06:30"]),
        ("30 0-2 * * *", None, ["03 04:30", "03 05:30", "03 07:30"]),
        ("30 0-2 * * *", "second", ["03 04:30", "03 06:30", "03 07:30"]),
        ("*/30 1 * * *", None, ["03 05:00", "03 05:30", "03 06:00", "03 06:30"]),
        ("*/30 1 * * *", "first", ["03 05:00", "03 05:30"]),
        ("*/30 * * * *", "second", ["03 04:00", "03 04:30", "03 06:00", "03 06:30", "03 07:00", "03 07:30"]),
    ],
)
def test_a_time_in_new_yorks_repeated_hour_runs_once_or_twice(
    expression: str, repeat: str | None, expected: list[str]
) -> None:
    assert answers(expression, *AUTUMN, repeat=repeat) == expected


@pytest.mark.spec("S8")
def test_a_window_that_begins_in_the_repeated_hour_knows_that_it_is_the_second_time() -> None:
    second_pass = ("America/New_York", "2024-11-03T06:10", "2024-11-03T06:50")
    assert answers("30 1 * * *", *second_pass) == []
    assert answers("30 1 * * *", *second_pass, repeat="both") == ["03 06:30"]
    assert answers("30 1 * * *", "America/New_York", "2024-11-03T05:10", "2024-11-03T05:50", repeat="second") == []


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("expression", "key", "start", "end", "expected"),
    [
        # Lord Howe: 02:00 becomes 02:30 at 15:30 UTC; 02:00 becomes 01:30 at 15:00 UTC.
        ("15 2 * * *", "Australia/Lord_Howe", "2023-09-30T13:00", "2023-09-30T17:00", ["30 15:30"]),
        ("45 2 * * *", "Australia/Lord_Howe", "2023-09-30T13:00", "2023-09-30T17:00", ["30 15:45"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2023-04-01T13:00", "2023-04-01T17:00", ["01 14:45"]),
        ("*/15 1 * * *", "Australia/Lord_Howe", "2023-04-01T14:20", "2023-04-01T16:00",
         ["01 14:30", "01 14:45", "01 15:00", "01 15:15"]),
        # St John's: 00:01 becomes 01:01 at 03:31 UTC; 00:01 becomes 23:01 of the day before at 02:31 UTC.
        ("30 0 * * *", "America/St_Johns", "2006-04-02T02:00", "2006-04-02T06:00", ["02 03:31"]),
        ("0 0 * * *", "America/St_Johns", "2006-10-29T00:00", "2006-10-29T05:00", ["29 02:30"]),
        ("0 * * * *", "America/St_Johns", "2006-10-29T01:00", "2006-10-29T05:00",
         ["29 01:30", "29 02:30", "29 03:30", "29 04:30"]),
        # Kathmandu: midnight became 00:15 at 18:30 UTC.
        ("0-14/7 0 1 1 *", "Asia/Kathmandu", "1985-12-31T18:00", "1985-12-31T20:00", ["31 18:30"]),
        ("0 0 * * *", "Asia/Kathmandu", "1985-12-30T18:00", "1986-01-01T20:00",
         ["30 18:30", "31 18:30", "01 18:15"]),
        # Nuuk: on 25 March 2023 at 22:00 (01:00 UTC of the 26th) -03 became -02.
        ("30 22 * * *", "America/Nuuk", "2023-03-25T22:00", "2023-03-26T03:00", ["26 01:00"]),
        # Samoa went from the end of the 29th to the 31st of December 2011 at 10:00 UTC of the 30th.
        ("30 14 * * *", "Pacific/Apia", "2011-12-29T00:00", "2012-01-01T00:00",
         ["29 00:30", "30 00:30", "30 10:00", "31 00:30"]),
        ("0 0 30 12 *", "Pacific/Apia", "2011-12-29T00:00", "2012-01-01T00:00", ["30 10:00"]),
        ("0 */6 * * *", "Pacific/Apia", "2011-12-30T00:00", "2011-12-31T00:00",
         ["30 04:00", "30 10:00", "30 16:00", "30 22:00"]),
        # Kwajalein lived 23 hours of 30 September 1969 twice: midnight became 01:00 of the same day at 13:00 UTC.
        ("0 12 * * *", "Pacific/Kwajalein", "1969-09-29T00:00", "1969-10-02T12:00",
         ["29 01:00", "30 01:00", "02 00:00"]),
        ("0 0,12 * * *", "Pacific/Kwajalein", "1969-09-30T00:00", "1969-10-01T12:30", ["30 01:00", "01 12:00"]),
    ],
)  # fmt: skip
def test_shifts_of_every_size_come_out_as_the_almanac_says(
    expression: str, key: str, start: str, end: str, expected: list[str]
) -> None:
    assert answers(expression, key, start, end) == expected


@pytest.mark.spec("S8")
def test_liberia_leaves_its_odd_seconds_at_the_first_instant_after_the_gap() -> None:
    window = ("Africa/Monrovia", "1972-01-06T23:40", "1972-01-07T01:50")  # 00:00 became 00:44:30 at 00:44:30 UTC
    assert answers("15 * * * *", *window, step=1) == ["06 23:59:30", "07 01:15"]
    assert answers("15 0 * * *", *window, step=1) == ["07 00:44:30"]
    assert answers("45 44 0 * * *", *window, step=1) == ["07 00:44:45"]
    with pytest.raises(ValueError, match="by seconds"):
        answers("15 * * * *", *window)


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    ("expression", "month", "days"),
    [
        ("0 0 L * *", "2024-02", [29]),
        ("0 0 LW * *", "2024-03", [29]),  # the 31st is a Sunday
        ("0 0 15W * *", "2024-06", [14]),  # a Saturday
        ("0 0 16W * *", "2024-06", [17]),  # a Sunday
        ("0 0 1W * *", "2024-06", [3]),  # a Saturday: never into May
        ("0 0 30W * *", "2024-06", [28]),  # a Sunday: never into July
        ("0 0 31W * *", "2024-06", []),
        ("0 0 * * 5L", "2024-05", [31]),
        ("0 0 * * 5#2", "2024-05", [10]),
        ("0 0 * * Mon#5", "2024-05", []),
        ("0 0 * * 0#1,7#2", "2024-05", [5, 12]),
        ("0 0 13 * Fri", "2024-09", [6, 13, 20, 27]),
        ("0 0 12 * Fri", "2024-09", [6, 12, 13, 20, 27]),
        ("0 0 */2 * Fri", "2024-09", [13, 27]),
        ("0 0 */2,6 * Fri", "2024-09", [6, 13, 27]),
        ("0 0 1-7 * */7", "2024-09", [1]),
        ("0 0 1-31/15,L * *", "2024-09", [1, 16, 30]),
        ("0 0 * SEP-oct/2 sat-SAT", "2024-09", [7, 14, 21, 28]),
        ("0 0 0 L 2 * 1999-2024/5", "2024-02", [29]),
        ("0 0 0 L 2 * 1999-2023", "2024-02", []),
    ],
)
def test_days_match_as_the_calendar_on_the_wall_says(expression: str, month: str, days: list[int]) -> None:
    year, number = map(int, month.split("-"))
    first = date(year, number, 1)
    wanted = [first + timedelta(days=n) for n in range(31)]
    matching = [day.day for day in wanted if day.month == number and parse(expression).matches_day(day)]
    assert matching == days


@pytest.mark.spec("S1")
def test_fields_expand_to_plain_numbers() -> None:
    assert numbers("*/20,7,15-15,50-59/4", 0, 59) == {0, 7, 15, 20, 40, 50, 54, 58}
    assert parse("@HOURLY").minutes == {0}
    assert len(parse("@hourly").hours) == 24


@pytest.mark.spec("S9")
def test_the_model_knows_which_expressions_can_never_fire() -> None:
    assert not parse("0 0 30 2 *").can_fire()
    assert not parse("0 0 31W 4,6 *").can_fire()
    assert not parse("0 0 0 29 2 * 2023").can_fire()
    assert parse("0 0 29 2 *").can_fire()
    assert parse("0 0 30 2 1").can_fire()


def test_transitions_are_found_to_the_second_in_files_and_beyond_them() -> None:
    by_day = {str(found.at): found for found in transitions_of("America/St_Johns")}
    assert by_day["1935-03-30 03:30:52+00:00"].shift == timedelta(seconds=52)
    assert by_day["2006-10-29 02:31:00+00:00"].before.isoformat() == "2006-10-29T00:01:00"
    assert by_day["2198-03-11 05:30:00+00:00"].shift == HOUR


def test_a_table_is_shared_without_being_changed() -> None:
    table: Table = step_through("UTC", utc("2024-01-01T00:00"), utc("2024-01-02T00:00"))
    assert len(table.rows) == 24 * 60
    assert fires(parse("0 12 * * *"), table) == fires(parse("0 12 * * *"), table)
