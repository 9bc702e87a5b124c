"""Rows of event logs (E1, E8)."""

from __future__ import annotations

from itinerary.model.rows.keys import NodeNumber, Row

__all__ = ["CauseRow", "EventRow", "PartitionRow", "StreamRow"]


class StreamRow(Row, frozen=True):
    """A log of events: the number of its last one."""

    stream: str
    last: int = 0


class PartitionRow(Row, frozen=True):
    """A part of a stream, and who may write to it as its scheduler (E8)."""

    stream: str
    partition: str
    holder: NodeNumber | None = None
    fence: int = 0
    lease_until: int = 0


class EventRow(Row, frozen=True):
    """One event. Numbers are those of the whole stream, without gaps, in the order of commits (protocol rule 29)."""

    stream: str
    partition: str
    sequence: int
    kind: str
    record: str
    at: int
    data: str | None = None
    entered_by: str | None = None
    """Who appended it: the name of a token or a user. None: the desk itself, or a program."""


class CauseRow(Row, frozen=True):
    """What brought an event about, so that it is not brought about twice."""

    stream: str
    cause: str
    sequence: int
