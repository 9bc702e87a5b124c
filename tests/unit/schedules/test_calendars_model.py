"""Exclusions beside a model that moves one instant at a time, in plain Python."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.schedules import Calendar, Schedule, cron, excluding
from tests.unit.schedules.helpers import examples, utc, zone_info

START = utc("2026-02-20")
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Model(NamedTuple):
    """A calendar as sets and lists, in one zone."""

    dates: set[date]
    blackouts: list[tuple[datetime, datetime]]
    weekend: set[int]
    closed_on_weekends: bool
    zone: str

    def closed(self, at: datetime) -> bool:
        day = at.astimezone(zone_info(self.zone)).date()
        weekend = self.closed_on_weekends and day.weekday() in self.weekend
        return day in self.dates or weekend or self.blacked_out(at)

    def blacked_out(self, at: datetime) -> bool:
        return any(start <= at < end for start, end in self.blackouts)

    def moved(self, at: datetime, step: int) -> datetime | None:
        """Where an instant goes: itself, another day, or nowhere."""
        if not self.closed(at):
            return at
        local = at.astimezone(zone_info(self.zone)).replace(tzinfo=None)
        for n in range(1, 367 if step else 0):
            target = after_gap(local + n * step * timedelta(days=1), self.zone)
            day = target.astimezone(zone_info(self.zone)).date()
            if day not in self.dates and day.weekday() not in self.weekend and not self.blacked_out(target):
                return target
        return None


def after_gap(reading: datetime, zone: str) -> datetime:
    """The first instant at which a wall clock shows a reading, or has jumped over it."""
    wall = zone_info(zone)
    at = reading.replace(tzinfo=wall).astimezone(UTC)
    if at.astimezone(wall).replace(tzinfo=None) == reading:
        return at
    low, high = at - timedelta(days=2), at + timedelta(days=2)
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        if middle.astimezone(wall).replace(tzinfo=None) < reading:
            low = middle
        else:
            high = middle
    return high


days = st.integers(0, 60).map(lambda n: (START + timedelta(days=n)).date())
moments = st.integers(0, 60 * 24).map(lambda n: START + timedelta(hours=n))
expressions = st.sampled_from(["0 9 * * *", "30 2 * * *", "0 */8 * * *", "15 0,23 * * 5-7", "*/45 1-3 * * *"])
zones = st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Tehran"])


@pytest.mark.spec("S6", "exclusions")
@examples(150)
@given(
    dates=st.sets(days, max_size=25),
    blackouts=st.lists(st.tuples(moments, st.integers(1, 200)), max_size=4),
    weekend=st.sets(st.integers(0, 6), max_size=5),
    closed_on_weekends=st.booleans(),
    shift=st.sampled_from(["skip", "next", "previous"]),
    expression=expressions,
    zone=zones,
)
def test_instants_are_skipped_or_moved_as_the_model_says(
    dates: set[date],
    blackouts: list[tuple[datetime, int]],
    weekend: set[int],
    closed_on_weekends: bool,
    shift: str,
    expression: str,
    zone: str,
) -> None:
    windows = [(start, start + timedelta(hours=length)) for start, length in blackouts]
    calendar = Calendar("closed", dates, windows, [WEEKDAYS[n] for n in weekend], closed_on_weekends=closed_on_weekends)
    schedule = cron(expression, tz=zone)
    model = Model(dates, windows, weekend, closed_on_weekends, zone)
    expected = modelled(schedule, model, {"skip": 0, "next": 1, "previous": -1}[shift])
    ours = excluding(schedule, calendar, shift)
    assert ours.between(START, START + timedelta(days=70)) == expected
    for cut in (10, 31, 45):
        start, end = START + timedelta(days=cut, hours=5), START + timedelta(days=cut + 3)
        assert ours.between(start, end) == [at for at in expected if start <= at < end]
    later = [at for at in expected if at > START + timedelta(days=30)]
    if later:
        assert ours.next_after(START + timedelta(days=30)) == later[0]


def modelled(schedule: Schedule, model: Model, step: int) -> list[datetime]:
    """Each instant moved by itself, from far enough around the window."""
    around = schedule.between(START - timedelta(days=30), START + timedelta(days=100))
    moved = {model.moved(at, step) for at in around}
    return sorted(at for at in moved if at is not None and START <= at < START + timedelta(days=70))
