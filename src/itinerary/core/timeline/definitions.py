"""The definition of a version: the body of its entry, parsed when it is needed and cached for a while.

Each of 100,000 jobs has a body of its own, since task ids are in it. Parsing a whole body takes ten microseconds and
keeps a kilobyte. So a definition is parsed when a node needs it to run the job. An index needs every schedule and
nothing else, and parses only that.

The schedule in a body is complete: zone, hash and anchor were filled in when the version was made (`Schedule.bind`).
The enumeration refuses an incomplete one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from itinerary.model.codec import from_json
from itinerary.model.definition import Definition
from itinerary.schedules import Schedule, from_stored

__all__ = ["read_definition", "read_schedule"]

_DEFINITIONS_MAX: Final = 8_192
_SCHEDULES_MAX: Final = 262_144
"""The number of schedules that are cached."""


@lru_cache(maxsize=_DEFINITIONS_MAX)
def read_definition(body: str | None) -> Definition:
    """Return the definition in the body of a version's entry. Raises RecordError if it cannot be read."""
    return from_json(Definition, body or "")


class _OnlySchedule(msgspec.Struct, frozen=True):
    schedule: msgspec.Raw


def read_schedule(body: str | None) -> Schedule:
    """Return the schedule in the body of a version's entry. Raises an ItineraryError if it cannot be read."""
    return _schedule(bytes(from_json(_OnlySchedule, body or "").schedule))


@lru_cache(maxsize=_SCHEDULES_MAX)
def _schedule(text: bytes) -> Schedule:
    return from_stored(text.decode())
