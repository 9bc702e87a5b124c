"""Time zones as data: a table of transitions, named by the digest of its content.

Two nodes with different zone data would compute different instants for the same job. So a zone here is a value that can
be stored, compared by digest, and handed to every computation; the packaged `tzdata` is only where a table comes from
the first time (protocol rule 5). Tables come in releases, "2026a" before "2026b": a `ZoneData` is one of them.

A zone cuts time into **segments** of constant offset. On the wall clock, segments leave gaps between them or overlap.
Two running extremes make both easy to see, whatever the size of a shift and however many of them come close together:

    latest_before[i]     the highest wall-clock reading reached before segment i: below it, segment i repeats
    earliest_after[i]    the lowest reading that a later segment starts at: from there on, segment i will be repeated
"""

from __future__ import annotations

import hashlib
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import accumulate, pairwise
from reprlib import repr as shown
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import ScheduleError, UnknownZone
from itinerary.schedules.instants import DAY, EARLIEST, LATEST, Moment
from itinerary.schedules.suggestions import nearest
from itinerary.schedules.tzif import Transitions, read_tzif

__all__ = [
    "UTC",
    "UTC_NAME",
    "Zone",
    "ZoneData",
    "ZoneSource",
    "packaged_zone",
    "packaged_zone_data",
    "release_order",
    "zone_names",
]

UTC_NAME: Final = "UTC"
_BEGINNING: Final = EARLIEST - 366 * DAY
_ENDING: Final = LATEST + 366 * DAY
_NAME_MAX: Final = 64
_RELEASE: Final = re.compile(r"([12][0-9]{3})([a-z]{1,2})")


@dataclass(frozen=True, eq=False)
class Zone:
    """The segments of a zone between 1899 and 2200. Equal when name and content are equal."""

    name: str
    starts: tuple[int, ...]
    """The first UTC second of each segment; the first segment begins before the supported time."""
    offsets: tuple[int, ...]
    """Seconds east of UTC in each segment."""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        content = struct.pack(f"<{2 * len(self.starts)}q", *self.starts, *self.offsets)
        object.__setattr__(self, "digest", hashlib.sha256(b"itinerary-zone-1:" + content).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zone) and (self.name, self.digest) == (other.name, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The first UTC second after each segment."""
        return (*self.starts[1:], _ENDING)

    @cached_property
    def latest_before(self) -> tuple[int, ...]:
        """The highest wall-clock reading reached before each segment."""
        reached = accumulate((end + offset for end, offset in zip(self.ends, self.offsets, strict=True)), max)
        return (_BEGINNING - DAY, *list(reached)[:-1])

    @cached_property
    def earliest_after(self) -> tuple[int, ...]:
        """The lowest wall-clock reading at which any later segment starts."""
        later = [start + offset for start, offset in zip(self.starts[1:], self.offsets[1:], strict=True)]
        lowest = list(accumulate(reversed(later), min))[::-1]
        return (*lowest, _ENDING + DAY)

    def reading(self, moment: Moment) -> int:
        """Return the wall-clock reading at a moment."""
        if moment.is_local:
            return moment.seconds
        return moment.seconds + self.offsets[bisect_right(self.starts, moment.seconds) - 1]

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and offsets as NumPy arrays, for bulk conversion."""
        return self._arrays

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array(self.starts, np.int64), np.array(self.offsets, np.int64)

    def to_json(self) -> dict[str, Any]:
        """The table as plain data; `from_json` reads it back."""
        return {"name": self.name, "starts": list(self.starts), "offsets": list(self.offsets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Zone:
        """A table that was stored; a malformed one is refused."""
        match data:
            case {"name": str(name), "starts": [first, *_] as starts, "offsets": list(offsets)} if (
                first == _BEGINNING
                and len(starts) == len(offsets)
                and all(type(number) is int for number in (*starts, *offsets))
                and all(earlier < later for earlier, later in pairwise((*starts, _ENDING)))
                and all(-DAY < offset < DAY for offset in offsets)
            ):
                return cls(name, tuple(starts), tuple(offsets))
            case _:
                named = data.get("name") if isinstance(data, Mapping) else None
                raise UnknownZone(f"the stored table of zone {shown(named)} is malformed; store it again")

    @classmethod
    def from_transitions(cls, name: str, transitions: Transitions) -> Zone:
        """The part of the zone's history that lies in the supported time."""
        instants, offsets = transitions
        first = sum(instant <= _BEGINNING for instant in instants)
        last = sum(instant < _ENDING for instant in instants)
        return cls(name, (_BEGINNING, *instants[first:last]), tuple(offsets[first : last + 1]))


ZoneSource: TypeAlias = Callable[[str], Zone]
"""The source of a computation's zones, by IANA name. Raises UnknownZone for a name that is missing there."""

UTC: Final = Zone(UTC_NAME, (_BEGINNING,), (0,))
"""The zone that no data can change."""


def release_order(release: str) -> tuple[int, str]:
    """Return the sort key of an IANA release: "2025c" comes before "2026a". Raises ScheduleError for other texts."""
    match = _RELEASE.fullmatch(release)
    if match is None:
        raise ScheduleError(f"{shown(release)} is no release of zone data; IANA names them like 2026a")
    return int(match[1]), match[2]


@dataclass(frozen=True, slots=True)
class ZoneData:
    """A release of the zone data: the tables that a program has, and the name of the release."""

    release: str
    """As IANA calls it: "2026a"."""
    zone: ZoneSource

    def __post_init__(self) -> None:
        release_order(self.release)

    def is_newer_than(self, release: str) -> bool:
        """True if this release is newer than another."""
        return release_order(self.release) > release_order(release)


@cache
def zone_names() -> frozenset[str]:
    """Every IANA name in the packaged zone data."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def packaged_zone(name: str) -> Zone:
    """The zone as the pinned `tzdata` package has it."""
    if not isinstance(name, str) or len(name) > _NAME_MAX or name not in zone_names():
        raise UnknownZone(_unknown(name))
    return _load(name)


@cache
def packaged_zone_data() -> ZoneData:
    """The zone data of the pinned `tzdata` package."""
    first_line = resources.files("tzdata").joinpath("zoneinfo", "tzdata.zi").read_text("utf-8").partition("\n")[0]
    return ZoneData(first_line.rpartition(" ")[2], packaged_zone)


@cache
def _load(name: str) -> Zone:
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return Zone.from_transitions(name, read_tzif(data, until_year=2200))


@cache
def _names_by_folded() -> dict[str, str]:
    return {name.lower(): name for name in zone_names()}


def _unknown(name: object) -> str:
    text_of = name if isinstance(name, str) else shown(name)
    text = text_of[:_NAME_MAX].lower()
    # Only names of like length and beginning are compared, so that a typo is answered as fast as a hit.
    candidates = [known for known in _names_by_folded() if known[:1] == text[:1] and abs(len(known) - len(text)) <= 2]
    close = nearest(text, candidates, alike=0.75)
    hint = (
        f"did you mean {_names_by_folded()[close]!r}?" if close else "use an IANA name such as 'Europe/Berlin' or 'UTC'"
    )
    quoted = repr(text_of) if len(text_of) <= _NAME_MAX else repr(text_of[:_NAME_MAX] + "…")
    return f"time zone {quoted} is unknown; {hint}"
