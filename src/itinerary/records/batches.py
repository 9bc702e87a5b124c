"""What handlers are given, and what those see who follow a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from itinerary.model.rows import EventRow
from itinerary.records.event_types import shown_fields

__all__ = ["Batch", "Cycled", "Event", "Record", "event_of", "instant_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Record(msgspec.Struct, frozen=True):
    """A record, as a handler sees it."""

    id: str
    partition: str
    data: Any
    """What it was created with."""
    created_at: datetime
    times_queued: int = 1
    """This time included."""
    is_retry: bool = False
    """Whether it was queued because a callback was due."""


class Batch(msgspec.Struct, frozen=True):
    """Records that go to a handler together. Returning acknowledges them, raising brings them back."""

    id: str
    desk: str
    partition: str
    attempt: int
    """Which time this is that a handler has it, from 1."""
    records: tuple[Record, ...]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class Cycled(msgspec.Struct, frozen=True):
    """What one cycle came to, on this node."""

    queued: int = 0
    """Records that were new."""
    requeued: int = 0
    """Records whose callback was due."""
    triggered: int = 0
    """Verifications that were due."""

    def __add__(self, other: Cycled) -> Cycled:
        return Cycled(self.queued + other.queued, self.requeued + other.requeued, self.triggered + other.triggered)


class Event(msgspec.Struct, frozen=True):
    """One event of the log."""

    sequence: int
    partition: str
    kind: str
    record: str
    """Empty if it is about no single one."""
    at: datetime
    fields: Mapping[str, Any]
    by: str | None = None
    """Who appended it: the name of a token or a user. None: the desk itself, or a program."""


def event_of(row: EventRow) -> Event:
    """A row of the log, for people."""
    at = instant_of(row.at)
    return Event(row.sequence, row.partition, row.kind, row.record, at, shown_fields(row), row.entered_by)


def instant_of(at: int) -> datetime:
    """Microseconds since the epoch, as an aware datetime."""
    return _EPOCH + timedelta(microseconds=at)
