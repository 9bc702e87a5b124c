"""Instants and durations for people: on the clock of the job's zone, and only as precise as needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from itinerary.model.states import TaskState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import DAY
from itinerary.schedules.wallclock import ClockChangePolicy, Gap, Repeat, instants_at
from itinerary.schedules.zones import Zone

__all__ = ["AS_THE_CLOCK_SHOWS", "STATUS_WORDS", "LocalTime", "listed", "spoken"]

AS_THE_CLOCK_SHOWS: Final = ClockChangePolicy(Gap.SKIP, Repeat.BOTH)
"""The policy that yields every instant at which the clock shows a reading."""
STATUS_WORDS: Final[Mapping[TaskState, str]] = MappingProxyType(
    {
        TaskState.PENDING: "waits",
        TaskState.RUNNING: "runs",
        TaskState.SUCCESS: "succeeded",
        TaskState.FAILED: "failed",
        TaskState.TIMEOUT: "timed out",
        TaskState.CANCELLED: "was cancelled",
        TaskState.SKIPPED: "was skipped",
    }
)
"""The status of a task or an attempt in words."""
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LocalTime:
    """The clock of one zone. Instants on the day of the question are shown without their date."""

    def __init__(self, zone: Zone, about: int) -> None:
        self.zone = zone
        self._day = self._reading(about) // DAY

    def full(self, instant: int) -> str:
        """Return day, time and zone: 2026-03-29 03:00:00 Europe/Berlin."""
        return f"{self.dated(instant)} {self.zone.name}"

    def dated(self, instant: int) -> str:
        """Return day and time: 2026-03-29 03:00:00. The offset is added if the clock shows this time twice."""
        reading = self._reading(instant)
        shown = (_EPOCH + timedelta(seconds=reading)).strftime("%Y-%m-%d %H:%M:%S")
        if len(instants_at(self.zone, AS_THE_CLOCK_SHOWS, reading)) > 1:
            shown += f" ({self._offset(instant // SECOND)})"
        return shown

    def brief(self, instant: int) -> str:
        """Return the time, with the date if the day differs from the day of the question."""
        shown = self.dated(instant)
        return shown if self._reading(instant) // DAY != self._day else shown.split(" ", 1)[1]

    def _reading(self, instant: int) -> int:
        second = instant // SECOND
        return second + self._ahead(second)

    def _ahead(self, second: int) -> int:
        return self.zone.offsets[max(bisect_right(self.zone.starts, second) - 1, 0)]

    def _offset(self, second: int) -> str:
        ahead = self._ahead(second)
        hours, minutes = divmod(abs(ahead) // 60, 60)
        return f"{'-' if ahead < 0 else '+'}{hours:02}:{minutes:02}"


def spoken(duration: int) -> str:
    """Return a duration in microseconds as text, in its two largest units: 2 h 15 min, 52 ms."""
    if duration < SECOND:
        return f"{max(duration, 0) // 1_000} ms"
    if duration < 10 * SECOND and duration % SECOND:
        return f"{duration / SECOND:.1f} s"
    seconds, parts = duration // SECOND, []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


def listed(items: Sequence[str]) -> str:
    """Return the items as a list in a sentence: a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
