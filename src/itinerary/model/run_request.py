"""What an occurrence was asked for with, by a person or a program: the `details` of its row, as JSON.

What is due by a schedule has none. A trigger says who wanted it; a replay, and a backfill, also what is run again. Any
run that has not started may be adjusted, and then it says who did that, when, why, and which values were set.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from itinerary.model.codec import from_json, to_json

__all__ = ["Adjusted", "Asked", "asked_json", "details_with", "read_adjusted", "read_asked"]

_ADJUSTED_MAX: Final = 20
"""How many adjustments of a run are kept: the last ones."""


class Adjusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Values that were set on a run before it started."""

    by: str
    at: int
    """When, in microseconds."""
    values: dict[str, Any]
    """The values, by key."""
    reason: str | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request for a run."""

    by: str = ""
    """Who; empty if the run is due by a schedule, and was only adjusted."""
    reason: str | None = None
    request: str | None = None
    """Of a replay or a backfill: what makes two requests the same one."""
    fingerprint: str | None = None
    """Of one that came with a key: a digest of what was asked for, so that another request with that key is noticed."""
    replay_of: UUID | None = None
    """The occurrence that is run again."""
    replay_number: int | None = None
    only_tasks: tuple[str, ...] | None = None
    """The tasks that are run again, if not all."""
    adjusted: tuple[Adjusted, ...] = ()
    """What was set on the run while it waited, the newest last."""


def asked_json(asked: Asked) -> str:
    """As it is stored."""
    return to_json(asked).decode()


def read_asked(details: str | None) -> Asked | None:
    """What stands in a row; None if nobody asked. Raises RecordError if it cannot be read."""
    asked = None if details is None else from_json(Asked, details)
    return None if asked is None or not asked.by else replace(asked, adjusted=())


def read_adjusted(details: str | None) -> tuple[Adjusted, ...]:
    """How a run was adjusted before it started. Raises RecordError if it cannot be read."""
    return () if details is None else from_json(Asked, details).adjusted


def details_with(details: str | None, adjusted: Adjusted) -> str:
    """The details of a row with one more adjustment."""
    asked = Asked() if details is None else from_json(Asked, details)
    return asked_json(replace(asked, adjusted=(*asked.adjusted, adjusted)[-_ADJUSTED_MAX:]))
