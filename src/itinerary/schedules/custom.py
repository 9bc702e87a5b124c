"""Schedules that others write.

Anything with these four is a schedule (`CustomSchedule`): `next_after`, `between`, words, plain data. A package offers
its kind through an entry point, so that a stored definition finds its code again:

    [project.entry-points."itinerary.schedules"]
    tides = "harbour.tides:TideTable"          # TideTable.from_json(data) builds one

We do not trust it. What it answers is checked at this door: aware, whole seconds, inside the window, forwards only. One
that goes backwards, stands still or raises is a `ScheduleFaulty`, and its job is quarantined with that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from reprlib import repr as shown
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from itinerary.errors import ScheduleError, ScheduleFaulty, WindowError
from itinerary.schedules.base import Batch, Budget, Found, Schedule, common_arguments
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.instants import LATEST, MomentLike, floor_second, from_seconds
from itinerary.schedules.zones import ZoneSource

__all__ = ["GROUP", "Custom", "CustomSchedule", "custom", "load_custom"]

GROUP: Final = "itinerary.schedules"
_T = TypeVar("_T")


@runtime_checkable
class CustomSchedule(Protocol):
    """What a schedule of your own provides. It must be a value: equal and hashable by content, the same everywhere."""

    @property
    def kind(self) -> str:
        """The name of its entry point."""

    def next_after(self, t: datetime) -> datetime | None:
        """The first instant later than `t`, or None if there is none."""

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        """Every instant in `[start, end)`, ascending."""

    def __str__(self) -> str:
        """What it does, in words."""

    def to_json(self) -> Any:
        """Plain data, from which `from_json` of the entry point's object builds it again."""


@dataclass(frozen=True, slots=True)
class Custom(Schedule):
    """A schedule that somebody else wrote, checked at each answer. Build it with `custom`."""

    kind: ClassVar[str] = "custom"

    value: CustomSchedule

    def __post_init__(self) -> None:
        self._check_common()
        if not isinstance(self.value, CustomSchedule) or not isinstance(self.value.kind, str):
            raise ScheduleError(
                f"{type(self.value).__name__} is no schedule; it needs kind, next_after, between and to_json"
            )
        if type(self.value).__hash__ is None:
            raise ScheduleError(f"{type(self.value).__name__} is no value; make it hashable, as a frozen dataclass is")

    def _next(self, after: int, zones: ZoneSource) -> int | None:  # noqa: ARG002 - zones are the author's business
        return self._ask("next_after", lambda: self._next_checked(after))

    def _next_checked(self, after: int) -> int | None:
        answer = self.value.next_after(from_seconds(after))
        if answer is None:
            return None
        second = self._second(answer)
        if second <= after:
            raise ScheduleFaulty(f"{self._named()} did not advance: next_after({from_seconds(after)}) gave {answer}")
        return second

    def between_seconds(self, start: int, end: int, budget: Budget) -> list[int]:
        """Its checked answer for a window."""
        return self._ask("between", lambda: list(self._between_checked(start, end, budget)))

    def _between_checked(self, start: int, end: int, budget: Budget) -> Iterator[int]:
        """One answer at a time, so that one that never ends is caught at its first fault."""
        before = None
        for answer in self.value.between(from_seconds(start), from_seconds(end)):
            second = self._second(answer)
            if not start <= second < end:
                raise ScheduleFaulty(f"{self._named()} gave {answer}, which is outside the window asked for")
            if before is not None and second <= before:
                raise ScheduleFaulty(f"{self._named()} went from {from_seconds(before)} to {answer} in between")
            budget.spend(1)
            yield second
            before = second

    def _ask(self, what: str, question: Callable[[], _T]) -> _T:
        try:
            return question()
        except (ScheduleFaulty, WindowError):
            raise
        except Exception as error:
            raise ScheduleFaulty(f"{self._named()} raised {type(error).__name__} in {what}: {error}") from error

    def _second(self, answer: object) -> int:
        if not isinstance(answer, datetime):
            raise ScheduleFaulty(f"{self._named()} gave {shown(answer)}; an aware datetime is needed")
        if answer.utcoffset() is None:
            raise ScheduleFaulty(f"{self._named()} gave {answer}, which has no time zone; an aware datetime is needed")
        if answer.microsecond:
            raise ScheduleFaulty(f"{self._named()} gave {answer}, which is not a whole second")
        return min(floor_second(answer), LATEST)

    def _named(self) -> str:
        return f"schedule kind {self.value.kind!r}"

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:  # noqa: ARG003 - zones are the author's business
        return _Batch(tuple(schedules))

    def _words(self) -> str:
        return self._ask("str", lambda: str(self.value))

    def _fields(self) -> dict[str, Any]:
        return {"custom": self.value.kind, "value": self._ask("to_json", self.value.to_json)}


@dataclass(frozen=True, slots=True)
class _Batch:
    """One after another: only the author could do better."""

    schedules: tuple[Custom, ...]

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        answers = [schedule.between_seconds(start, end, budget) for schedule in self.schedules]
        rows = np.repeat(np.arange(len(answers)), [len(answer) for answer in answers])
        return rows, np.array([second for answer in answers for second in answer], np.int64)


def custom(
    value: CustomSchedule,
    *,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    jitter: DurationLike = 0,
) -> Custom:
    """A schedule of your own, with the `start`, `end` and `jitter` that every kind takes."""
    return Custom(value, **common_arguments(tz, start, end, jitter))


def load_custom(kind: str, data: object) -> CustomSchedule:
    """The schedule that a stored definition describes, built by the entry point of its kind."""
    found = _entry_point(kind)
    if found is None:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP))) or "none"
        raise ScheduleError(
            f"schedule kind {kind!r} is not installed (installed: {known}); install the package that offers it"
        )
    try:
        value = found.load().from_json(data)
    except Exception as error:
        raise ScheduleError(f"schedule kind {kind!r} could not be built: {type(error).__name__}: {error}") from error
    if not isinstance(value, CustomSchedule):
        raise ScheduleError(f"schedule kind {kind!r} built a {type(value).__name__}, which is no schedule")
    if value.kind != kind:
        raise ScheduleError(f"schedule kind {kind!r} built one of kind {value.kind!r}, which would not be found again")
    return value


def _entry_point(kind: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=kind)), None)
