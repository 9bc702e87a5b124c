"""What a record scheduler of a job file names: functions that note what they are given."""

from __future__ import annotations

from itinerary.records import Record, RecordBatch

SEEN: list[str] = []
ZONES = {"lisbon": "Europe/Lisbon", "tokyo": "Asia/Tokyo"}


async def work(batch: RecordBatch) -> None:
    """Note a batch."""
    SEEN.extend(f"work {batch.partition} {record.id}" for record in batch)


def check_mail(record: Record) -> str:
    """Verify a record, in a thread."""
    SEEN.append(f"check {record.id}")
    return "verified"


def zone_of(hotel: str) -> str:
    """The time zone of a hotel."""
    return ZONES[hotel]


def told(message: str) -> None:
    """Note an alert."""
    SEEN.append(message)
