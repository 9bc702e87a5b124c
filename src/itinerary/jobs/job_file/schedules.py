"""Schedules and calendars in a job file.

A schedule is a text with a cron expression, or a table in the form of `itinerary.schedules.from_json`. TOML values that
JSON does not have are allowed too: `once = 2026-12-31T23:59:00Z`, `dates = [2026-12-25]`.

A calendar that several jobs share is written once, under `[calendars.NAME]`. Schedules name it and contain its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from itinerary.errors import ItineraryError
from itinerary.jobs.job_file.problems import FileProblems, unknown_key
from itinerary.jobs.job_file.toml_positions import NESTING_MAX, Path
from itinerary.model.text import shown
from itinerary.schedules import Calendar, Cron, Schedule, from_json
from itinerary.schedules.codec import KINDS, OPTIONS
from itinerary.schedules.suggestions import did_you_mean, nearest

__all__ = ["CALENDAR_KEYS", "read_calendars", "read_schedule", "schedule_warnings"]

CALENDAR_KEYS = ("dates", "blackouts", "weekend", "closed_on_weekends")


def read_calendars(problems: FileProblems, path: Path, given: object) -> dict[str, Calendar | None]:
    """Return calendars by name. A calendar with a mistake is None, and the mistake is added to the problems."""
    if not isinstance(given, dict):
        problems.add(path, f"{shown(given)} is not a table of calendars; write [calendars.holidays]")
        return {}
    return {name: _read_calendar(problems, (*path, name), name, table) for name, table in given.items()}


def _read_calendar(problems: FileProblems, path: Path, name: str, table: object) -> Calendar | None:
    if not isinstance(table, dict):
        problems.add(path, f"{shown(table)} is not a calendar; write [calendars.{name}] and dates = [2026-12-25]")
        return None
    before = len(problems.found)
    for key, value in table.items():
        if key in CALENDAR_KEYS:
            _calendar(problems, (*path, key), name, {key: value})
        else:
            problems.add((*path, key), unknown_key(key, CALENDAR_KEYS))
    return _calendar(problems, path, name, table) if len(problems.found) == before else None


def _calendar(problems: FileProblems, path: Path, name: str, table: Mapping[str, Any]) -> Calendar | None:
    try:
        return Calendar(name, **table)
    except (ItineraryError, TypeError) as error:
        problems.add(path, str(error))
        return None


def read_schedule(
    problems: FileProblems, path: Path, given: object, calendars: Mapping[str, Calendar | None]
) -> Schedule | None:
    """Return the schedule. On a mistake, add it to the problems and return None."""
    before = len(problems.found)
    data = _resolved(problems, path, given, calendars)
    if len(problems.found) > before:
        return None
    return _read(problems, path, data)


def schedule_warnings(schedule: Schedule) -> Iterator[str]:
    """Yield warnings about a schedule that the user may not have intended."""
    if isinstance(schedule, Cron):
        yield from schedule.warnings
    for inner in schedule.inner():
        yield from schedule_warnings(inner)


def _read(problems: FileProblems, path: Path, data: Any) -> Schedule | None:
    found = _attempt(data)
    if isinstance(found, Schedule):
        return found
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if isinstance(data, dict) and not kinds:
        close = [key for key in data if nearest(key, KINDS)]
        for key in close:
            problems.add((*path, key), unknown_key(key, KINDS))
        if close:
            return None
    if len(kinds) != 1:
        problems.add(path, found)
        return None
    unknown = [key for key in data if key not in (kinds[0], *OPTIONS[kinds[0]])]
    for key in unknown:
        problems.add((*path, key), unknown_key(key, OPTIONS[kinds[0]]))
    if not unknown:
        problems.add((*path, _culprit(data, kinds[0])), found)
    return None


def _attempt(data: Any) -> Schedule | str:
    """Return the schedule, or the message of its mistake."""
    # Text is always a cron expression, never JSON, which `from_json` would accept too.
    try:
        return from_json({"cron": data} if isinstance(data, str) else data)
    except (ItineraryError, TypeError) as error:
        return str(error)


def _culprit(data: Mapping[str, Any], kind: str) -> str:
    """Return the key whose removal makes the schedule valid; else the key of its kind."""
    without = ({name: value for name, value in data.items() if name != key} for key in data if key != kind)
    keys = [key for key in data if key != kind]
    return next((key for key, rest in zip(keys, without, strict=True) if isinstance(_attempt(rest), Schedule)), kind)


def _resolved(problems: FileProblems, path: Path, given: object, calendars: Mapping[str, Calendar | None]) -> Any:
    """Return the data with its calendars filled in. Inner schedules are read separately, to locate errors."""
    if not isinstance(given, dict) or len(path) > NESTING_MAX:
        return given
    data = dict(given)
    if isinstance(members := data.get("union"), list):
        data["union"] = [
            _inner(problems, (*path, "union", place), member, calendars) for place, member in enumerate(members)
        ]
    if "schedule" in data:
        data["schedule"] = _inner(problems, (*path, "schedule"), data["schedule"], calendars)
    match data.get("excluding"):
        case str(name) if name not in calendars:
            hint = did_you_mean(name, calendars, otherwise="write [calendars.NAME] and dates = [2026-12-25]")
            problems.add((*path, "excluding"), f"there is no calendar {shown(name)}; {hint}")
        case str(name):
            calendar = calendars[name]
            # A calendar with a mistake is already reported; an empty one replaces it.
            data["excluding"] = (Calendar(name) if calendar is None else calendar).to_json()
        case _:
            pass
    return data


def _inner(problems: FileProblems, path: Path, given: object, calendars: Mapping[str, Calendar | None]) -> Any:
    data = _resolved(problems, path, given, calendars)
    before = len(problems.found)
    _read(problems, path, data)
    return data if len(problems.found) == before else "* * * * *"
