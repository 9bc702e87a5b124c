"""Times as people type them on the command line, in the time zone of the job or of `--tz`.

    2026-03-01T05:00:00Z    an instant: its offset says which
    2026-03-01T05:00        by the clock of the zone; a space may stand in place of the T
    2026-03-01              midnight of that day
    17:33, 17:33:05         today
    yesterday 02:00         and today, tomorrow; without a time, midnight
    2h ago, in 30m, now     from now on

A time that the clock of the zone shows twice is the first one, and a time that the clock skips is the first instant
after the gap.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final

from itinerary.cli.commands import Option
from itinerary.errors import ConfigError, ItineraryError, WindowError
from itinerary.explain.time_argument import zone_of
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules import packaged_zone
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.schedules.instants import DAY, EARLIEST, LATEST, Moment, microseconds_of
from itinerary.schedules.wallclock import instant_of as instant_on
from itinerary.schedules.zones import UTC, Zone

__all__ = ["TIMES", "SettingZone", "TimeZone", "instant_of", "job_zone", "moment_of", "named_zone"]

TIMES: Final = "2026-03-01T05:00, 2026-03-01, 17:33, yesterday 02:00, 2h ago"
"""Examples for help and errors."""
TimeZone = Annotated[
    str | None, Option("--tz", metavar="ZONE", help="The zone of times without an offset; else the job's.")
]
SettingZone = Annotated[
    str | None,
    Option("--tz", metavar="ZONE", help="The zone of times without an offset; else the setting's, or UTC."),
]

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_TEXT_MAX: Final = 60
_OUTSIDE: Final = "lies outside the supported years 1900 to 2199"


def named_zone(name: str | None) -> Zone:
    """Return the time zone of that name. Without a name: UTC.

    Raises:
        ConfigError: The zone is unknown.
    """
    if name is None:
        return UTC
    try:
        return packaged_zone(name)
    except ItineraryError as error:
        raise ConfigError(f"--tz: {error}") from error


def job_zone(view: TimelineView, job: str, tz: str | None) -> Zone:
    """Return the zone in which the times of a job are read: `tz`, else the zone of its schedule."""
    if tz is not None:
        return named_zone(tz)
    return zone_of(view.timeline, view.job(job).number, view.now())


def instant_of(option: str, text: str, *, now: int, zone: Zone) -> int:
    """Return a typed instant in microseconds.

    Raises:
        ConfigError: The text is not a time. The message begins with the option.
    """
    return _absolute(text) or instant_on(zone, moment_of(option, text, now=now, zone=zone)) * SECOND


def moment_of(option: str, text: str, *, now: int, zone: Zone) -> Moment:
    """Return a typed moment: an instant, or a reading of the zone's clock.

    Raises:
        ConfigError: The text is not a time. The message begins with the option.
    """
    said = " ".join(text.split()).lower()
    shown = text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "…"
    try:
        found = _relative(said, now) or _reading(said, now, zone) or Moment.of(text.strip(), option)
    except ItineraryError as error:
        if _OUTSIDE in str(error):
            raise ConfigError(f"{option} {shown}: {_OUTSIDE}") from error
        raise ConfigError(f"{option} {shown}: this is not a time; write {TIMES}, or an offset: …T05:00Z") from error
    if not EARLIEST <= found.seconds < LATEST:
        raise ConfigError(f"{option} {shown}: {_OUTSIDE}")
    return found


def _absolute(text: str) -> int | None:
    """Return an instant with an offset, which may have parts of a second."""
    try:
        return microseconds_of(datetime.fromisoformat(text.strip()))
    except (ValueError, WindowError):
        return None


def _relative(text: str, now: int) -> Moment | None:
    if text == "now":
        return Moment(now // SECOND)
    if text.endswith(" ago"):
        return Moment((now - parse_duration(text.removesuffix(" ago").replace(" ", ""))) // SECOND)
    if text.startswith("in "):
        return Moment((now + parse_duration(text.removeprefix("in ").replace(" ", ""))) // SECOND)
    return None


def _reading(text: str, now: int, zone: Zone) -> Moment | None:
    """Return a time of day, or a day relative to today."""
    word, _, rest = text.partition(" ")
    days = _DAYS.get(word)
    clock = _CLOCK.fullmatch(text if days is None else rest)
    if (days is None and clock is None) or (rest and days is not None and clock is None):
        return None
    hour, minute, second = (int(part or 0) for part in clock.groups()) if clock is not None else (0, 0, 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    today = zone.reading(Moment(now // SECOND)) // DAY
    return Moment((today + (days or 0)) * DAY + hour * 3_600 + minute * 60 + second, is_local=True)
