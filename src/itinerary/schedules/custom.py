"""Schedules that others write.

Anything with these four is a schedule (`CustomSchedule`): `next_after`, `between`, words, plain data. A package offers
its kind through an entry point, so that a stored definition finds its code again:

    [project.entry-points."itinerary.schedules"]
    tides = "harbour.tides:TideTable"          # TideTable.from_json(data) builds one

We do not trust it. What it answers is checked at this door: aware, whole seconds, inside the window, forwards only. One
that goes backwards, stands still or raises is a `ScheduleFaulty`, and its job is quarantined with that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from itinerary.errors import ItineraryError, ScheduleError, ScheduleFaulty
from itinerary.schedules.base import INSTANTS_MAX, Batch, Budget, Found, Schedule, common_arguments
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

    def _next(self, after: int, zones: ZoneSource) -> int | None:  # noqa: ARG002 - zones are the author's business
        answer = self._ask("next_after", lambda: self.value.next_after(from_seconds(after)))
        if answer is None:
            return None
        second = self._second(answer)
        if second <= after:
            raise ScheduleFaulty(f"{self._named()} did not advance: next_after({from_seconds(after)}) gave {answer}")
        return second

    def between_seconds(self, start: int, end: int) -> list[int]:
        """Its checked answer for a window."""
        answers = self._ask(
            "between",
            lambda: list(islice(self.value.between(from_seconds(start), from_seconds(end)), INSTANTS_MAX + 1)),
        )
        seconds = [self._second(answer) for answer in answers]
        for before, second in zip([start - 1, *seconds], [*seconds, end], strict=True):
            if second <= before and before != start - 1:
                raise ScheduleFaulty(
                    f"{self._named()} went from {from_seconds(before)} to {from_seconds(second)} in between"
                )
            if second < start or second > end:
                raise ScheduleFaulty(
                    f"{self._named()} gave {from_seconds(second)}, which is outside the window asked for"
                )
        return seconds

    def _ask(self, what: str, question: Callable[[], _T]) -> _T:
        try:
            return question()
        except ItineraryError:
            raise
        except Exception as error:
            raise ScheduleFaulty(f"{self._named()} raised {type(error).__name__} in {what}: {error}") from error

    def _second(self, answer: object) -> int:
        if not isinstance(answer, datetime) or answer.tzinfo is None:
            raise ScheduleFaulty(f"{self._named()} gave {answer!r}; an aware datetime is needed")
        if answer.microsecond:
            raise ScheduleFaulty(f"{self._named()} gave {answer}, which is not a whole second")
        return min(floor_second(answer.astimezone(UTC)), LATEST)

    def _named(self) -> str:
        return f"schedule kind {self.value.kind!r}"

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:  # noqa: ARG003 - zones are the author's business
        return _Batch(tuple(schedules))

    def _words(self) -> str:
        return str(self.value)

    def _fields(self) -> dict[str, Any]:
        return {"custom": self.value.kind, "value": self.value.to_json()}


@dataclass(frozen=True, slots=True)
class _Batch:
    """One after another: only the author could do better."""

    schedules: tuple[Custom, ...]

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        answers = []
        for schedule in self.schedules:
            answers.append(schedule.between_seconds(start, end))
            budget.spend(len(answers[-1]))
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
    return value


def _entry_point(kind: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=kind)), None)
