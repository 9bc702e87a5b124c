"""Checks of configuration values, with the error for each wrong value.

A check receives the key and the value, from Python, TOML or HTTP. The check returns the value in its canonical form, or
raises a ConfigError that begins with the key: `retry.max_retries: -1 is out of range 0-1000`. The input may be hostile:
huge, of any type, nested. Checks quote it briefly and never trust it.

Durations are stored as text in one spelling: "90s", "1.5m" and timedelta(seconds=90) all become "1m30s". A bare number
means seconds where people write it and microseconds inside the program. Text cannot be mistaken for either.
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
"""A function from a key and its value to the value in its canonical form."""

Choice = TypeVar("Choice", bound=StrEnum)

DURATION_MAX: Final = 366 * 86_400 * 1_000_000
"""The longest duration in a configuration, in microseconds: a year, with one day of margin."""

_WORDS_MAX: Final = 100
_KEY_MAX: Final = 64
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>))*")


def settle(struct: Struct, prefix: str, checks: Mapping[str, Check]) -> None:
    """Bring each field that is set into its canonical form. For use in `__post_init__`, before the struct is shared."""
    for field, check in checks.items():
        value = getattr(struct, field)
        if value is not None:
            force_setattr(struct, field, check(prefix + field, value))


def check_keys(where: str, given: object, known: Collection[str], prefix: str = "") -> Mapping[str, object]:
    """Return the mapping if every key in it is known.

    Args:
        where: The name of the mapping in errors.
        given: The value to check.
        known: The known keys.
        prefix: The text before the keys in errors.

    Raises:
        ConfigError: The value is not a mapping, or a key is unknown.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {shown(given)} is not a table; allowed keys: {', '.join(known)}")
    for key in given:
        if key not in known:
            name = shown(key).strip("'")
            hint = f"did you mean {close!r}? " if (close := nearest(key, known)) else ""
            raise ConfigError(f"{prefix}{name}: unknown key; {hint}allowed keys: {', '.join(known)}")
    return given


def whole(low: int, high: int) -> Callable[[str, object], int]:
    """Return a check for a whole number from low to high."""

    def check(key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{key}: {shown(value)} is not a whole number; allowed: {low}-{high}")
        if not low <= value <= high:
            raise ConfigError(f"{key}: {shown(value)} is out of range {low}-{high}")
        return value

    return check


def number(low: float, high: float) -> Callable[[str, object], float]:
    """Return a check for a number from low to high, whole or not."""

    def check(key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{key}: {shown(value)} is not a number; allowed: {low}-{high}")
        if not low <= value <= high:
            raise ConfigError(f"{key}: {shown(value)} is out of range {low}-{high}")
        return float(value)

    return check


def duration(low: int, high: int = DURATION_MAX) -> Callable[[str, object], str]:
    """Return a check for a duration from low to high (both in microseconds).

    The check returns its shortest spelling.
    """

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
    """Return a check for a member of an enumeration, or its name as text."""

    def check(key: str, value: object) -> Choice:
        allowed = [member.value for member in choices]
        if not isinstance(value, str) or value not in allowed:
            hint = f"did you mean {close!r}? " if (close := nearest(value, allowed)) else ""
            raise ConfigError(f"{key}: {shown(value)} is unknown; {hint}allowed: {', '.join(allowed)}")
        return choices(value)

    return check


def switch(key: str, value: object) -> bool:
    """Check a boolean."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is neither true nor false")
    return value


def word(key: str, value: object) -> str:
    """Check the name of an object that is looked up elsewhere: an executor, a limit."""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise ConfigError(f"{key}: {shown(value)} is not a name; write letters, digits, '_', '-' and '.', at most 64")
    return value


def words(key: str, value: object) -> tuple[str, ...]:
    """Check a list of names. Return them in alphabetical order, without duplicates."""
    return tuple(sorted({word(key, item) for item in _items(key, value)}))


def zone_name(key: str, value: object) -> str:
    """Check the form of an IANA name. The zone data decides whether the zone exists."""
    if not isinstance(value, str) or len(value) > _KEY_MAX or not _ZONE.fullmatch(value):
        raise ConfigError(f"{key}: {shown(value)} is not a time zone; write an IANA name such as 'Europe/Berlin'")
    return value


def exceptions(key: str, value: object) -> tuple[str, ...]:
    """Check exception classes, or their names as text. Return their names in alphabetical order."""
    return tuple(sorted({_exception(key, item) for item in _items(key, value)}))


def exception_name(error: type[BaseException]) -> str:
    """Return `package.module.Class`, or the bare name of a built-in."""
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
