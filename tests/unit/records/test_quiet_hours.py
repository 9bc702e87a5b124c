"""Quiet hours by the wall clock of a partition (E5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from itinerary.records.quiet_hours import is_quiet
from itinerary.records.settings import DeskSettings, read_desk_settings
from itinerary.schedules import packaged_zone


def hours(start: int, end: int) -> DeskSettings:
    return read_desk_settings({"early_morning_start_hour": start, "early_morning_end_hour": end})


def quiet_at(settings: DeskSettings, zone: str, at: datetime) -> bool:
    return is_quiet(settings, packaged_zone(zone), round(at.timestamp() * 1_000_000))


def quiet_readings(settings: DeskSettings, zone: str, day: datetime) -> dict[str, bool]:
    """Every half hour of a day of UTC, by what the wall clock shows there."""
    found = {}
    for half in range(48):
        at = day + timedelta(minutes=30 * half)
        found[at.isoformat()] = quiet_at(settings, zone, at)
    return found


@pytest.mark.spec("E5")
@pytest.mark.parametrize("zone", ["Europe/Lisbon", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize(("start", "end"), [(0, 6), (22, 6), (5, 5), (8, 6), (23, 0), (12, 13)])
def test_an_hour_is_quiet_by_what_the_wall_clock_of_the_zone_shows(zone: str, start: int, end: int) -> None:
    settings = hours(start, end)
    silent = set()
    at = start
    while at != end:
        silent.add(at)
        at = (at + 1) % 24
    for day in (datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 7, 15, tzinfo=UTC)):
        for half in range(48):
            moment = day + timedelta(minutes=30 * half)
            assert quiet_at(settings, zone, moment) == (moment.astimezone(ZoneInfo(zone)).hour in silent)


@pytest.mark.spec("E5")
def test_quiet_hours_across_a_shift_of_the_clock_follow_what_it_shows() -> None:
    settings = hours(2, 3)
    berlin = "Europe/Berlin"
    spring = quiet_readings(settings, berlin, datetime(2026, 3, 29, tzinfo=UTC))
    assert not any(spring.values()), "the night that lacks its third hour has no quiet hour"
    autumn = quiet_readings(settings, berlin, datetime(2026, 10, 25, tzinfo=UTC))
    assert [at for at, quiet in autumn.items() if quiet] == [
        "2026-10-25T00:00:00+00:00",
        "2026-10-25T00:30:00+00:00",
        "2026-10-25T01:00:00+00:00",
        "2026-10-25T01:30:00+00:00",
    ], "and the one that has it twice has two"


@pytest.mark.spec("E5")
def test_quiet_hours_past_midnight_across_a_shift_end_by_the_new_time() -> None:
    settings = hours(22, 6)
    new_york = "America/New_York"
    before, after = datetime(2026, 3, 8, 9, 59, tzinfo=UTC), datetime(2026, 3, 8, 10, 0, tzinfo=UTC)
    assert quiet_at(settings, new_york, before), "05:59 in summer time"
    assert not quiet_at(settings, new_york, after)
    assert quiet_at(settings, new_york, datetime(2026, 3, 9, 2, 0, tzinfo=UTC)), "22:00"


@pytest.mark.spec("E5")
def test_the_quiet_hours_of_the_source_8_to_6_are_warned_about() -> None:
    (warning,) = hours(8, 6).warnings()
    assert "quiet hours from 8 to 6 are 22 hours of each day" in warning
    assert hours(22, 6).warnings() == []
    assert hours(18, 6).warnings() == [], "twelve hours are a night"


@pytest.mark.spec("E5")
def test_without_the_switch_no_hour_is_quiet() -> None:
    settings = read_desk_settings({"enable_early_morning_skip": False})
    assert not any(quiet_readings(settings, "UTC", datetime(2026, 1, 1, tzinfo=UTC)).values())
    assert settings.quiet_hours == 0
