"""The base of all schedules: a schedule is a value that yields instants, forwards only.

A schedule has no state, reads no clock and does no I/O. Two independent implementations yield its instants, and the
tests compare them:

    next_after(t)          one at a time, in plain integers
    between(start, end)    a whole window, in NumPy arrays

A kind of schedule is a frozen dataclass under `Schedule`. The kind defines how to find its next instant (`_next`), how
to enumerate many of its kind at once (`batch`), and how to serialise itself. This module has the shared parts: the
zone, the active range `start` to `end`, the jitter, and the guarantee that `next_after(t)` is later than `t`.

A definition may leave out values that only its job has: the zone, the name behind `H`, the anchor of a bare duration,
the dates of a named calendar. `bind` fills them in, once; `open_question` names the missing value until then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError, ScheduleFaulty, WindowError
from itinerary.schedules.durations import DurationLike, format_duration, parse_duration
from itinerary.schedules.instants import (
    EARLIEST,
    LATEST,
    MICROSECONDS,
    InstantLike,
    Moment,
    MomentLike,
    floor_second,
    from_seconds,
    window_seconds,
)
from itinerary.schedules.wallclock import ClockChangePolicy, Gap, Repeat, instant_of
from itinerary.schedules.zones import UTC_NAME, Zone, ZoneSource, packaged_zone

if TYPE_CHECKING:
    from itinerary.schedules.calendars import Calendar

__all__ = [
    "INSTANTS_MAX",
    "Batch",
    "Binding",
    "Budget",
    "Found",
    "Schedule",
    "WallClockSchedule",
    "common_arguments",
    "wall_clock_arguments",
    "zones_taken_on_trust",
]

INSTANTS_MAX: Final = 10_000_000
"""How many instants one call may return."""

NESTING_MAX: Final = 8
JITTER_MAX: Final = 86_400 * MICROSECONDS
"""A day: beyond that it is no longer a spread, but another schedule."""

Found: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Which schedule of a batch, and at which second: two arrays of one length, unsorted, each pair once."""


class Budget:
    """How many instants a call may still produce. Spent before they are materialised, so that a refusal is cheap."""

    __slots__ = ("_left",)

    def __init__(self, limit: int = INSTANTS_MAX) -> None:
        self._left = limit

    def spend(self, count: int) -> None:
        """Take note that `count` instants are about to be produced; raises WindowError when that is too many."""
        self._left -= count
        if self._left < 0:
            raise WindowError(
                f"the window holds more than {INSTANTS_MAX:,} instants, the most that one call returns; "
                "ask for a shorter window"
            )


class Batch(Protocol):
    """Many schedules of one kind, compiled for enumeration."""

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        """Every instant of every schedule in `[start, end)`, in seconds, before `start` and `end` of the schedules."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The values of a job that its schedule may have left open."""

    job: str
    timezone: str = UTC_NAME
    registered_at: int = 0
    """When the job was first registered, in seconds: the anchor of a bare duration."""
    calendars: Mapping[str, Calendar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(ABC):
    """The common part of every kind. Equal and hashable by value."""

    kind: ClassVar[str]

    tz: str | None = None
    """IANA name, or None for the job's, the setting's, or UTC."""
    start: Moment | None = None
    """When it becomes active, inclusive; not when it first fires."""
    end: Moment | None = None
    """The last moment at which it may fire, inclusive."""
    jitter: int = 0
    """Up to how many microseconds a start is delayed, by the occurrence's id. Instants do not move."""

    # -- asking ------------------------------------------------------------------------------------------------------

    def next_after(self, t: InstantLike, zones: ZoneSource = packaged_zone) -> datetime | None:
        """The first instant later than `t`, or None if there is none before 2200."""
        found = self.next_second(floor_second(t), zones)
        return None if found is None else from_seconds(found)

    def between(self, start: InstantLike, end: InstantLike, zones: ZoneSource = packaged_zone) -> list[datetime]:
        """Every instant in `[start, end)`, in order."""
        self.require_ready()
        first, last = window_seconds(start, end)
        low, high = self.active_range(zones)
        first, last = max(first, low), min(last, high + 1)
        if first >= last:
            return []
        _, seconds = self.batch([self], zones).enumerate(first, last, Budget())
        seconds.sort()
        return [from_seconds(second) for second in seconds.tolist()]

    def next_second(self, after: int, zones: ZoneSource = packaged_zone) -> int | None:
        """`next_after` in whole seconds."""
        self.require_ready()
        low, high = self.active_range(zones)
        after = max(after, low - 1)
        if after >= min(high, LATEST - 1):
            return None
        found = self._next(after, zones)
        if found is None or found > high or found >= LATEST:
            return None
        if found <= after:
            raise ScheduleFaulty(
                f"schedule {self} did not advance: after {from_seconds(after)} it gave {from_seconds(found)}"
            )
        return found

    def active_range(self, zones: ZoneSource = packaged_zone) -> tuple[int, int]:
        """The first and the last second at which it may fire; the supported time where it sets no bound."""
        if self.start is None and self.end is None:
            return EARLIEST, LATEST - 1
        zone = self.zone(zones)
        low = EARLIEST if self.start is None else instant_of(zone, self.start)
        high = LATEST - 1 if self.end is None else instant_of(zone, self.end)
        return max(low, EARLIEST), min(high, LATEST - 1)

    def zone(self, zones: ZoneSource = packaged_zone) -> Zone:
        """Its time zone, UTC if none was set."""
        return zones(self.tz or UTC_NAME)

    # -- what a kind provides ----------------------------------------------------------------------------------------

    @abstractmethod
    def _next(self, after: int, zones: ZoneSource) -> int | None:
        """The first second later than `after`, regardless of `start` and `end`."""

    @classmethod
    @abstractmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        """Many of this kind, compiled for enumeration."""

    @abstractmethod
    def _words(self) -> str:
        """Describe the schedule in words, without zone and range."""

    @abstractmethod
    def _fields(self) -> dict[str, Any]:
        """Return the fields of this kind as plain data. The first key is the kind."""

    def inner(self) -> tuple[Schedule, ...]:
        """The schedules that it is made of, for a kind that combines others."""
        return ()

    def zone_names(self, otherwise: str = UTC_NAME) -> frozenset[str]:
        """The zones that its instants depend on, its own and those of its parts; `otherwise` where none was set."""
        own = frozenset((self.tz or otherwise,))
        return own.union(*(schedule.zone_names(otherwise) for schedule in inner)) if (inner := self.inner()) else own

    def check_nesting(self, depth: int) -> None:
        """Raise if this, as a part of another, is nested deeper than anyone means, or has what no part has."""
        if self.jitter:
            raise ScheduleError("jitter is about starts, and a part of a schedule has none; set it on the whole")
        if depth > NESTING_MAX:
            raise ScheduleError(f"schedules are nested more than {NESTING_MAX} deep; flatten them")
        for schedule in self.inner():
            schedule.check_nesting(depth + 1)

    def open_question(self) -> str | None:
        """Return what is still missing before the schedule can yield instants, or None."""
        return None

    def bind(self, binding: Binding) -> Self:
        """This schedule with everything filled in that was left open."""
        return self.inheriting(binding.timezone)

    def inheriting(self, tz: str | None) -> Self:
        """This schedule in a zone that it is given from outside, unless it has one of its own."""
        return self if self.tz or tz is None else replace(self, tz=tz)

    # -- writing down ------------------------------------------------------------------------------------------------

    def require_ready(self) -> None:
        """Raise if something is still missing."""
        if question := self.open_question():
            raise ScheduleError(f"{self.kind} schedule is not complete: {question}")

    def __str__(self) -> str:
        parts = [self._words()]
        if self.tz and self._shows_zone():
            parts.append(self.tz)
        if self.start:
            parts.append(f"from {self.start}")
        if self.end:
            parts.append(f"until {self.end}")
        if self.jitter:
            parts.append(f"started up to {format_duration(self.jitter)} later")
        return ", ".join(parts)

    def _shows_zone(self) -> bool:
        return True

    def to_json(self) -> dict[str, Any]:
        """Plain data that `itinerary.schedules.from_json` reads back; only what was set."""
        data = {**self._fields(), **self.shared_fields()}
        return {
            key: value.value if isinstance(value, StrEnum) else value
            for key, value in data.items()
            if value is not None
        }

    def shared_fields(self) -> dict[str, Any]:
        """Return the fields that all kinds share, as plain data."""
        return {
            "tz": self.tz,
            "start": None if self.start is None else str(self.start),
            "end": None if self.end is None else str(self.end),
            "jitter": format_duration(self.jitter) if self.jitter else None,
        }

    def _check_common(self) -> None:
        """Check the fields that all kinds share."""
        if self.tz is not None:
            check_zone(self.tz)
        if self.jitter > JITTER_MAX:
            raise ScheduleError(
                f"jitter {format_duration(self.jitter)} is too long; at most {format_duration(JITTER_MAX)}"
            )
        if (
            self.start
            and self.end
            and self.start.is_local == self.end.is_local
            and self.end.seconds < self.start.seconds
        ):
            raise ScheduleError(f"end {self.end} is before start {self.start}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClockSchedule(Schedule):
    """A kind that matches readings of a wall clock, and so can say what happens where that clock shifts."""

    gap: Gap | None = None
    repeat: Repeat | None = None

    def policy_over(self, default: ClockChangePolicy) -> ClockChangePolicy:
        """Return the chosen policy, with the default for the parts that were not chosen."""
        if self.gap is None and self.repeat is None:
            return default
        return ClockChangePolicy(self.gap or default.gap, self.repeat or default.repeat)

    def shared_fields(self) -> dict[str, Any]:
        return {"gap": self.gap, "repeat": self.repeat, **Schedule.shared_fields(self)}


_CHECKS_ZONES: Final = ContextVar("whether the names of zones are looked up when a schedule is made", default=True)


def check_zone(name: str) -> None:
    """Raise UnknownZone if the packaged zone data has no such name."""
    if name != UTC_NAME and _CHECKS_ZONES.get():
        packaged_zone(name)


@contextmanager
def zones_taken_on_trust() -> Iterator[None]:
    """Within it schedules are made whose zones this program need not have: they are enumerated with other tables."""
    token = _CHECKS_ZONES.set(False)
    try:
        yield
    finally:
        _CHECKS_ZONES.reset(token)


def common_arguments(
    tz: str | None, start: MomentLike | None, end: MomentLike | None, jitter: DurationLike
) -> dict[str, Any]:
    """The arguments that every kind takes, from what a person wrote to what a schedule holds."""
    return {
        "tz": tz,
        "start": None if start is None else Moment.of(start, "start"),
        "end": None if end is None else Moment.of(end, "end"),
        "jitter": parse_duration(jitter),
    }


def wall_clock_arguments(
    tz: str | None,
    start: MomentLike | None,
    end: MomentLike | None,
    jitter: DurationLike,
    gap: str | None,
    repeat: str | None,
) -> dict[str, Any]:
    """The arguments of every kind, and those of a wall clock."""
    return {**common_arguments(tz, start, end, jitter), "gap": Gap.of(gap), "repeat": Repeat.of(repeat)}
