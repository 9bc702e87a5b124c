"""Instants: aware datetimes outside, whole numbers inside.

Everything that schedules compute is a whole number of seconds since the epoch, UTC; what leaves or enters in bulk is
int64 microseconds, as everywhere else in Itinerary. The supported time runs from 1900 to the end of 2199: every search
ends there, so none can hang.

A `Moment` is a point in time as a person wrote it: either absolute, or a wall-clock reading whose zone is not known
yet, since it may come from the job or from a setting.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from reprlib import repr as shown
from typing import Final, NamedTuple, TypeAlias

from itinerary.errors import ScheduleError, WindowError

__all__ = [
    "DAY",
    "EARLIEST",
    "LATEST",
    "MICROSECONDS",
    "InstantLike",
    "Moment",
    "MomentLike",
    "ceil_second",
    "floor_second",
    "from_seconds",
    "microseconds_of",
    "shown_instant",
    "window_seconds",
]

InstantLike: TypeAlias = datetime | int
"""An instant at the edge: an aware datetime, or int64 microseconds since the epoch."""

MICROSECONDS: Final = 1_000_000
DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic has no zone
_ONE_SECOND: Final = timedelta(seconds=1)
_ONE_MICROSECOND: Final = timedelta(microseconds=1)

EARLIEST: Final = (datetime(1900, 1, 1, tzinfo=UTC) - _EPOCH) // _ONE_SECOND
"""The first supported second."""

LATEST: Final = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _ONE_SECOND
"""The first second that is no longer supported."""


def microseconds_of(value: InstantLike) -> int:
    """Microseconds since the epoch of an instant given at the edge; refuses a datetime without a zone."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise WindowError(
                f"{value.isoformat()} has no time zone; give an aware datetime, such as one with tzinfo=UTC"
            )
        return (value - _EPOCH) // _ONE_MICROSECOND
    if isinstance(value, bool) or not isinstance(value, int):
        raise WindowError(f"{value!r} is no instant; give an aware datetime, or microseconds since the epoch")
    return value


def floor_second(value: InstantLike) -> int:
    """The last whole second at or before an instant."""
    return microseconds_of(value) // MICROSECONDS


def ceil_second(value: InstantLike) -> int:
    """The first whole second at or after an instant."""
    return -(-microseconds_of(value) // MICROSECONDS)


def from_seconds(seconds: int) -> datetime:
    """The aware UTC datetime of a second."""
    return _EPOCH + timedelta(seconds=seconds)


def shown_instant(instant: int) -> str:
    """An instant, in microseconds since the epoch, as people and programs read it: 2026-03-29T01:00:00Z."""
    return from_seconds(instant // MICROSECONDS).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_seconds(start: InstantLike, end: InstantLike) -> tuple[int, int]:
    """The half-open window in whole seconds; empty if it ends before it starts. Refuses other years than ours."""
    first, last = ceil_second(start), ceil_second(end)
    for name, value in (("starts", first), ("ends", last)):
        if not EARLIEST <= value <= LATEST:
            raise WindowError(f"the window {name} outside the supported years 1900 to 2199")
    return first, max(first, last)


class Moment(NamedTuple):
    """A point in time as written: seconds since the epoch, read in UTC or, if `is_local`, on a zone's wall clock."""

    seconds: int
    is_local: bool = False

    def __str__(self) -> str:
        text = (_NAIVE_EPOCH + timedelta(seconds=self.seconds)).isoformat()
        return text if self.is_local else text + "Z"

    @classmethod
    def of(cls, value: MomentLike, what: str) -> Moment:
        """Read a moment; `what` names the argument in the error."""
        moment = _read_moment(value, what)
        if not EARLIEST <= moment.seconds < LATEST:
            raise ScheduleError(f"{what}: {value!s} lies outside the supported years 1900 to 2199")
        return moment


MomentLike: TypeAlias = str | date | datetime | Moment
"""The forms of a moment that a caller may pass: ISO 8601 text, a date, a datetime with or without a zone."""

_ISO_MOMENT: Final = re.compile(
    r"\d{4}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII | re.IGNORECASE
)


def _read_moment(value: MomentLike, what: str) -> Moment:
    if isinstance(value, Moment):
        return value
    if isinstance(value, str):
        value = _parse_iso(value, what)
    if isinstance(value, datetime):
        if value.microsecond:
            raise ScheduleError(f"{what}: {value.isoformat()} is not a whole second")
        if value.utcoffset() is None:
            return Moment((value - _NAIVE_EPOCH) // _ONE_SECOND, is_local=True)
        return Moment((value - _EPOCH) // _ONE_SECOND)
    if isinstance(value, date):
        return Moment((value - _NAIVE_EPOCH.date()).days * DAY, is_local=True)
    raise ScheduleError(
        f"{what}: {shown(value)} is no moment; write ISO 8601 such as 2026-01-31T09:00, or give a datetime"
    )


def _parse_iso(text: str, what: str) -> datetime:
    if len(text) <= 40 and _ISO_MOMENT.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper())
        except ValueError as error:
            raise ScheduleError(f"{what}: {text!r} is no date or time: {error}") from None
    shown = text if len(text) <= 40 else text[:40] + "…"
    raise ScheduleError(
        f"{what}: {shown!r} is no ISO 8601 moment to the second, such as 2026-01-31T09:00 or …T09:00:00Z"
    )
