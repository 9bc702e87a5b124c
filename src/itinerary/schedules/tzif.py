"""TZif: the compiled form of the time zone database, read into plain transitions.

A file holds the transitions that were or are announced, and a rule for all years after them; both come out as one list,
up to the end of the supported time. Nothing here knows about schedules.

Why not `zoneinfo`: it answers "what is the offset at t" and hides the transitions, which bulk enumeration needs, and it
silently prefers the operating system's files to the pinned `tzdata` package. It is our oracle in the tests.
"""

from __future__ import annotations

import re
import struct
from datetime import date, timedelta
from operator import itemgetter
from typing import Final, NamedTuple

from itinerary.schedules.instants import DAY

__all__ = ["Transitions", "read_tzif"]

_EPOCH_DAY: Final = date(1970, 1, 1)
_HEADER: Final = struct.Struct(">4s1s15x6l")


class Transitions(NamedTuple):
    """Where the offset from UTC changes. `offsets` is one longer: its first holds before all `instants`."""

    instants: list[int]
    offsets: list[int]


def read_tzif(data: bytes, *, until_year: int) -> Transitions:
    """The transitions of one zone, the rule for the future expanded through `until_year`."""
    body = _second_block(data)
    _, _, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data, body)
    at = body + _HEADER.size
    instants = list(struct.unpack_from(f">{times}q", data, at))
    kinds = struct.unpack_from(f">{times}B", data, at + times * 8)
    at += times * 9
    type_offsets = [struct.unpack_from(">lBB", data, at + 6 * n)[0] for n in range(types)]
    footer = data[at + types * 6 + chars + leap * 12 + isstd + isut :].strip(b"\n").decode("ascii")
    offsets = [type_offsets[0], *(type_offsets[kind] for kind in kinds)]
    if "," in footer:
        _extend(instants, offsets, _Rule.parse(footer), until_year)
    return _merged(instants, offsets)


def _second_block(data: bytes) -> int:
    """Where the 64-bit block begins: a version 2 file starts with a 32-bit one for old readers."""
    magic, version, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data, 0)
    if magic != b"TZif" or version < b"2":
        raise ValueError("not a TZif file of version 2 or later")
    return int(_HEADER.size + times * 5 + types * 6 + chars + leap * 8 + isstd + isut)


def _merged(instants: list[int], offsets: list[int]) -> Transitions:
    """Without the transitions that change only a name or the DST flag."""
    kept = [n for n in range(len(instants)) if offsets[n] != offsets[n + 1]]
    return Transitions([instants[n] for n in kept], [offsets[0], *(offsets[n + 1] for n in kept)])


def _extend(instants: list[int], offsets: list[int], rule: _Rule, until_year: int) -> None:
    last = instants[-1] if instants else -(1 << 62)
    first_year = (_EPOCH_DAY + timedelta(days=last // DAY)).year if instants else 1900
    changes = [change for year in range(first_year, until_year + 1) for change in rule.in_year(year)]
    for instant, offset in sorted(changes, key=itemgetter(0)):
        if instants and instant == instants[-1] > last:
            offsets[-1] = offset  # summer time all year: it ends and begins again at once
        elif instant > last:
            instants.append(instant)
            offsets.append(offset)


_NAME: Final = r"(?:<[^>]+>|[A-Za-z]+)"
_CLOCK: Final = r"[+-]?\d+(?::\d+(?::\d+)?)?"
_POSIX: Final = re.compile(
    rf"{_NAME}({_CLOCK}){_NAME}({_CLOCK})?,([JM\d.]+)(?:/({_CLOCK}))?,([JM\d.]+)(?:/({_CLOCK}))?", re.ASCII
)


class _Rule(NamedTuple):
    """A POSIX TZ rule such as `EST5EDT,M3.2.0,M11.1.0`: two changes in each year."""

    standard: int
    summer: int
    begins: tuple[str, int]
    ends: tuple[str, int]

    @classmethod
    def parse(cls, text: str) -> _Rule:
        matched = _POSIX.fullmatch(text)
        if matched is None:
            raise ValueError(f"POSIX time zone rule {text!r} cannot be read")
        standard, summer, begins, begins_at, ends, ends_at = matched.groups()
        winter = -_clock(standard)
        return cls(
            winter,
            winter + 3_600 if summer is None else -_clock(summer),
            (begins, _clock(begins_at or "2")),
            (ends, _clock(ends_at or "2")),
        )

    def in_year(self, year: int) -> list[tuple[int, int]]:
        """(instant, offset from then on) of the two changes."""
        return [
            (_day(year, self.begins[0]) * DAY + self.begins[1] - self.standard, self.summer),
            (_day(year, self.ends[0]) * DAY + self.ends[1] - self.summer, self.standard),
        ]


def _clock(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = (*map(int, text.lstrip("+-").split(":")), 0, 0)[:3]
    return sign * (hours * 3_600 + minutes * 60 + seconds)


def _day(year: int, text: str) -> int:
    """Days since the epoch of `M3.2.0` (month, week, weekday), `J60` (never counts 29 February) or `59` (from 0)."""
    new_year = (date(year, 1, 1) - _EPOCH_DAY).days
    if text[0] == "M":
        month, week, weekday = map(int, text[1:].split("."))
        first = date(year, month, 1)
        length = (date(year + month // 12, month % 12 + 1, 1) - first).days
        day = 1 + (weekday - first.isoweekday()) % 7 + (week - 1) * 7
        return (first - _EPOCH_DAY).days + (day - 7 if day > length else day) - 1
    if text[0] == "J":
        number = int(text[1:])
        leap = date(year, 12, 31).timetuple().tm_yday == 366
        return new_year + number - 1 + (leap and number > 59)
    return new_year + int(text)
