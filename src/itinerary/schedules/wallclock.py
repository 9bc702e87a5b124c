"""From wall-clock readings to instants: what happens in a gap and in a repeated hour.

A schedule matches readings of a wall clock. Most readings are one instant; where a zone shifts, some are none and some
are two. The policy says what then:

    gap      run_after   a missing reading counts as the first instant after the gap    (02:30 runs at 03:00)
             skip        a missing reading is passed over
    repeat   first       a repeated reading counts the first time it comes by
             second      … the last time
             both        … each time

Both questions have one answer each per segment of the zone, so a window of UTC becomes a few **stretches** of wall
clock, each with the offset that turns its readings into instants. A gap is a stretch too, all of whose readings count
as one instant. Everything that enumerates, one at a time or in bulk, walks these stretches and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError
from itinerary.schedules.instants import Moment
from itinerary.schedules.zones import Zone

__all__ = [
    "DEBIAN",
    "REAL_TIME",
    "ClockChangePolicy",
    "Gap",
    "ReadingRange",
    "Repeat",
    "instant_of",
    "instants_at",
    "instants_of",
    "stretches",
]


class _Choice(StrEnum):
    @classmethod
    def of(cls, value: str | None) -> Self | None:
        """The choice as a person wrote it; None where nothing was chosen."""
        try:
            return None if value is None else cls(value)
        except ValueError:
            raise ScheduleError(f"{cls.__name__.lower()} {value!r} is unknown; allowed are {', '.join(cls)}") from None


class Gap(_Choice):
    """The treatment of a reading that the wall clock jumps over."""

    RUN_AFTER = "run_after"
    SKIP = "skip"


class Repeat(_Choice):
    """The treatment of a reading that the wall clock shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class ClockChangePolicy(NamedTuple):
    """The treatment of gaps and of repeated readings."""

    gap: Gap
    repeat: Repeat


DEBIAN: Final = ClockChangePolicy(Gap.RUN_AFTER, Repeat.FIRST)
"""As Debian's cron treats fixed times: once in a night that lacks them, once in a night that has them twice."""

REAL_TIME: Final = ClockChangePolicy(Gap.SKIP, Repeat.BOTH)
"""As Debian's cron treats wildcards: whatever the wall clock really shows, each time that it shows it."""


class ReadingRange(NamedTuple):
    """Readings `[low, high)` of a wall clock. Each is the instant `reading - offset`, or all of them are `instant`."""

    low: int
    high: int
    offset: int
    instant: int | None = None


def stretches(zone: Zone, policy: ClockChangePolicy, start: int, end: int) -> Iterator[ReadingRange]:
    """The wall clock of a UTC window `[start, end)`, in order of instants."""
    segment = bisect_right(zone.starts, start) - 1
    while segment < len(zone.starts) and zone.starts[segment] < end:
        yield from _of_segment(zone, policy, segment, start, end)
        segment += 1


def _of_segment(zone: Zone, policy: ClockChangePolicy, segment: int, start: int, end: int) -> Iterator[ReadingRange]:
    offset, begins_at = zone.offsets[segment], zone.starts[segment]
    low = max(start, begins_at) + offset
    high = min(end, zone.ends[segment]) + offset
    reached = zone.latest_before[segment]
    limit = zone.earliest_after[segment] if policy.repeat is Repeat.SECOND else high
    if policy.repeat is Repeat.FIRST:
        low = max(low, reached)
    shifted_here = start <= begins_at and segment > 0
    if shifted_here and policy.gap is Gap.RUN_AFTER and begins_at + offset > reached:
        # The reading at the transition itself belongs to the gap's stretch, so that both together count once.
        low = begins_at + offset + 1
        if reached < (gap_high := min(low, limit)):
            yield ReadingRange(reached, gap_high, offset, begins_at)
    if low < (high := min(high, limit)):
        yield ReadingRange(low, high, offset)


def instants_of(
    zone: Zone, policy: ClockChangePolicy, readings: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The instants of many readings: positions in `readings`, and instants. Some come twice, some never."""
    if policy.repeat is Repeat.BOTH:
        # A reading that is missing has one instant under either policy, so it comes from the first alone.
        first_at, firsts = instants_of(zone, ClockChangePolicy(policy.gap, Repeat.FIRST), readings)
        second_at, seconds = instants_of(zone, ClockChangePolicy(Gap.SKIP, Repeat.SECOND), readings)
        later = ~np.isin(second_at * 2**34 + seconds, first_at * 2**34 + firsts)
        return np.concatenate((first_at, second_at[later])), np.concatenate((firsts, seconds[later]))
    starts, offsets = zone.arrays()
    if policy.repeat is Repeat.FIRST:
        segment = np.searchsorted(np.array(zone.latest_before, np.int64), readings, side="right") - 1
    else:
        segment = np.searchsorted(np.array(zone.earliest_after, np.int64), readings, side="right")
    begins = starts[segment] + offsets[segment]
    ends = np.array(zone.ends, np.int64)[segment] + offsets[segment]
    exists = (begins <= readings) & (readings < ends)
    instants = np.where(
        exists, readings - offsets[segment], np.where(readings < begins, starts[segment], ends - offsets[segment])
    )
    if policy.gap is Gap.SKIP:
        positions = np.flatnonzero(exists)
        return positions, instants[positions]
    return np.arange(len(readings)), instants


def instants_at(zone: Zone, policy: ClockChangePolicy, reading: int) -> list[int]:
    """The instants of one reading, ascending: none, one or two."""
    if policy.repeat is Repeat.BOTH:
        first = instants_at(zone, ClockChangePolicy(policy.gap, Repeat.FIRST), reading)
        last = instants_at(zone, ClockChangePolicy(Gap.SKIP, Repeat.SECOND), reading)
        return sorted({*first, *last})
    if policy.repeat is Repeat.FIRST:
        segment = bisect_right(zone.latest_before, reading) - 1
    else:
        segment = bisect_right(zone.earliest_after, reading)
    instant = reading - zone.offsets[segment]
    if zone.starts[segment] <= instant < zone.ends[segment]:
        return [instant]
    if policy.gap is Gap.SKIP:
        return []
    return [zone.starts[segment] if instant < zone.starts[segment] else zone.ends[segment]]


def instant_of(zone: Zone, moment: Moment) -> int:
    """The one instant of a moment: the first where it is repeated, the first after its gap where it is missing."""
    if not moment.is_local:
        return moment.seconds
    return instants_at(zone, DEBIAN, moment.seconds)[0]
