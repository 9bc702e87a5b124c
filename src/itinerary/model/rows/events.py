"""Rows of event logs (E1, E8)."""

from __future__ import annotations

from itinerary.model.rows.keys import NodeNumber, Row

__all__ = ["EventRow", "IdempotencyKeyRow", "PartitionRow", "StreamRow"]


class StreamRow(Row, frozen=True):
    """An event log, with the number of its last event."""

    stream: str
    last: int = 0


class PartitionRow(Row, frozen=True):
    """A partition of a stream, with the node that may write to it as its scheduler (E8)."""

    stream: str
    partition: str
    holder: NodeNumber | None = None
    fence: int = 0
    lease_until: int = 0


class EventRow(Row, frozen=True):
    """An event. Numbers are unique in the whole stream, without gaps, in the order of commits (protocol rule 29)."""

    stream: str
    partition: str
    sequence: int
    kind: str
    record: str
    at: int
    data: str | None = None
    entered_by: str | None = None
    """The caller that appended it: the name of a token or a user. None: the record scheduler itself, or a program."""


class IdempotencyKeyRow(Row, frozen=True):
    """The cause of an event, stored so that it does not create the same event twice."""

    stream: str
    cause: str
    sequence: int
