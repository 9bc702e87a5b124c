"""Sparse schedules over years: leap days, fifth Fridays, nearest weekdays, and the end of time in 2199.

The campaign's windows are days long, so a search that must cross months or years hardly happens there. Here schedules
fire at one time of a few days, and the calendar is walked day by day, far from any transition: in UTC, or at noon.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from itinerary.schedules import cron, enumerate_many
from tests.oracles.campaign import microseconds
from tests.oracles.dice import Dice, scaled
from tests.oracles.generate import day_fields
from tests.oracles.grammar import Expression, parse
from tests.oracles.zones import DAY, SECOND, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator

BEYOND = date(2200, 1, 1)


def days_from(expression: Expression, day: date) -> Iterator[date]:
    """Every matching day from one on, until the last year."""
    while day < BEYOND:
        if expression.matches_day(day):
            yield day
        day += DAY


def sparse(dice: Dice, hour: int) -> str:
    """An expression for one time of few days, that fires on some day."""
    while True:
        day = date(dice.randint(1900, 2190), 1, 1) + dice.randrange(366) * DAY
        fields = day_fields(dice, [day])
        if dice.chance(30):
            fields = [str(dice.choice((29, 30, 31))), str(dice.choice((1, 2, 2, 4, 12))), "*"]
        text = " ".join([str(dice.randrange(60)), str(hour), *fields])
        if dice.chance(20):
            first = dice.randint(1970, 2199)
            text = f"{dice.randrange(60)} {text} {first}-{dice.randint(first, 2199)}/{dice.randint(1, 9)}"
        if parse(text).can_fire():
            return text


def expected_from(text: str, key: str, start: date) -> Iterator[int]:
    expression = parse(text)
    (second,), (minute,), (hour,) = expression.seconds, expression.minutes, expression.hours
    for day in days_from(expression, start):
        yield microseconds(datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=zone_named(key)))


@pytest.mark.spec("S1", "S2", "S9")
@pytest.mark.parametrize("batch", range(8))
def test_next_after_finds_the_next_days_of_a_sparse_schedule_however_many_years_ahead(batch: int) -> None:
    dice = Dice("years", batch)
    for _ in range(scaled(50)):
        key = dice.choice(("UTC", "America/New_York", "Asia/Kathmandu"))
        text = sparse(dice, dice.randrange(24) if key == "UTC" else 12)
        start = date(dice.choice((1901, 1970, 2096, 2190, dice.randint(1901, 2199))), dice.randint(1, 12), 1)
        at: datetime | None = datetime(start.year, start.month, 1, tzinfo=zone_named(key)).astimezone(UTC) - SECOND
        schedule, found = cron(text, tz=key), list[int]()
        while at is not None and len(found) < 4:
            at = schedule.next_after(at)
            found += [microseconds(at)] if at is not None else []
        assert found == list(islice(expected_from(text, key, start), 4)), f"{text!r} in {key} from {start}"


@pytest.mark.spec("S13")
@pytest.mark.parametrize("batch", range(8))
def test_years_of_sparse_schedules_enumerate_as_the_calendar_says(batch: int) -> None:
    dice = Dice("long", batch)
    start = datetime(dice.randint(1901, 2190), dice.randint(1, 12), 1, tzinfo=UTC)
    end = start + dice.randint(300, 3000) * DAY + timedelta(seconds=dice.randrange(86_400))
    texts = [sparse(dice, dice.randrange(24)) for _ in range(scaled(40))]
    schedules = [cron(text) for text in texts]
    numbers, instants = enumerate_many(schedules, start, end)
    for number, (text, schedule) in enumerate(zip(texts, schedules, strict=True)):
        expected = []
        for at in expected_from(text, "UTC", start.date()):
            if at >= microseconds(end):
                break
            expected.append(at)
        assert [microseconds(at) for at in schedule.between(start, end)] == expected, text
        assert sorted(instants[numbers == number].tolist()) == expected, text
