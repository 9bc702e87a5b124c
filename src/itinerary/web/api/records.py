"""Routes for record schedulers and their logs: list, show, read, append, follow (E10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Final
from uuid import uuid4

import msgspec
from msgspec import Meta

from itinerary.errors import NotFoundError
from itinerary.model.queries import EventsAtQuery, EventsQuery, PartitionsQuery, StreamsQuery
from itinerary.model.text import check_name, shown
from itinerary.ports import Store
from itinerary.records.append import appended
from itinerary.records.batches import event_of
from itinerary.records.declaration import ONE_PARTITION
from itinerary.records.event_types import produced
from itinerary.records.inspect import desks
from itinerary.web.api.lookup import cursor_of, read_cursor
from itinerary.web.api.parameters import Cursor, DeskName, Key, LastEventId, Limit, NameText, QueryParameter
from itinerary.web.api.request_bodies import AppendBody
from itinerary.web.api.responses import AppendResponse, EventsResponse, PartitionsResponse, RecordSchedulersResponse
from itinerary.web.api.routing import Sent, by_whom, changing, read_body, reading, streaming
from itinerary.web.api.sse import STILL_THERE, while_admitted
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import json_of
from itinerary.web.heavy.works import PartitionsWork
from itinerary.web.http_responses import Response, Stream
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["RECORDS"]

_TAG: Final = "records"
_LOOK_AGAIN_AFTER: Final = 0.5
_SILENT_FOR: Final = 30
"""The number of polls without events after which a keep-alive is sent."""
_FOLLOWED_AT_ONCE: Final = 500
_FOLDED_MAX: Final = 1_000_000
"""A request does not fold a log that is longer than this."""

Partition = Annotated[NameText | None, QueryParameter("Only events of this partition.")]
After = Annotated[int, Meta(ge=0, le=2**62), QueryParameter("Only those after this number.")]


@reading("/records", summary="List the desks that have a log", tag=_TAG)
async def list_desks(api: ApiState) -> RecordSchedulersResponse:
    """How long their logs are, and how many partitions somebody holds."""
    return RecordSchedulersResponse(tuple(await desks(await api.server.store())))


@reading("/records/{desk}", summary="Look at the partitions of a desk", tag=_TAG)
async def show_desk(request: Request, api: ApiState, desk: DeskName) -> Response[PartitionsResponse]:
    """What is new, queued and waiting in each, as its log says; who holds it. A long log takes a while to read."""
    store = await api.server.store()
    if await _length(store, desk) > _FOLDED_MAX:
        raise RequestRefused(
            400, "Too much", f"the log has more than {_FOLDED_MAX} events; ask `itinerary records show`"
        )
    return await json_of(request, PartitionsWork(desk=desk))


@reading("/records/{desk}/events", summary="Read a desk's events, in the order of their numbers", tag=_TAG)
async def list_events(
    api: ApiState,
    desk: DeskName,
    after: After = 0,
    partition: Partition = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> EventsResponse:
    """The log, page by page. `next` is there while there may be more."""
    place = read_cursor("events", cursor, int)
    store = await api.server.store()
    await _length(store, desk)
    rows = await store.read(EventsQuery(desk, after if place is None else int(place), partition, limit))
    following = rows[-1].sequence if len(rows) == limit else None
    return EventsResponse(desk, tuple(event_of(row) for row in rows), cursor_of("events", following))


@changing("/records/{desk}/events", summary="Append an event to a desk's log", tag=_TAG)
async def append_event(
    request: Request, api: ApiState, desk: DeskName, data: Sent[AppendBody], key: Key = None
) -> AppendResponse:
    """`RecordCreated`, `CallbackScheduled`, `VerificationScheduled` or `RecordCompleted`. The key is the event's own,
    the same whether it is sent by HTTP, by Python or on the command line."""
    data = read_body(AppendBody, data, is_required=True)
    check_name("desk", desk)
    text = uuid4().hex if key is None else key
    event = produced(data.kind, data.record, data.fields, text, by_whom(request))
    store = await api.server.store()
    home = await _only_partition(store, desk) if data.partition is None else check_name("partition", data.partition)
    number = await appended(store, desk, event, home)
    there = (await store.read(EventsAtQuery(desk, (number,)))).get(number)
    if there is not None and (there.kind, there.record, there.data) != (event.kind, event.record, event.data):
        raise RequestRefused(422, "Key used", f"the key {shown(text)} was used for another event, number {number}")
    return AppendResponse(desk=desk, sequence=number, kind=data.kind, record=data.record, key=text)


@streaming("/records/{desk}/follow", summary="Follow a desk's log", tag=_TAG)
async def follow_events(
    request: Request,
    api: ApiState,
    desk: DeskName,
    after: After = 0,
    partition: Partition = None,
    last: LastEventId = None,
) -> Stream:
    """Events as server-sent events, each with its number as id, as they come."""
    store = await api.server.store()
    await _length(store, desk)
    if last is not None and last.isascii() and last.isdigit() and len(last) < 19:
        after = int(last)
    return Stream(await while_admitted(request, _followed(api, desk, after, partition)))


RECORDS: Final = (list_desks, show_desk, list_events, append_event, follow_events)


async def _followed(api: ApiState, desk: DeskName, after: int, partition: str | None) -> AsyncGenerator[bytes, None]:
    yield STILL_THERE
    silent = 0
    while True:
        store = await api.server.store()
        rows = await store.read(EventsQuery(desk, after, partition, _FOLLOWED_AT_ONCE))
        for row in rows:
            told = msgspec.json.encode(event_of(row))
            yield b"id: %d\nevent: record\ndata: %b\n\n" % (row.sequence, told)
        silent = 0 if rows else silent + 1
        if silent >= _SILENT_FOR:
            silent = 0
            yield STILL_THERE
        if len(rows) < _FOLLOWED_AT_ONCE:
            await asyncio.sleep(_LOOK_AGAIN_AFTER)
        after = rows[-1].sequence if rows else after


async def _length(store: Store, desk: str) -> int:
    """Return the number of the last event. Raises NotFoundError."""
    found = [row for row in await store.read(StreamsQuery(desk)) if row.stream == desk]
    if not found:
        raise NotFoundError(f"no desk {shown(desk)} has a log in this store")
    return found[0].last


async def _only_partition(store: Store, desk: str) -> str | None:
    names = {row.partition for row in await store.read(PartitionsQuery(desk))}
    return ONE_PARTITION if names == {ONE_PARTITION} else None
