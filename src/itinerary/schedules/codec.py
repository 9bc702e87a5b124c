"""Schedules as plain data, both ways.

The first key is the kind, the rest are its options, named as in Python. A job file, the HTTP API and the store use the
same form; text alone is a cron expression:

    {"cron": "0 5 * * 1-5", "tz": "America/New_York"}      {"every": "15m"}      {"once": "2026-12-31T23:59:00Z"}
    {"iso8601": "R/2026-01-31T09:00/P1M"}      {"union": [ … ]}      {"excluding": "holidays", "schedule": { … }}

Unknown keys are errors: an option that is misspelt must not be an option that is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from reprlib import repr as shown
from typing import Any, Final

from itinerary.errors import ScheduleError
from itinerary.schedules.base import NESTING_MAX, Schedule, zones_taken_on_trust
from itinerary.schedules.calendars import Calendar
from itinerary.schedules.cron import Cron, cron
from itinerary.schedules.custom import custom, load_custom
from itinerary.schedules.every import every
from itinerary.schedules.excluding import excluding
from itinerary.schedules.instants import Moment
from itinerary.schedules.iso8601 import iso8601
from itinerary.schedules.once import once
from itinerary.schedules.suggestions import did_you_mean
from itinerary.schedules.union import union

__all__ = ["KINDS", "OPTIONS", "from_json", "from_stored"]

_DEFINITION_MAX: Final = 256 * 1024
_COMMON: Final = ("tz", "start", "end", "jitter")


def from_json(data: Mapping[str, Any] | str) -> Schedule:
    """The schedule that `to_json` wrote down: its data, the same as JSON text, or just a cron expression."""
    if isinstance(data, str):
        if not data.lstrip().startswith("{"):
            return cron(data)
        data = _loads(data)
    return _read(data, 1)


def from_stored(data: Mapping[str, Any] | str) -> Schedule:
    """Return the schedule that a store keeps, as `from_json` does, without looking up its zones.

    The zones were looked up when the schedule was entered, by a program that may have newer zone data than this one.
    Their tables come from the store.
    """
    with zones_taken_on_trust():
        return from_json(data)


def _loads(text: str) -> Any:
    if len(text) > _DEFINITION_MAX:
        raise ScheduleError(f"schedule is {len(text)} characters long; at most {_DEFINITION_MAX} are allowed")
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"schedule is not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ScheduleError("schedule has a key twice in one object; which of them counts would be a guess")
    return found


def _read(data: object, depth: int) -> Schedule:
    if depth > NESTING_MAX:
        raise ScheduleError(f"schedules are nested more than {NESTING_MAX} deep; flatten them")
    if isinstance(data, str):
        return cron(data)
    if not isinstance(data, Mapping):
        raise ScheduleError(
            f"a schedule is a table such as {{ every = '15m' }} or a cron expression, not {shown(data)}"
        )
    kinds = [kind for kind in _READERS if kind in data]
    if len(kinds) != 1:
        found = (
            f"{' and '.join(kinds)} at once"
            if kinds
            else f"none of them among {', '.join(map(shown, islice(data, 10))) or 'no keys'}"
        )
        raise ScheduleError(f"a schedule has exactly one of the keys {', '.join(_READERS)}; here is {found}")
    options, reader = _READERS[kinds[0]]
    _check_keys(kinds[0], data, (kinds[0], *options, *_COMMON))
    _check_texts(kinds[0], data)
    return reader(dict(data), depth)


def _check_keys(kind: str, data: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for key in data:
        if key not in allowed:
            hint = did_you_mean(key, allowed, otherwise=f"allowed are {', '.join(allowed)}")
            raise ScheduleError(f"{kind} schedule: key {shown(key)} is unknown; {hint}")


def _check_texts(kind: str, data: Mapping[str, Any]) -> None:
    for key in ("tz", "gap", "repeat", "written", "anchored", "shift"):
        if key in data and not isinstance(data[key], str):
            raise ScheduleError(f"{kind} schedule: {key} is text, not {shown(data[key])}")


def _cron(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - one signature for all readers
    written = data.pop("written", None)
    schedule = cron(data.pop("cron"), **data)
    return replace(schedule, written=written) if isinstance(schedule, Cron) and written is not None else schedule


def _reboot(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - readers of all kinds are called alike
    if data.pop("reboot") is not True:
        raise ScheduleError("reboot schedule: write reboot = true")
    return cron("@reboot", **data)


def _every(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - readers of all kinds are called alike
    return every(data.pop("every"), **data)


def _once(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - readers of all kinds are called alike
    return once(data.pop("once"), **data)


def _iso8601(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - readers of all kinds are called alike
    anchored = data.pop("anchored", None)
    schedule = iso8601(data.pop("iso8601"), **data)
    return schedule if anchored is None else replace(schedule, anchored=Moment.of(anchored, "anchored"))


def _union(data: dict[str, Any], depth: int) -> Schedule:
    members = data.pop("union")
    if not isinstance(members, list | tuple):
        raise ScheduleError(f"union schedule: union is a list of schedules, not {shown(members)}")
    return union(*(_read(member, depth + 1) for member in members), **data)


def _excluding(data: dict[str, Any], depth: int) -> Schedule:
    calendar = data.pop("excluding")
    if "schedule" not in data:
        raise ScheduleError("excluding schedule: the key 'schedule' is missing: what is to run outside the calendar")
    if isinstance(calendar, Mapping):
        calendar = Calendar.from_json(calendar)
    return excluding(_read(data.pop("schedule"), depth + 1), calendar, **data)


def _custom(data: dict[str, Any], depth: int) -> Schedule:  # noqa: ARG001 - readers of all kinds are called alike
    kind = data.pop("custom")
    if not isinstance(kind, str):
        raise ScheduleError(f"custom schedule: custom is the name of a kind, not {shown(kind)}")
    return custom(load_custom(kind, data.pop("value", None)), **data)


_READERS: Final[dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any], int], Schedule]]]] = {
    "cron": (("gap", "repeat", "written"), _cron),
    "every": ((), _every),
    "iso8601": (("gap", "repeat", "anchored"), _iso8601),
    "once": (("gap", "repeat"), _once),
    "union": ((), _union),
    "excluding": (("schedule", "shift"), _excluding),
    "reboot": ((), _reboot),
    "custom": (("value",), _custom),
}

KINDS: Final = tuple(_READERS)
"""The keys that say what kind a schedule is."""
OPTIONS: Final = {kind: (*options, *_COMMON) for kind, (options, _) in _READERS.items()}
"""The keys that go with each."""
