"""Live pages: rendered once for all viewers, and sent when they change.

    page(key, draw)       a page as it is now: rendered, or shared with its followers
    follow(key, draw)     the changes of a page from then on: changed parts only, as server-sent events

A page consists of a few named parts of HTML, which a function renders from the store. While a page has followers, it is
rendered again each second, however many follow, and changed parts are sent. Such pages are rendered one after another.
If there are many, or one is slow, they are rendered less often: followers never use more than a small share of a CPU
core, nor of the store's time.

During a store outage, followers receive the outage and its start. The page stays as it was, and updates resume by
themselves. Rendered parts do not depend on the viewer: only the frame around them does (see `pages.rendering`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from time import perf_counter
from typing import Any, Final

import msgspec

from itinerary.errors import NodeError, StoreError
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web.server_state import ServerState

__all__ = ["FOLLOWERS_MAX", "Draw", "LivePages", "RenderedPage", "TooMany", "hash_of"]

FOLLOWERS_MAX: Final = 500
_PAGES_MAX: Final = 100
"""The maximum number of followed pages; any number of pages can be read."""
_EVERY: Final = 1.0
_SHARE: Final = 50
"""The pause after a rendering, as a multiple of its duration and of the number of followed pages.

So rendering takes 2 % of the time for all followed pages together. More would increase the start lateness of the node
(`bench attack`).
"""
_KEPT_MAX: Final = 50
"""The maximum number of pages whose last rendering is kept for a store outage."""
_BEAT_EVERY: Final = 15.0
"""The seconds without an event after which a follower receives a keep-alive."""


class RenderedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered page: its parts are HTML, in their order on the page."""

    title: str
    parts: Mapping[str, str]
    status: int = 200

    def hashed(self) -> dict[str, tuple[str, str]]:
        """Return each part with its hash."""
        return {
            name: (hash_of(html), str(html)) for name, html in self.parts.items()
        }  # a template's text is its own kind of string


Draw = Callable[[StoreSnapshot], Awaitable[RenderedPage]]


class TooMany(NodeError):
    """Raised when there are more viewers than can be served."""


def hash_of(html: str) -> str:
    """Return the hash by which a part is recognised as unchanged."""
    return blake2b(html.encode(), digest_size=8).hexdigest()


class LivePages:
    """The pages that have viewers."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._watched: dict[str, _Watch] = {}
        self._kept: dict[str, RenderedPage] = {}
        self._followers = 0
        self.drawing = asyncio.Lock()
        """Held by the followed page that is being rendered, so that its render time excludes the wait for others."""

    async def page(self, key: str, draw: Draw) -> RenderedPage:
        """Return a page as it is now. Raises StoreError in an outage if the page is not kept."""
        watch = self._watched.get(key)
        if watch is not None and watch.drawn is not None and self._server.trouble is None:
            return watch.drawn
        try:
            return await self.draw(key, draw)
        except StoreError:
            if key in self._kept:
                return self._kept[key]
            raise

    async def draw(self, key: str, draw: Draw) -> RenderedPage:
        """Render a page, and keep it. Raises StoreError."""
        try:
            snapshot = await self._server.snapshot()
            async with self._server.answering():
                drawn = await draw(snapshot)
        except StoreError as error:
            self._server.failed(error)
            raise
        self._kept.pop(key, None)
        self._kept[key] = drawn
        if len(self._kept) > _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return drawn

    async def follow(self, key: str, draw: Draw, seen: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the changes of a page as server-sent events.

        Args:
            key: The key of the page.
            draw: Renders the page.
            seen: The hashes of the parts that the client has.

        Raises:
            TooMany: There are too many followers. Raised before anything is sent.
        """
        watch = self._watched.get(key)
        if self._followers >= FOLLOWERS_MAX or (watch is None and len(self._watched) >= _PAGES_MAX):
            raise TooMany(f"{self._followers} dashboards are open already; close some, or ask another node")
        if watch is None:
            watch = self._watched[key] = _Watch(self, key, draw)
        follower = _Follower(dict(seen))
        watch.add(follower)
        self._followers += 1
        try:
            yield b": from here on\n\n"
            while True:
                yield await follower.next()
        finally:
            self._followers -= 1
            watch.remove(follower)
            if not watch.followers:
                watch.end()
                if self._watched.get(key) is watch:
                    del self._watched[key]

    @property
    def watched(self) -> int:
        """The number of followed pages."""
        return len(self._watched)

    @property
    def server(self) -> ServerState:
        """The state that all requests share."""
        return self._server


class _Watch:
    """A page and its followers."""

    def __init__(self, hub: LivePages, key: str, draw: Draw) -> None:
        self._hub, self._key, self._draw = hub, key, draw
        self.followers: set[_Follower] = set()
        self.drawn: RenderedPage | None = None
        self._parts: dict[str, tuple[str, str]] = {}
        self._task = asyncio.create_task(self._live(), name=f"page {key}")

    def add(self, follower: _Follower) -> None:
        self.followers.add(follower)
        if self.drawn is not None:
            follower.notify(self._parts)

    def remove(self, follower: _Follower) -> None:
        self.followers.discard(follower)

    def end(self) -> None:
        self._task.cancel()

    async def _live(self) -> None:
        before = 0.0
        while True:
            took = await self._draw_again()
            usual, before = min(took, before), took  # a single slow rendering does not count
            await asyncio.sleep(max(_EVERY - took, usual * _SHARE * self._hub.watched))

    async def _draw_again(self) -> float:
        """Render the page, and send it to its followers. Returns the duration in seconds."""
        async with self._hub.drawing:
            began = perf_counter()
            try:
                drawn = await self._hub.draw(self._key, self._draw)
            except StoreError:
                self._say_trouble()
                return 0.0  # the store was slow, not the page: try again soon
            except Exception as error:
                for follower in self.followers:
                    follower.fail(error)
                raise
            self.drawn, self._parts = drawn, drawn.hashed()
            self._say_trouble()
            for follower in self.followers:
                follower.notify(self._parts)
            return perf_counter() - began

    def _say_trouble(self) -> None:
        trouble = self._hub.server.trouble
        for follower in self.followers:
            follower.tell_trouble(msgspec.to_builtins(trouble))


class _Follower:
    """A viewer of a page: the parts it has, and the parts to send. A slow client receives only the newest version."""

    def __init__(self, seen: dict[str, str]) -> None:
        self._seen = seen
        self._parts: dict[str, tuple[str, str]] = {}
        self._trouble: Any = None
        self._told_trouble: Any = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def notify(self, parts: Mapping[str, tuple[str, str]]) -> None:
        for name, (known, html) in parts.items():
            if self._seen.get(name) != known:
                self._parts[name] = (known, html)
                self._news.set()
            else:
                self._parts.pop(name, None)

    def tell_trouble(self, trouble: Any) -> None:
        self._trouble = trouble
        if trouble != self._told_trouble:
            self._news.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._news.set()

    async def next(self) -> bytes:
        """Wait for the next message."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEAT_EVERY):
                await self._news.wait()
        self._news.clear()
        if self._error is not None:
            raise self._error
        sent = b""
        if self._trouble != self._told_trouble:
            self._told_trouble = self._trouble
            sent += _event("trouble", self._trouble)
        if self._parts:
            sent += _parts_event(tuple((name, html) for name, (_, html) in self._parts.items()))
            self._seen.update({name: known for name, (known, _) in self._parts.items()})
            self._parts.clear()
        return sent or b": still there\n\n"


@lru_cache(maxsize=16)
def _parts_event(parts: tuple[tuple[str, str], ...]) -> bytes:
    """Return the event with these parts, encoded once for all followers that receive the same."""
    return _event("parts", dict(parts))


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
