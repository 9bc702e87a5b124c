"""Append events to a log from outside: from a program, the command line or HTTP (E10).

A record belongs to the partition of its first event. The producer of that event must name the partition. For later
events the partition may be omitted, since the log knows it.
"""

from __future__ import annotations

from itinerary.errors import RecordError
from itinerary.model.events import NewEvent
from itinerary.model.queries import RecordPartitionsQuery
from itinerary.model.text import shown
from itinerary.model.writes import Refusal
from itinerary.ports import Store

__all__ = ["appended"]


async def appended(store: Store, stream: str, event: NewEvent, partition: str | None) -> int:
    """Append an event and return its number.

    Args:
        store: The store to append to.
        stream: The name of the record scheduler.
        event: The event. A second event with the same key returns the number of the first.
        partition: The partition of the record; None: the log knows it.

    Raises:
        RecordError: The record is unknown and no partition is given, or the record belongs to another partition.
    """
    if partition is None:
        partition = await _home(store, stream, event.record)
        if partition is None:
            raise RecordError(
                f"record {shown(event.record)} is not known to desk {stream!r}, so it must be said where it lives; "
                "give its partition, or append RecordCreated first"
            )
    answer = await store.append(stream, partition, [event])
    if isinstance(answer, Refusal):
        home = await _home(store, stream, event.record)
        raise RecordError(
            f"record {shown(event.record)} lives in partition {home!r} of desk {stream!r}, not in {partition!r}; "
            "append it there, or give the record another name"
        )
    return answer[0]


async def _home(store: Store, stream: str, record: str) -> str | None:
    return (await store.read(RecordPartitionsQuery(stream, (record,)))).get(record)
