"""The values that handlers receive, and the events that readers of a log see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from itinerary.model.rows import EventRow
from itinerary.records.event_types import shown_fields

__all__ = ["CycleCounts", "Event", "Record", "RecordBatch", "event_of", "instant_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Record(msgspec.Struct, frozen=True):
    """A record, as a handler sees it."""

    id: str
    partition: str
    data: Any
    """The data of the event that created the record."""
    created_at: datetime
    times_queued: int = 1
    """The number of times the record was queued, including this time."""
    is_retry: bool = False
    """True if the record was queued because a callback was due."""


class RecordBatch(msgspec.Struct, frozen=True):
    """Records that go to a handler together. A return acknowledges them, an exception retries them."""

    id: str
    desk: str
    partition: str
    attempt: int
    """The number of this delivery to a handler, from 1."""
    records: tuple[Record, ...]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class CycleCounts(msgspec.Struct, frozen=True):
    """The counts of one cycle on this node."""

    queued: int = 0
    """New records that were queued."""
    requeued: int = 0
    """Records that were queued because a callback was due."""
    triggered: int = 0
    """Verifications that were due."""

    def __add__(self, other: CycleCounts) -> CycleCounts:
        return CycleCounts(self.queued + other.queued, self.requeued + other.requeued, self.triggered + other.triggered)


class Event(msgspec.Struct, frozen=True):
    """An event of the log."""

    sequence: int
    partition: str
    kind: str
    record: str
    """The record's name; empty if the event is not about a single record."""
    at: datetime
    fields: Mapping[str, Any]
    by: str | None = None
    """The name of the token or user that appended the event. None: the record scheduler itself, or a program."""


def event_of(row: EventRow) -> Event:
    """Return a row of the log in the form that people read."""
    at = instant_of(row.at)
    return Event(row.sequence, row.partition, row.kind, row.record, at, shown_fields(row), row.entered_by)


def instant_of(at: int) -> datetime:
    """Return microseconds since the epoch as an aware datetime."""
    return _EPOCH + timedelta(microseconds=at)
