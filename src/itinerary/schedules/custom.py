"""Custom schedules: classes that users write.

A class with these four parts is a schedule (`CustomSchedule`): `next_after`, `between`, words, plain data. A stored
definition has the name of its kind, and finds the class again in one of two ways:

    @schedule("tides")                          the program registers its class, and every node imports the program
    class TideTable: …                          TideTable.from_json(data) builds one

    [project.entry-points."itinerary.schedules"]
    tides = "harbour.tides:TideTable"           an installed package offers its class

A class that the program registered takes precedence over one of an installed package.

Custom schedules are not trusted. Every answer is checked here: aware, whole seconds, inside the window, forwards only.
A schedule that goes backwards, does not advance or raises is a `ScheduleFaulty`, and its job is quarantined with that
reason.
"""

from __future__ import annotations

import sys
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

__all__ = ["GROUP", "Custom", "CustomSchedule", "custom", "has_registered_kinds", "load_custom", "schedule"]

GROUP: Final = "itinerary.schedules"
_NAME_MAX: Final = 255
_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)
_registered: Final[dict[str, Any]] = {}
"""The classes that this process registered, by kind."""


@runtime_checkable
class CustomSchedule(Protocol):
    """The interface of a custom schedule, a value that is equal and hashable by content, and the same on every node."""

    @property
    def kind(self) -> str:
        """The name that it is registered by, or the name of its entry point."""

    def next_after(self, t: datetime) -> datetime | None:
        """The first instant later than `t`, or None if there is none."""

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        """Every instant in `[start, end)`, ascending."""

    def __str__(self) -> str:
        """Describe the schedule in words."""

    def to_json(self) -> Any:
        """Plain data, from which `from_json` of the entry point's object builds it again."""


@dataclass(frozen=True, slots=True)
class Custom(Schedule):
    """A custom schedule whose every answer is checked. Build it with `custom`."""

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
        """Yield the answers one at a time, so that an endless answer is stopped at its first fault."""
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
    """Many custom schedules, enumerated one after another, since only their authors could do better."""

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


def schedule(kind: str) -> Callable[[_Class], _Class]:
    """Register a class of schedules by the name of its kind, so that stored definitions find it again.

        @schedule("tides")
        @dataclass(frozen=True)
        class Tides: …

    Put it outermost. The class gets `kind` if it has none. Every node that runs such a job must import the program.

    Raises:
        ScheduleError: the name cannot be used, the class has no `from_json`, or another class has the name.
    """
    if not isinstance(kind, str) or not kind.strip() or kind != kind.strip() or len(kind) > _NAME_MAX:
        raise ScheduleError(
            f"{shown(kind)} is no name of a kind; write 1 to {_NAME_MAX} characters without spaces around them: "
            '@schedule("tides")'
        )

    def register(cls: _Class) -> _Class:
        if not isinstance(cls, type):
            raise ScheduleError(f"@schedule({kind!r}) is for a class, not for {shown(cls)}")
        if not callable(getattr(cls, "from_json", None)):
            raise ScheduleError(f"{cls.__name__} has no from_json; give it a class method that builds one from data")
        named = getattr(cls, "kind", None)
        if isinstance(named, str) and named != kind:
            raise ScheduleError(f"{cls.__name__} has the kind {named!r} and is registered as {kind!r}; use one name")
        before = _registered.get(kind)
        if before is not None and _origin(before) != _origin(cls):
            raise ScheduleError(
                f"schedule kind {kind!r} is registered by {before.__module__}.{before.__qualname__} already; "
                f"give {cls.__module__}.{cls.__qualname__} another name"
            )
        if named is None:
            cls.kind = kind  # type: ignore[attr-defined]
        _registered[kind] = cls
        return cls

    return register


def has_registered_kinds() -> bool:
    """True if this process has registered kinds of its own, which another process does not know."""
    return bool(_registered)


def _origin(cls: type) -> tuple[str, str]:
    """Where a class is written: a program that runs as `__main__` and is imported too defines the same class twice."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file or cls.__module__, cls.__qualname__


def load_custom(kind: str, data: object) -> CustomSchedule:
    """Build the schedule that a stored definition describes, with the class that is registered or installed."""
    found = _registered.get(kind)
    point = None if found is not None else _entry_point(kind)
    if found is None and point is None:
        known = ", ".join(sorted(point.name for point in entry_points(group=GROUP))) or "none"
        raise ScheduleError(
            f"schedule kind {kind!r} is not installed (installed: {known}); install the package that offers it, "
            "or import the program that registers it"
        )
    try:
        maker: Any = found if point is None else point.load()
        value = maker.from_json(data)
    except Exception as error:
        raise ScheduleError(f"schedule kind {kind!r} could not be built: {type(error).__name__}: {error}") from error
    if not isinstance(value, CustomSchedule):
        raise ScheduleError(f"schedule kind {kind!r} built a {type(value).__name__}, which is no schedule")
    if value.kind != kind:
        raise ScheduleError(f"schedule kind {kind!r} built one of kind {value.kind!r}, which would not be found again")
    return value


def _entry_point(kind: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=kind)), None)
