"""Calendars: the days and hours on which nothing runs.

A calendar has dates (holidays), may close on weekends, and has blackouts from one moment to another. A schedule that
excludes one passes over what falls there, or moves it to the same time of the next or previous business day: the
nearest day that is neither a date of the calendar nor a weekend, at which no blackout is in force. Two instants that
move onto one count once.

Dates are days of the schedule's zone. A named calendar can be left to the job or the server: `excluding(schedule,
"holidays")` is filled in when the schedule is bound, and editing the calendar is then a change like any other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from reprlib import repr as shown
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError
from itinerary.schedules.instants import DAY, Moment, MomentLike
from itinerary.schedules.wallclock import instant_of
from itinerary.schedules.zones import Zone

__all__ = ["CLOSED_MAX", "Calendar", "Closures"]

ENTRIES_MAX: Final = 10_000
CLOSED_MAX: Final = 366
"""How many days a search for a business day looks at before it gives up, and the instant is passed over."""
_EPOCH: Final = date(1970, 1, 1)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

Blackout: TypeAlias = tuple[Moment, Moment]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days and hours on which nothing runs."""

    name: str
    dates: tuple[date, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    """From one moment up to, and not including, another."""
    weekend: tuple[str, ...] = ("saturday", "sunday")
    """Which days are no business days."""
    closed_on_weekends: bool = False
    """Whether weekends are excluded too, or only no target to move to."""

    def __init__(
        self,
        name: str,
        dates: Iterable[date | str] = (),
        blackouts: Iterable[tuple[MomentLike, MomentLike]] = (),
        weekend: Iterable[str] = ("saturday", "sunday"),
        *,
        closed_on_weekends: bool = False,
    ) -> None:
        if not isinstance(name, str) or not 1 <= len(name) <= 255:
            raise ScheduleError(f"a calendar's name is text of 1 to 255 characters, not {shown(name)}")
        if not isinstance(closed_on_weekends, bool):
            raise ScheduleError(
                f"calendar {name!r}: closed_on_weekends is true or false, not {shown(closed_on_weekends)}"
            )
        days = tuple(sorted({_date(name, value) for value in _items(name, "dates", dates)}))
        windows = tuple(sorted({_blackout(name, window) for window in _items(name, "blackouts", blackouts)}))
        if len(days) + len(windows) > ENTRIES_MAX:
            raise ScheduleError(
                f"calendar {name!r} has {len(days) + len(windows)} entries; at most {ENTRIES_MAX} are allowed"
            )
        off = tuple(sorted({_weekday(name, day) for day in _items(name, "weekend", weekend)}, key=_WEEKDAYS.index))
        if len(off) == 7:
            raise ScheduleError(f"calendar {name!r} has seven days of weekend; leave at least one business day")
        values = (name, days, windows, off, closed_on_weekends)
        for key, value in zip(("name", "dates", "blackouts", "weekend", "closed_on_weekends"), values, strict=True):
            object.__setattr__(self, key, value)

    def to_json(self) -> dict[str, Any]:
        """Plain data; only what differs from an empty calendar."""
        data: dict[str, Any] = {"name": self.name}
        if self.dates:
            data["dates"] = [day.isoformat() for day in self.dates]
        if self.blackouts:
            data["blackouts"] = [[str(start), str(end)] for start, end in self.blackouts]
        if self.weekend != ("saturday", "sunday"):
            data["weekend"] = list(self.weekend)
        if self.closed_on_weekends:
            data["closed_on_weekends"] = True
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calendar:
        """Read `to_json` back; unknown keys are errors."""
        known = ("name", "dates", "blackouts", "weekend", "closed_on_weekends")
        for key in data:
            if key not in known:
                raise ScheduleError(f"calendar: key {shown(key)} is unknown; allowed are {', '.join(known)}")
        if "name" not in data:
            raise ScheduleError("calendar: a name is missing")
        return cls(**data)


def _items(name: str, key: str, values: Iterable[_T]) -> Iterable[_T]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ScheduleError(f"calendar {name!r}: {key} is a list, not {shown(values)}")
    return values


def _date(name: str, value: date | str) -> date:
    try:
        parsed = date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        parsed = None
    if isinstance(parsed, datetime) or not isinstance(parsed, date):
        raise ScheduleError(f"calendar {name!r}: {shown(value)} is no date; write it as 2026-12-25")
    return parsed


def _blackout(name: str, window: tuple[MomentLike, MomentLike]) -> Blackout:
    try:
        start, end = window
    except (TypeError, ValueError):
        raise ScheduleError(f"calendar {name!r}: blackout {shown(window)} is no pair of moments") from None
    first, last = (Moment.of(moment, f"calendar {name!r}: blackout") for moment in (start, end))
    if first.is_local == last.is_local and last.seconds <= first.seconds:
        raise ScheduleError(f"calendar {name!r}: blackout ends at {last}, which is not after its start {first}")
    return first, last


def _weekday(name: str, value: str) -> str:
    text = value.lower() if isinstance(value, str) else ""
    matching = [day for day in _WEEKDAYS if len(text) >= 3 and day.startswith(text)]
    if not matching:
        raise ScheduleError(
            f"calendar {name!r}: weekend day {shown(value)} is unknown; allowed are {', '.join(_WEEKDAYS)}"
        )
    return matching[0]


@dataclass(frozen=True, slots=True)
class Closures:
    """A calendar in one zone, ready to be asked: days since the epoch, seconds since the epoch."""

    zone: Zone
    closed_days: NDArray[np.int64]
    weekend: frozenset[int]
    """0 is Monday."""
    closed_on_weekends: bool
    blackout_starts: NDArray[np.int64]
    blackout_ends: NDArray[np.int64]

    @classmethod
    def of(cls, calendar: Calendar, zone: Zone) -> Closures:
        """The calendar's closures in a zone; overlapping blackouts become one."""
        merged: list[list[int]] = []
        for start, end in sorted((instant_of(zone, a), instant_of(zone, b)) for a, b in calendar.blackouts):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        starts, ends = np.array(merged, np.int64).reshape(-1, 2).T
        days = np.array([(day - _EPOCH) // timedelta(days=1) for day in calendar.dates], np.int64)
        weekend = frozenset(_WEEKDAYS.index(day) for day in calendar.weekend)
        return cls(zone, days, weekend, calendar.closed_on_weekends, starts, ends)

    def excludes(self, seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which instants fall on a closed day or into a blackout."""
        days = self.readings(seconds) // DAY
        closed = np.isin(days, self.closed_days)
        if self.closed_on_weekends:
            closed |= self._is_weekend(days)
        return closed | self.blacked_out(seconds)

    def readings(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the wall-clock reading at each instant."""
        starts, offsets = self.zone.arrays()
        return seconds + offsets[np.searchsorted(starts, seconds, side="right") - 1]

    def blacked_out(self, seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which instants fall into a blackout."""
        if not len(self.blackout_starts):
            return np.zeros(len(seconds), np.bool_)
        at = np.searchsorted(self.blackout_starts, seconds, side="right") - 1
        return (at >= 0) & (seconds < self.blackout_ends[at])

    def is_business_day(self, days: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which days an instant may be moved to."""
        return ~(np.isin(days, self.closed_days) | self._is_weekend(days))

    def _is_weekend(self, days: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin((days + 3) % 7, list(self.weekend))  # the epoch was a Thursday

    def closed_run(self, day: int, step: int) -> int:
        """How many days in a row, from `day` on in one direction, an instant might have to move over."""
        closed, count = {*self.closed_days.tolist()}, 0
        while count < CLOSED_MAX:
            if day not in closed and (day + 3) % 7 not in self.weekend and not self._touches(day):
                break
            day, count = day + step, count + 1
        return count

    def _touches(self, day: int) -> bool:
        """True if a blackout may be in force at some time of a local day, wherever the zone is."""
        at = bisect_right(self.blackout_starts, (day + 2) * DAY) - 1
        return at >= 0 and bool(self.blackout_ends[at] > (day - 1) * DAY)

    def reopens_after(self, second: int) -> int | None:
        """The last second of the closure that an instant falls into, or None if it is open then."""
        at = bisect_right(self.blackout_starts, second) - 1
        if at >= 0 and second < self.blackout_ends[at]:
            return int(self.blackout_ends[at]) - 1
        day = self.zone.reading(Moment(second)) // DAY
        position = int(np.searchsorted(self.closed_days, day))
        closed = position < len(self.closed_days) and self.closed_days[position] == day
        if closed or (self.closed_on_weekends and (day + 3) % 7 in self.weekend):
            return max(instant_of(self.zone, Moment((day + 1) * DAY, is_local=True)) - 1, second)
        return None
