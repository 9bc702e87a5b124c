"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import DurationError
from itinerary.schedules import DurationLike, format_duration, parse_duration
from itinerary.schedules.durations import Period, parse_period
from tests.unit.schedules.helpers import examples

UNITS = 'write seconds as a number, units as "30s", "1h30m", "2d", or ISO 8601 as "PT15M"'
ISO = "allowed are P1Y2M10D, P3W, PT1H30M"
SIGN = "has a sign; only positive durations are allowed, such as P1M or PT15M"
LONGEST = 400 * 366 * 86_400 * 1_000_000


@pytest.mark.spec("S6", "durations")
@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        (0, 0),
        (90, 90_000_000),
        (0.5, 500_000),
        (1e-6, 1),
        ("30s", 30_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        (" 5M ", 300_000_000),
        ("1.5s", 1_500_000),
        ("250ms", 250_000),
        ("7us", 7),
        ("2d", 172_800_000_000),
        ("1w", 604_800_000_000),
        ("PT15M", 900_000_000),
        ("pt1h30m5s", 5_405_000_000),
        ("P3W", 1_814_400_000_000),
        ("P1DT1S", 86_401_000_000),
        (timedelta(hours=1, microseconds=1), 3_600_000_001),
    ],
)
def test_a_duration_is_read_as_people_write_it(written: DurationLike, microseconds: int) -> None:
    assert parse_duration(written) == microseconds


@pytest.mark.spec("S6", "durations")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", f"duration '' cannot be read; {UNITS}"),
        ("5", f"duration '5' cannot be read; {UNITS}"),
        ("1h30", f"duration '1h30' cannot be read; {UNITS}"),
        ("1x", f"duration '1x' cannot be read; {UNITS}"),
        ("-5s", f"duration '-5s' cannot be read; {UNITS}"),
        ("1ſ", f"duration '1ſ' cannot be read; {UNITS}"),
        ("٣s", f"duration '٣s' cannot be read; {UNITS}"),
        ("1m1m", f"duration '1m1m' names a unit twice; {UNITS}"),
        ("0.1us", "duration '0.1us' is finer than a microsecond"),
        ("P1M", "duration 'P1M' has years or months, whose length varies; use days or less"),
        ("p1y", "duration 'p1y' has years or months, whose length varies; use days or less"),
        ("P0D", "duration 'P0D' is zero; it must be at least one second"),
        ("P", f"duration 'P' is not ISO 8601 in whole units; {ISO}"),
        ("P1DT", f"duration 'P1DT' is not ISO 8601 in whole units; {ISO}"),
        ("PT1ſ", f"duration 'PT1ſ' is not ISO 8601 in whole units; {ISO}"),
        ("PT1.5S", f"duration 'PT1.5S' is not ISO 8601 in whole units; {ISO}"),
        ("P1D-1D", f"duration 'P1D-1D' {SIGN}"),
        (-5, "duration -5 is negative; give 0 or more"),
        (timedelta(days=-1), "duration datetime.timedelta(days=-1) is negative; give 0 or more"),
        (float("nan"), "duration nan is not a finite number of seconds"),
        (float("-inf"), "duration -inf is not a finite number of seconds"),
        (True, f"duration True is a truth value; {UNITS}"),
        (None, f"duration None is of type NoneType; {UNITS}"),
        ([[]], f"duration [[]] is of type list; {UNITS}"),
        ("1" * 65, "duration is 65 characters long, 64 are allowed"),
        ("30000w", "duration '30000w' is longer than 400 years"),
        (10**12, "duration 1000000000000 is longer than 400 years"),
        (10**5_000, "duration is longer than 400 years"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else type(value).__name__,
)
def test_a_duration_that_cannot_be_meant_is_refused_with_the_reason(written: object, reason: str) -> None:
    with pytest.raises(DurationError, match=f"^{re.escape(reason)}$"):
        parse_duration(cast("Any", written))


@pytest.mark.spec("S6", "durations")
def test_a_caller_may_ask_for_whole_seconds_and_a_minimum() -> None:
    with pytest.raises(DurationError, match=r"duration '1\.5s' is not a whole number of seconds"):
        parse_duration("1.5s", whole_seconds=True)
    with pytest.raises(DurationError, match="duration '1s' is too short; at least 2s is required"):
        parse_duration("1s", minimum=2_000_000)
    assert parse_duration("2s", whole_seconds=True, minimum=2_000_000) == 2_000_000


@pytest.mark.spec("S6", "durations")
@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        *((0, "0s"), (7, "7us"), (250_000, "250ms"), (90_000_000, "1m30s"), (864_000_000_000, "10d"), (-1, "-1us")),
        *((604_800_000_000, "1w"), (61_500_000, "1m1.5s"), (1_000_001, "1.000001s")),
    ],
)
def test_a_duration_is_written_the_short_way(microseconds: int, text: str) -> None:
    assert format_duration(microseconds) == text


@pytest.mark.spec("S6", "durations")
@examples(300)
@given(st.integers(0, LONGEST))
def test_what_is_written_is_read_back(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds)) == microseconds


@pytest.mark.spec("S4", "durations")
@examples(300)
@given(st.integers(0, 4_000), st.integers(0, 4_000), st.integers(0, 10**8))
def test_a_period_is_written_and_read_back(months: int, days: int, seconds: int) -> None:
    period = Period(months, days, seconds)
    if period == Period(0, 0, 0):
        return
    assert parse_period(str(period)) == period
    assert period.is_exact == (months == days == 0)


@pytest.mark.spec("S6", "durations")
@examples(500)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"P?[-+0-9A-Za-z.]{0,20}"), st.floats(), st.integers()))
def test_whatever_is_given_is_read_or_refused(value: DurationLike) -> None:
    try:
        microseconds = parse_duration(value)
    except DurationError:
        return
    assert 0 <= microseconds <= LONGEST
