"""Several schedules as one: it fires when any of them does. Two that agree on an instant count once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError
from itinerary.schedules.base import Batch, Binding, Budget, Found, Schedule, common_arguments
from itinerary.schedules.bulk import ScheduleTable
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.instants import MomentLike
from itinerary.schedules.zones import ZoneSource

__all__ = ["MEMBERS_MAX", "Union", "distinct", "union"]

MEMBERS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Union(Schedule):
    """Any of its members. Build it with `union`."""

    kind: ClassVar[str] = "union"

    members: tuple[Schedule, ...]

    def __post_init__(self) -> None:
        self._check_common()
        if not 1 <= len(self.members) <= MEMBERS_MAX:
            raise ScheduleError(f"a union has 1 to {MEMBERS_MAX} members, not {len(self.members)}")
        for number, member in enumerate(self.members, 1):
            if not isinstance(member, Schedule):
                raise ScheduleError(f"member {number} of a union is no schedule but {type(member).__name__}")
            member.check_nesting(2)
        object.__setattr__(self, "members", tuple(member.inheriting(self.tz) for member in self.members))

    def inner(self) -> tuple[Schedule, ...]:
        return self.members

    def _next(self, after: int, zones: ZoneSource) -> int | None:
        found = (member.next_second(after, zones) for member in self.members)
        return min((second for second in found if second is not None), default=None)

    @classmethod
    def batch(cls, schedules: Sequence[Self], zones: ZoneSource) -> Batch:
        members = [member for schedule in schedules for member in schedule.members]
        owners = np.repeat(np.arange(len(schedules)), [len(schedule.members) for schedule in schedules])
        return _Batch(ScheduleTable.compile(members, zones), owners)

    def open_question(self) -> str | None:
        return next(filter(None, (member.open_question() for member in self.members)), None)

    def bind(self, binding: Binding) -> Self:
        zone = self.tz or binding.timezone
        inherited = replace(binding, timezone=zone)
        return replace(self, tz=zone, members=tuple(member.bind(inherited) for member in self.members))

    def _words(self) -> str:
        first, *others = map(str, self.members)
        return "; or ".join((first, *(words[:1].lower() + words[1:] for words in others)))

    def _shows_zone(self) -> bool:
        return False

    def _fields(self) -> dict[str, Any]:
        return {"union": [member.to_json() for member in self.members]}


@dataclass(frozen=True, slots=True)
class _Batch:
    table: ScheduleTable
    owners: NDArray[np.int64]

    def enumerate(self, start: int, end: int, budget: Budget) -> Found:
        rows, seconds = self.table.seconds(start, end, budget)
        return distinct(self.owners[rows], seconds)


def distinct(rows: NDArray[np.int64], seconds: NDArray[np.int64]) -> Found:
    """Remove duplicate pairs. Seconds of the supported time fit into 34 bits with their sign."""
    keys = np.unique(rows << 34 | (seconds + (1 << 33)))
    return keys >> 34, (keys & ((1 << 34) - 1)) - (1 << 33)


def union(
    *members: Schedule,
    tz: str | None = None,
    start: MomentLike | None = None,
    end: MomentLike | None = None,
    jitter: DurationLike = 0,
) -> Union:
    """Any of several schedules: `union(cron("0 9 * * 1-5"), cron("0 11 * * 6,7"))`."""
    return Union(members, **common_arguments(tz, start, end, jitter))
