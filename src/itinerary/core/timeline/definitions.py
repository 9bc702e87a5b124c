"""What a version says: the body of its entry, read when it is needed and remembered for a while.

A hundred thousand jobs are a hundred thousand bodies, each its own, since task ids are in them. Reading one whole takes
ten microseconds and keeps a kilobyte; so a definition is read when somebody wants to run it, and an index, which needs
every schedule and nothing else, reads only that.

The schedule in a body is complete: zone, hash and anchor were filled in when the version was made (`Schedule.bind`).
One that is not is refused by whoever enumerates it.
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
"""How many are remembered."""


@lru_cache(maxsize=_DEFINITIONS_MAX)
def read_definition(body: str | None) -> Definition:
    """The definition in the body of a version's entry. Raises RecordError if it cannot be read."""
    return from_json(Definition, body or "")


class _OnlySchedule(msgspec.Struct, frozen=True):
    schedule: msgspec.Raw


def read_schedule(body: str | None) -> Schedule:
    """The schedule in the body of a version's entry. Raises an ItineraryError if it cannot be read."""
    return _schedule(bytes(from_json(_OnlySchedule, body or "").schedule))


@lru_cache(maxsize=_SCHEDULES_MAX)
def _schedule(text: bytes) -> Schedule:
    return from_stored(text.decode())
