"""Live changes of a store, read once for all followers.

    job          an entry on a timeline: a version, a pause, a removal
    began        an occurrence has started
    ended        an occurrence has ended

While a client follows, and for a minute after, the feed polls the store twice a second. The store, not this node, is
the source, so changes by other nodes are included. The feed finds occurrences by their numbers, which the store assigns
in order, and polls unfinished ones until they end. For a gap in the numbers the feed waits: its occurrence may be
committed after others with higher numbers.

The last ten thousand events are kept. The id of an event is `feed-number-revision`. A client that was cut off sends the
last id that it has seen, and receives the events after it. If that event is not kept here, because it is too old or
came from another node, the client receives `reset`. Timeline entries then follow from the revision; the client must
read the states of occurrences again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from itertools import islice
from typing import Any, Final

import msgspec

from itinerary.errors import StoreError
from itinerary.model.queries import ActiveQuery, ByRefQuery, CreatedQuery, EntriesQuery
from itinerary.model.rows import FOR_ALL, EntryRow, OccurrenceRow, Ref
from itinerary.model.states import FINAL
from itinerary.read.run_lookup import RunReference
from itinerary.read.snapshot import StoreSnapshot, at, moment
from itinerary.web.api.sse import STILL_THERE
from itinerary.web.server_state import ServerState

__all__ = ["Feed"]

_LOOK_EVERY: Final = 0.5
_KEPT: Final = 10_000
_SENT_AT_ONCE: Final = 200
_LINGERS_FOR: Final = 60.0
"""The seconds for which polling continues without followers, so that a client that was cut off can reconnect."""
_AT_ONCE: Final = 2_000
_ROUNDS_MAX: Final = 5
_OPEN_MAX: Final = 50_000
_LATE_FOR: Final = 20
"""The number of polls that wait for an occurrence whose number was skipped."""
_BEAT_EVERY: Final = 15.0


class Feed:
    """The event feed. Used on the web server's event loop."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._name = secrets.token_hex(4)
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._count = 0
        self._revision = 0
        self._last = Ref(0)
        self._open: dict[Ref, bool] = {}
        """Unfinished occurrences, and whether each had started at the last poll."""
        self._passed_over: dict[Ref, int] = {}
        """Missing numbers, with the polls that are left for each."""
        self._news = asyncio.Event()
        self._followers = 0
        self._task: asyncio.Task[None] | None = None
        self._began = asyncio.Event()

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def follow(self, last: str | None) -> AsyncGenerator[bytes, None]:
        """Yield all events from now on, or those after the event with the id `last`. Raises StoreError."""
        await self._proceed()
        self._followers += 1
        try:
            seen = self._count
            yield STILL_THERE
            if last is not None:
                found = self._seen(last)
                if found is None:
                    for message in await self._anew(last):
                        yield message
                else:
                    seen = found
            while True:
                news = self._news
                if self._kept and seen < self._kept[0][0] - 1:
                    yield b"event: reset\ndata: {}\n\n"
                    seen = self._count
                while seen < self._count:
                    # Join many events into one message: sending a message costs far more than joining.
                    wanted = islice(self._kept, max(0, seen + 1 - self._kept[0][0]), None)
                    some = list(islice(wanted, _SENT_AT_ONCE))
                    seen = some[-1][0]
                    yield b"".join(message for _, message in some)
                    if self._kept[0][0] > seen + 1:
                        break  # the reader is too slow and the next event is gone: the check above sends a reset
                try:
                    async with asyncio.timeout(_BEAT_EVERY):
                        await news.wait()
                except TimeoutError:
                    yield STILL_THERE
        finally:
            self._followers -= 1

    # -- resuming a follower -------------------------------------------------------------------------------------------

    def _seen(self, last: str) -> int | None:
        """Return the number of the event with that id; None if a later event is no longer kept."""
        name, _, rest = last.partition("-")
        number = _number(rest.partition("-")[0])
        if name != self._name or number is None or number > self._count:
            return None
        first = self._kept[0][0] if self._kept else self._count + 1
        return number if number >= first - 1 else None

    async def _anew(self, last: str) -> list[bytes]:
        """Return the messages for a client whose last event is unknown here."""
        revision = _number(last.rpartition("-")[2])
        messages = [b"event: reset\ndata: {}\n\n"]
        if revision is not None and last.count("-") == 2:
            snapshot = await self._server.snapshot()
            entries = await snapshot.store.read(EntriesQuery(revision, _AT_ONCE))
            messages += [
                _message("job", _entry_told(snapshot, entry))
                for entry in entries
                if entry.job != FOR_ALL and entry.revision <= self._revision
            ]
        return messages

    # -- polling -------------------------------------------------------------------------------------------------------

    async def _proceed(self) -> None:
        """Start the polling task if it does not run."""
        if self._task is None or self._task.done():
            self._began = asyncio.Event()
            snapshot = await self._server.snapshot()
            await self._begin(snapshot)
            self._task = asyncio.create_task(self._live(), name="what changes in the store")

    async def _begin(self, snapshot: StoreSnapshot) -> None:
        newest = await snapshot.store.read(CreatedQuery())
        self._last = newest[0].ref if newest else Ref(0)
        rows = await snapshot.store.read(ActiveQuery(limit=_OPEN_MAX))
        self._open = {row.ref: row.started_at is not None for row in rows}
        self._last = max([self._last, *self._open])
        self._revision = snapshot.timeline.revision
        self._passed_over.clear()
        self._kept.clear()
        self._name, self._count = secrets.token_hex(4), 0

    async def _live(self) -> None:
        idle = 0.0
        while idle < _LINGERS_FOR:
            await asyncio.sleep(_LOOK_EVERY)
            idle = 0.0 if self._followers else idle + _LOOK_EVERY
            try:
                await self._look()
            except StoreError as error:  # nothing is lost: the next poll resumes at the same place
                self._server.failed(error)

    async def _look(self) -> None:
        snapshot = await self._server.snapshot()
        before = self._count
        await self._look_at_timelines(snapshot)
        await self._look_at_occurrences(snapshot)
        if self._count > before:
            self._news.set()
            self._news = asyncio.Event()

    async def _look_at_timelines(self, snapshot: StoreSnapshot) -> None:
        if snapshot.timeline.revision <= self._revision:
            return
        for entry in await snapshot.store.read(EntriesQuery(self._revision, _AT_ONCE)):
            if entry.revision > snapshot.timeline.revision:
                break  # its job may be unknown here as yet
            self._revision = entry.revision
            if entry.job != FOR_ALL:
                self._notify("job", _entry_told(snapshot, entry))

    async def _look_at_occurrences(self, snapshot: StoreSnapshot) -> None:
        for _ in range(_ROUNDS_MAX):
            rows = await snapshot.store.read(CreatedQuery(self._last, _AT_ONCE))
            for row in rows:
                for passed in range(self._last + 1, min(row.ref, self._last + _AT_ONCE)):
                    self._passed_over[Ref(passed)] = _LATE_FOR
                self._last = row.ref
                self._take(snapshot, row)
            if len(rows) < _AT_ONCE:
                break
        wanted = [*self._open, *self._passed_over][:_OPEN_MAX]
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            found = await snapshot.store.read(ByRefQuery(tuple(some)))
            for ref in some:
                if ref in found:
                    self._take(snapshot, found[ref])
                elif ref in self._passed_over:
                    self._passed_over[ref] -= 1
                    if not self._passed_over[ref]:
                        del self._passed_over[ref]
                else:
                    del self._open[ref]  # it was removed with its history

    def _take(self, snapshot: StoreSnapshot, row: OccurrenceRow) -> None:
        self._passed_over.pop(row.ref, None)
        if row.job not in snapshot.timeline.jobs:
            self._open[row.ref] = False  # its job will be known soon
            return
        had_begun = self._open.get(row.ref, False)
        if row.started_at is not None and not had_begun:
            self._notify("began", _run_told(snapshot, row))
        if row.status in FINAL:
            self._open.pop(row.ref, None)
            self._notify("ended", _run_told(snapshot, row))
        else:
            self._open[row.ref] = row.started_at is not None

    def _notify(self, event: str, data: dict[str, Any]) -> None:
        self._count += 1
        known_by = f"{self._name}-{self._count}-{self._revision}"
        self._kept.append((self._count, _message(event, data, known_by)))


def _message(event: str, data: dict[str, Any], known_by: str | None = None) -> bytes:
    said = b"" if known_by is None else b"id: " + known_by.encode() + b"\n"
    return said + b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def _entry_told(snapshot: StoreSnapshot, entry: EntryRow) -> dict[str, Any]:
    return {
        "job": snapshot.timeline.jobs[entry.job].name,
        "kind": entry.kind,
        "version": entry.version,
        "revision": entry.revision,
        "effective_from": at(entry.effective_from),
        "by": entry.entered_by,
        "reason": entry.reason,
    }


def _run_told(snapshot: StoreSnapshot, row: OccurrenceRow) -> dict[str, Any]:
    run = RunReference(snapshot.timeline.jobs[row.job].name, row.key, row.ref)
    return {
        "number": row.ref,
        "run": run.run_id,
        "job": run.job,
        "kind": row.kind,
        "state": row.status,
        "instant": at(row.instant),
        "started_at": moment(row.started_at),
        "ended_at": moment(row.ended_at),
        "reason": row.reason,
    }


def _number(text: str) -> int | None:
    with contextlib.suppress(ValueError):
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
    return None
