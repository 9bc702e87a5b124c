"""Schedules in words (S10)."""

from __future__ import annotations

import pytest

from itinerary.schedules import Binding, Schedule, cron, every, excluding, iso8601, once, union
from itinerary.schedules.cron_words import joined, ordinal

EXPRESSIONS = {
    "* * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "*/30 * * * *": "Every 30 minutes",
    "3-59/15 * * * *": "Every 15 minutes from minute 3",
    "*/7 * * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
    "@hourly": "At the start of every hour",
    "5 * * * *": "At minute 5 of every hour",
    "10-20 * * * *": "At minutes 10 to 20 of every hour",
    "0 */2 * * *": "Every 2 hours",
    "30 1-23/2 * * *": "Every 2 hours from 01:30",
    "30 9-17 * * 1-5": "Every hour from 09:30 to 17:30, Monday to Friday",
    "0 0-6,22,23 * * *": "Every hour from 00:00 to 06:00, and at 22:00 and 23:00",
    "0 0-3,9-12 * * *": "Every hour from 00:00 to 03:00 and from 09:00 to 12:00",
    "0 1,3,5,7,9,11,13 * * *": "At 01:00, 03:00, 05:00, 07:00, 09:00, 11:00 and 13:00",
    "*/5 9-17 * * *": "Every 5 minutes from 09:00 to 17:59",
    "1-59/2 9-17 * * *": "Every 2 minutes from minute 1, from 09:00 to 17:59",
    "*/7 1,3 * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56, from 01:00 to 01:59 and from 03:00 to 03:59",
    "*/10 */6 * * *": "Every 10 minutes in every 6th hour from 00:00",
    "* 5 * * *": "Every minute from 05:00 to 05:59",
    "0-30 12 * * *": "Every minute from 12:00 to 12:30",
    "0 9,12,15 * * *": "At 09:00, 12:00 and 15:00",
    "0 9 * * 6,7": "At 09:00, on Saturday and Sunday",
    "0 9 * * MON,wed,5": "At 09:00, on Monday, Wednesday and Friday",
    "@weekly": "At 00:00, on Sunday",
    "@monthly": "At 00:00, on the 1st of the month",
    "@yearly": "At 00:00, on the 1st of January",
    "0 0 1-15 * *": "At 00:00, on the 1st to 15th of the month",
    "0 0 */2 * *": "At 00:00, on every 2nd day of the month from the 1st",
    "0 0 13 * 5": "At 00:00, on the 13th of the month or on Friday",
    "0 0 1-7 * 1-5": "At 00:00, on the 1st to 7th of the month or on Monday to Friday",
    "0 0 */2 * 1": "At 00:00, on every 2nd day of the month from the 1st if it is Monday",
    "0 0 1 * */2": "At 00:00, on the 1st of the month if it is Tuesday, Thursday, Saturday or Sunday",
    "0 0 L * *": "At 00:00, on the last day of the month",
    "0 0 L,15 * *": "At 00:00, on the 15th and the last day of the month",
    "0 0 LW * *": "At 00:00, on the last weekday of the month",
    "0 0 15W 3 *": "At 00:00, on the weekday nearest the 15th of March",
    "0 0 * * 5L": "At 00:00, on the last Friday of the month",
    "0 0 * * 5#2": "At 00:00, on the 2nd Friday of the month",
    "0 0 * * 1#1,3#3": "At 00:00, on the 1st Monday and the 3rd Wednesday of the month",
    "0 0 * * 1,3#3": "At 00:00, on Monday and the 3rd Wednesday of the month",
    "0 0 * 6-8 *": "At 00:00, June to August",
    "0 0 * */3 *": "At 00:00, in January, April, July and October",
    "0 0 29 2 *": "At 00:00, on the 29th of February",
    "0 0 1 6-8 *": "At 00:00, on the 1st of the month, June to August",
    "0 0 13 3 5": "At 00:00, on the 13th of the month or on Friday, in March",
    "* * * * * *": "Every second",
    "*/10 * * * * *": "Every 10 seconds",
    "30 * * * * *": "At second 30 of every minute",
    "5 0 * * * *": "At second 5 of minute 0 of every hour",
    "*/15 */15 * * * *": "Every 15 seconds of minutes 0, 15, 30 and 45 of every hour",
    "*/15 * 5 * * *": "Every 15 seconds, from 05:00 to 05:59",
    "*/20 0 5 * * *": "At 05:00:00, 05:00:20 and 05:00:40",
    "0 0 5 * * * 2030": "At 05:00, in 2030",
    "59 59 23 31 12 * 2026-2030": "At 23:59:59, on the 31st of December, 2026 to 2030",
    "0 0 0 1 1 * 2030-2050/10": "At 00:00, on the 1st of January, in 2030, 2040 and 2050",
    "0 0 0 1 1 * */2": "At 00:00, on the 1st of January, in every 2nd year from 1970 to 2198",
}


@pytest.mark.spec("S10")
def test_the_example_of_the_specification_reads_as_it_stands_there() -> None:
    schedule = cron("0 5 * * 1-5", tz="America/New_York")
    assert str(schedule) == "At 05:00, Monday to Friday, America/New_York"


@pytest.mark.spec("S10")
@pytest.mark.parametrize(("expression", "words"), EXPRESSIONS.items())
def test_an_expression_reads_as_english(expression: str, words: str) -> None:
    assert str(cron(expression)) == words
    assert str(cron(expression, tz="Asia/Tokyo")) == f"{words}, Asia/Tokyo"


@pytest.mark.spec("S10")
@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (every("90m"), "Every 1h30m"),
        (every("1d", tz="Asia/Tokyo"), "Every 1d"),
        (every("1d", tz="Asia/Tokyo", start="2026-01-01"), "Every 1d, Asia/Tokyo, from 2026-01-01T00:00:00"),
        (once("2026-12-31T23:59Z", tz="Asia/Tokyo"), "Once at 2026-12-31T23:59:00Z"),
        (once("2026-12-31T23:59", tz="Asia/Tokyo"), "Once at 2026-12-31T23:59:00, Asia/Tokyo"),
        (iso8601("R/2026-01-31T09:00/P1M"), "Every month from 2026-01-31T09:00:00"),
        (iso8601("R5/2026-01-01T00:00Z/PT15M"), "Every 15 minutes from 2026-01-01T00:00:00Z, 5 times"),
        (iso8601("R1/2026-01-01/P1Y1DT1S"), "Every 1 year, 1 day and 1 second from 2026-01-01T00:00:00, 1 time"),
        (iso8601("R3/2026-01-01/2026-01-08"), "Every week from 2026-01-01T00:00:00, 3 times"),
        (iso8601("P3W"), "Every 3 weeks from its registration"),
        (cron("H 3 * * *"), "Spread by the job's name (H 3 * * *)"),
        (cron("H 3 * * *").bind(Binding("backup")), "At 03:11, UTC"),
        (cron("@reboot"), "At each start of a node"),
        (union(cron("0 9 * * 1-5"), every("1h")), "At 09:00, Monday to Friday; or every 1h"),
        (excluding(cron("0 9 * * *"), "holidays"), "At 09:00, except on holidays"),
        (excluding(cron("@daily"), "holidays", "next"), "At 00:00, moved to the next business day on holidays"),
        (
            cron("@daily", start="2026-01-01", end="2026-12-31T23:59:59Z", jitter="90s"),
            "At 00:00, from 2026-01-01T00:00:00, until 2026-12-31T23:59:59Z, started up to 1m30s later",
        ),
    ],
    ids=str,
)
def test_every_kind_has_words(schedule: Schedule, words: str) -> None:
    assert str(schedule) == words


@pytest.mark.spec("S10")
def test_two_spellings_of_one_expression_read_the_same() -> None:
    assert str(cron("0 5 * * MON,TUE,WED,THU,FRI")) == str(cron("0 5 * * 1-5"))
    assert str(cron("0,15,30,45 * * * *")) == str(cron("*/15 * * * *"))


@pytest.mark.spec("S10")
def test_numbers_and_lists_are_put_into_words() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st"]
    )
    assert [joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
