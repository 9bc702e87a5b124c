"""The differences between two versions of a job, in words, for a preview.

schedule: At 03:11, Europe/Berlin -> at 04:11, Europe/Berlin
overlap: skip -> queue
retry.max_retries: 0 (built in) -> 5 (defaults)
task report: added
task dump: shell: pg_dump db -> pg_dump --clean db
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from itinerary.errors import ItineraryError
from itinerary.model.definition import Definition
from itinerary.model.overrides import DEFAULTS, LEAVES, Overrides, leaves_set
from itinerary.model.task import JsonObject
from itinerary.schedules import from_stored

__all__ = ["DefaultDifference", "default_differences", "differ_in_defaults_only", "differences"]

_SHOWN_MAX: Final = 300
"""The number of characters of a command that are shown."""
_BEFORE: Final = 40
"""The number of characters shown before the first difference, for a longer command."""
_DEFAULTS: Final = "defaults"
_JOB: Final = "job"
_BUILT_IN: Final = dict(leaves_set(DEFAULTS))


class DefaultDifference(NamedTuple):
    """A changed value of a job that the defaults of all jobs set before or set now."""

    key: str
    before: str
    after: str
    is_of_job: bool
    """True if the job sets the value itself, before or now. Then the job has changed, and perhaps not the defaults."""


def default_differences(old: Definition, new: Definition) -> list[DefaultDifference]:
    """Return the changed values of a job that the defaults of all jobs set before or set now."""
    was, is_so = _levels(old), _levels(new)
    found = []
    for key in LEAVES:
        before, after = was.get(key), is_so.get(key)
        levels = [one[1] for one in (before, after) if one is not None]
        if before != after and _DEFAULTS in levels:
            found.append(DefaultDifference(key, _told(key, before), _told(key, after), _JOB in levels))
    return found


def differ_in_defaults_only(old: Definition, new: Definition) -> bool:
    """True if two versions differ, and only in the defaults of all jobs."""
    return old != new and replace(old, defaults=new.defaults) == new


def differences(old: Definition, new: Definition) -> tuple[str, ...]:
    """Return the differences, one sentence each."""
    return tuple(_differences(old, new))


def _differences(old: Definition, new: Definition) -> Iterator[str]:
    if old.schedule != new.schedule:
        yield f"schedule: {_words(old.schedule)} -> {_words(new.schedule)}"
    yield from _configuration(old, new)
    before, after = ({task.name: task for task in definition.tasks} for definition in (old, new))
    yield from (f"task {name}: added" for name in after if name not in before)
    yield from (f"task {name}: removed" for name in before if name not in after)
    for name in before:
        if name in after:
            was, will_be = before[name], after[name]
            yield from (f"task {name}: {line}" for line in _runs(was.definition, will_be.definition))
            yield from (f"task {name}: {line}" for line in _options(was.overrides, will_be.overrides))
    both = [[name for name in names if name in before and name in after] for names in (before, after)]
    if both[0] != both[1]:
        yield f"order of tasks: {', '.join(before)} -> {', '.join(after)}"
    for key in ("requires", "on_start", "on_complete"):
        was_so, is_so = ([str(one) for one in getattr(definition, key)] for definition in (old, new))
        if getattr(old, key) != getattr(new, key):
            yield f"{key}: {', '.join(was_so) or 'nothing'} -> {', '.join(is_so) or 'nothing'}"


def _runs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of what a task runs, key by key: the command, its environment, its directory."""
    for key in {**old, **new}:
        was, is_so = (_command(definition.get(key)) for definition in (old, new))
        if was != is_so:
            yield f"{key}: {_cut(was, is_so)} -> {_cut(is_so, was)}"


def _command(value: object) -> str:
    match value:
        case None:
            return "not set"
        case str():
            return value
        case list() | tuple() if all(isinstance(word, str) for word in value):
            return shlex.join(value)
        case _:
            return msgspec.json.encode(value).decode()


def _cut(text: str, other: str) -> str:
    """Return the part of a long text around its first difference from another."""
    if len(text) <= _SHOWN_MAX:
        return text
    same = next((place for place, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), len(other))
    first = max(same - _BEFORE, 0)
    last = first + _SHOWN_MAX
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"


_Set = tuple[object, str]
"""A value, and the level that sets it."""


def _levels(definition: Definition) -> dict[str, _Set]:
    """Return the values that the job or the defaults of all jobs set."""
    return {key: (value, _DEFAULTS) for key, value in leaves_set(definition.defaults)} | {
        key: (value, _JOB) for key, value in leaves_set(definition.overrides)
    }


def _told(key: str, found: _Set | None) -> str:
    if found is not None:
        return f"{_value(found[0])} ({found[1]})"
    built_in = _BUILT_IN.get(key)
    return _value(None) if built_in is None else f"{_value(built_in) or 'none'} (built in)"


def _configuration(old: Definition, new: Definition) -> Iterator[str]:
    """Yield the changed options of a job, with the levels of values that the defaults set."""
    by_defaults = default_differences(old, new)
    told = {one.key for one in by_defaults}
    yield from (f"{one.key}: {one.before} -> {one.after}" for one in by_defaults)
    yield from _options(old.overrides, new.overrides, told)


def _options(old: Overrides, new: Overrides, told: Container[str] = ()) -> Iterator[str]:
    """Yield the changed options of a job or task, without those that are already listed."""
    was, is_so = dict(leaves_set(old)), dict(leaves_set(new))
    for key in LEAVES:
        if was.get(key) != is_so.get(key) and key not in told:
            yield f"{key}: {_value(was.get(key))} -> {_value(is_so.get(key))}"


def _value(value: object) -> str:
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _words(schedule: JsonObject) -> str:
    try:
        return str(from_stored(schedule))
    except ItineraryError:
        return "one that cannot be read here"
