"""Values for appending to an event log (E1, E8, protocol rule 29)."""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeNumber

__all__ = ["Lease", "NewEvent"]


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a record."""

    kind: str
    record: str
    cause: str
    """The cause, unique in its stream. The same cause creates one event, even if it is sent several times."""
    data: str | None = None
    """Data of the event, as JSON."""
    by: str | None = None
    """The caller that appends it: the name of a token or a user. None: the record scheduler itself, or a program."""


class Lease(msgspec.Struct, frozen=True):
    """The right to write to a partition as its scheduler. Writes of the holder carry the fence."""

    partition: str
    holder: NodeNumber
    fence: int
    until: int
