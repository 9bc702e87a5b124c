"""Appending to an event log (E1, E8, protocol rule 29), as values."""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeNumber

__all__ = ["Lease", "NewEvent"]


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a record."""

    kind: str
    record: str
    cause: str
    """What brought it about, unique in its stream: the same cause brings about one event, however often it is sent."""
    data: str | None = None
    """JSON."""
    by: str | None = None
    """Who appends it: the name of a token or a user. None: the desk itself, or a program."""


class Lease(msgspec.Struct, frozen=True):
    """The right to write to a partition as its scheduler: the holder's writes carry the fence."""

    partition: str
    holder: NodeNumber
    fence: int
    until: int
