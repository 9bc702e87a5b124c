"""What an occurrence was asked for with, by a person or a program: the `details` of its row, as JSON.

What is due by a schedule has none. A trigger says who wanted it; a replay, and a backfill, also what is run again.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from itinerary.model.codec import from_json, to_json

__all__ = ["Asked", "asked_json", "read_asked"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request for a run."""

    by: str
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


def asked_json(asked: Asked) -> str:
    """As it is stored."""
    return to_json(asked).decode()


def read_asked(details: str | None) -> Asked | None:
    """What stands in a row; None if nobody asked. Raises RecordError if it cannot be read."""
    return None if details is None else from_json(Asked, details)
