"""Appending to a log from outside: by a program, the command line, over HTTP (E10).

A record lives in the partition of its first event. Who creates one says which that is; whoever speaks of it later need
not, since the log knows.
"""

from __future__ import annotations

from itinerary.errors import RecordError
from itinerary.model.events import NewEvent
from itinerary.model.queries import Homes
from itinerary.model.text import shown
from itinerary.model.writes import Refusal
from itinerary.ports import Store

__all__ = ["appended"]


async def appended(store: Store, stream: str, event: NewEvent, partition: str | None) -> int:
    """Append an event, and return its number: the same for the same key. Raises RecordError where it cannot stand."""
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
    return (await store.read(Homes(stream, (record,)))).get(record)
