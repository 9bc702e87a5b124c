"""Record pages: the record schedulers of a store, their waiting records, partitions and logs, newest first (SPEC E).

/records                                   all record schedulers
/records/folio                             its cycles, its partitions, its latest events
/records/folio?partition=lisbon            events of a partition
/records/folio?record=F-100                events of a record
/records/folio?before=1200                 older events
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from itinerary.errors import NotFoundError
from itinerary.model.queries import StreamsQuery
from itinerary.model.scopes import Scope
from itinerary.model.text import shown as quoted
from itinerary.read.jobs import JobReader, JobView
from itinerary.read.snapshot import StoreSnapshot
from itinerary.records.batches import Event
from itinerary.records.cycle import Cycle
from itinerary.records.inspect import desks, events_page
from itinerary.web.live import RenderedPage
from itinerary.web.pages.filters import desk_of_url, desk_url
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import RequestRefused
from itinerary.web.record_log_cache import DeskNow
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page
from itinerary.web.server_state import ServerState

__all__ = ["RECORD_PAGES"]

_DESKS_MAX: Final = 20
_PARTITIONS_MAX: Final = 50
_EVENTS: Final = 50
_SAID_MAX: Final = 400
"""The maximum length of an event's shown content, in characters; the command line shows all of it."""
_DIGITS_MAX: Final = 15


@page("/records", needs=Scope.READ)
async def all_desks(request: Request) -> AnyResponse:
    """The desks."""
    server: ServerState = request.app.server

    async def draw(snapshot: StoreSnapshot) -> RenderedPage:
        found = await desks(snapshot.store)
        now = {
            seen.desk: await server.books.desk(snapshot.store, seen.desk, seen.sequence) for seen in found[:_DESKS_MAX]
        }
        part = drawn("records/desks.html", desks=found[:_DESKS_MAX], more=max(len(found) - _DESKS_MAX, 0), now=now)
        return RenderedPage(title="Records", parts={"desks": part})

    return await shown(request, draw)


@page("/records/{desk}", needs=Scope.READ)
async def one_desk(request: Request, desk: str) -> AnyResponse:
    """One of them."""
    server: ServerState = request.app.server
    name = desk_of_url(desk)
    asked = _Asked.of(request, name)

    async def draw(snapshot: StoreSnapshot) -> RenderedPage:
        streams = await snapshot.store.read(StreamsQuery(name))
        if not streams:
            raise NotFoundError(f"no desk {quoted(name)} has a log in this store")
        now = await server.books.desk(snapshot.store, name, streams[0].last)
        page = await events_page(
            snapshot.store, name, before=asked.before, partition=asked.partition, record=asked.record, limit=_EVENTS
        )
        parts = {
            "cycles": drawn("records/cycles.html", cycles=await _cycles(server, snapshot, name), now=now),
            "partitions": drawn(
                "records/partitions.html", desk=name, now=now, listed=_busiest(now), more=_more(now), asked=asked
            ),
            "events": drawn(
                "records/events.html", desk=name, asked=asked, events=[_line(event) for event in page.events], page=page
            ),
        }
        return RenderedPage(title=name, parts=parts)

    return await shown(request, draw)


RECORD_PAGES = (all_desks, one_desk)


class _Asked(msgspec.Struct, frozen=True):
    """The filter of the event list."""

    desk: str
    partition: str | None
    record: str | None
    before: int | None

    @classmethod
    def of(cls, request: Request, desk: str) -> _Asked:
        said = request.query_params
        if unknown := sorted(set(said) - {"partition", "record", "before", "seen"}):
            raise RequestRefused(400, "Bad request", f"{quoted(unknown[0])} is nothing that this page can be asked for")
        before = said.get("before")
        if before is not None and not (before.isascii() and before.isdigit() and len(before) <= _DIGITS_MAX):
            raise RequestRefused(400, "Bad request", f"before: {quoted(before)} is not the number of an event")
        return cls(desk, said.get("partition") or None, said.get("record") or None, int(before) if before else None)

    def address(self, **changes: object) -> str:
        """Return the address of this page with other parameters."""
        wanted = {"partition": self.partition, "record": self.record, **changes}
        query = urlencode({name: value for name, value in wanted.items() if value is not None})
        return f"{desk_url(self.desk)}?{query}" if query else desk_url(self.desk)


class _Line(msgspec.Struct, frozen=True):
    """An event, and its content in one line."""

    event: Event
    said: str


def _line(event: Event) -> _Line:
    said = ", ".join(f"{name} {_plain(value)}" for name, value in event.fields.items() if value is not None)
    return _Line(event, said if len(said) <= _SAID_MAX else said[: _SAID_MAX - 1] + "…")


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode(errors="replace")


def _busiest(now: DeskNow) -> list[Any]:
    """Return stalled partitions first, then those with most waiting records; equal ones by name."""
    waits = sorted(
        now.partitions,
        key=lambda one: (one.stalled is None, -(one.new + one.queue), -one.callbacks, one.partition),
    )
    return sorted(waits[:_PARTITIONS_MAX], key=lambda one: one.partition)


def _more(now: DeskNow) -> int:
    return max(len(now.partitions) - _PARTITIONS_MAX, 0)


async def _cycles(server: ServerState, snapshot: StoreSnapshot, desk: str) -> list[JobView]:
    """Return the three jobs of a record scheduler, as far as they exist."""
    view = await server.view()
    found = []
    for cycle in Cycle:
        try:
            job = view.job(f"{desk}.{cycle.value}")
        except NotFoundError:
            continue
        if job.number in snapshot.timeline.jobs:
            found.append(await (await JobReader.at(snapshot, job.number)).seen(job))
    return found
