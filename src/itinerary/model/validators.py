"""What may stand in a configuration value, and what to say when something else does.

A check takes the key and whatever somebody wrote, from Python, TOML or HTTP, and gives back the value in its one form,
or raises a ConfigError that begins with the key: `retry.max_retries: -1 is out of range 0-1000`. The input may be
hostile: huge, of any type, nested. Checks quote it briefly and never trust it.

Durations keep the form of text, in one spelling ("90s", "1.5m" and timedelta(seconds=90) all become "1m30s"): a bare
number means seconds where people write it and microseconds inside, and text can be mistaken for neither.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from itinerary.errors import ConfigError, DurationError
from itinerary.model.text import shown
from itinerary.schedules.durations import format_duration, parse_duration
from itinerary.schedules.suggestions import nearest

__all__ = [
    "DURATION_MAX",
    "Check",
    "check_keys",
    "duration",
    "exception_name",
    "exceptions",
    "number",
    "one_of",
    "settle",
    "switch",
    "whole",
    "word",
    "words",
    "zone_name",
]

Check: TypeAlias = Callable[[str, object], object]
"""From a key and what was written for it to the value in its one form."""

Choice = TypeVar("Choice", bound=StrEnum)

DURATION_MAX: Final = 366 * 86_400 * 1_000_000
"""The longest duration a configuration takes, in microseconds: a year, and a day for good measure."""

_WORDS_MAX: Final = 100
_KEY_MAX: Final = 64
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))*")


def settle(struct: Struct, prefix: str, checks: Mapping[str, Check]) -> None:
    """Bring each field that is set into its one form. For use in `__post_init__`, where a struct is not yet shared."""
    for field, check in checks.items():
        value = getattr(struct, field)
        if value is not None:
            force_setattr(struct, field, check(prefix + field, value))


def check_keys(where: str, given: object, known: Collection[str], prefix: str = "") -> Mapping[str, object]:
    """The mapping itself, if it is one and every key in it is known; `prefix` stands before its keys in errors."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {shown(given)} is not a table; allowed keys: {', '.join(known)}")
    for key in given:
        if key not in known:
            name = shown(key).strip("'")
            hint = f"did you mean {close!r}? " if (close := nearest(key, known)) else ""
            raise ConfigError(f"{prefix}{name}: unknown key; {hint}allowed keys: {', '.join(known)}")
    return given


def whole(low: int, high: int) -> Callable[[str, object], int]:
    """A whole number from low to high."""

    def check(key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{key}: {shown(value)} is not a whole number; allowed: {low}-{high}")
        if not low <= value <= high:
            raise ConfigError(f"{key}: {shown(value)} is out of range {low}-{high}")
        return value

    return check


def number(low: float, high: float) -> Callable[[str, object], float]:
    """A number from low to high, whole or not."""

    def check(key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{key}: {shown(value)} is not a number; allowed: {low}-{high}")
        if not low <= value <= high:
            raise ConfigError(f"{key}: {shown(value)} is out of range {low}-{high}")
        return float(value)

    return check


def duration(low: int, high: int = DURATION_MAX) -> Callable[[str, object], str]:
    """A duration from low to high (both in microseconds), as text in its shortest spelling."""

    def check(key: str, value: object) -> str:
        if isinstance(value, int) and value.bit_length() > 64:
            raise ConfigError(f"{key}: {shown(value)} is too long; at most {format_duration(high)} is allowed")
        if not isinstance(value, str | int | float | timedelta):
            raise ConfigError(f'{key}: {shown(value)} is not a duration; write "30s", "1h30m" or a number of seconds')
        try:
            microseconds = parse_duration(value, minimum=low)
        except DurationError as error:
            raise ConfigError(f"{key}: {error}") from error
        if microseconds > high:
            raise ConfigError(f"{key}: {format_duration(microseconds)} is too long; at most {format_duration(high)}")
        return format_duration(microseconds)

    return check


def one_of(choices: type[Choice]) -> Callable[[str, object], Choice]:
    """A member of an enumeration, or its name as text."""

    def check(key: str, value: object) -> Choice:
        allowed = [member.value for member in choices]
        if not isinstance(value, str) or value not in allowed:
            hint = f"did you mean {close!r}? " if (close := nearest(value, allowed)) else ""
            raise ConfigError(f"{key}: {shown(value)} is unknown; {hint}allowed: {', '.join(allowed)}")
        return choices(value)

    return check


def switch(key: str, value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is neither true nor false")
    return value


def word(key: str, value: object) -> str:
    """The name of a thing that is looked up elsewhere: an executor, a limit."""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise ConfigError(f"{key}: {shown(value)} is not a name; write letters, digits, '_', '-' and '.', at most 64")
    return value


def words(key: str, value: object) -> tuple[str, ...]:
    """Names in alphabetical order, each once."""
    return tuple(sorted({word(key, item) for item in _items(key, value)}))


def zone_name(key: str, value: object) -> str:
    """The shape of an IANA name. Whether the zone exists is for the zone data to say."""
    if not isinstance(value, str) or len(value) > _KEY_MAX or not _ZONE.fullmatch(value):
        raise ConfigError(f"{key}: {shown(value)} is not a time zone; write an IANA name such as 'Europe/Berlin'")
    return value


def exceptions(key: str, value: object) -> tuple[str, ...]:
    """Exception classes, or their names as text, as names in alphabetical order."""
    return tuple(sorted({_exception(key, item) for item in _items(key, value)}))


def exception_name(error: type[BaseException]) -> str:
    """`package.module.Class`, or the bare name of a built-in."""
    return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"


def _exception(key: str, value: object) -> str:
    name = exception_name(value) if isinstance(value, type) and issubclass(value, BaseException) else value
    if not isinstance(name, str) or len(name) > 255 or not _DOTTED.fullmatch(name):
        raise ConfigError(f"{key}: {shown(name)} is not an exception; write 'ValueError' or 'package.module.Class'")
    return name


def _items(key: str, value: object) -> Iterable[object]:
    if not isinstance(value, list | tuple | set | frozenset):
        raise ConfigError(f"{key}: {shown(value)} is not a list of names")
    if len(value) > _WORDS_MAX:
        raise ConfigError(f"{key}: {len(value)} names are too many; {_WORDS_MAX} are allowed")
    return value
