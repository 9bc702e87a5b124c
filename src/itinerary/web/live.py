"""What people look at, drawn once for all who do, and sent to them when it changes.

    page(key, draw)       a page as it is now: drawn, or a second ago for somebody else
    follow(key, draw)     the same page from then on: only the parts that changed, as server-sent events

A page is a few named parts of HTML, drawn from the store by a function. As long as somebody follows a page it is drawn
again each second, however many follow it, and a part is sent when it is another than before. Such pages are drawn one
after another; if there are many, or one takes long, they are drawn less often: looking never costs more than a small
share of a core, nor of the store's time.

If the store cannot be reached, those who follow are told so and since when; the page stays as it was, and goes on by
itself. Nothing that is drawn depends on who looks: what does is in the frame around it (see `pages.showing`).
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
from itinerary.read.snapshot import Ground
from itinerary.web.server_state import House

__all__ = ["FOLLOWERS_MAX", "Draw", "Drawn", "Hub", "TooMany", "hash_of"]

FOLLOWERS_MAX: Final = 500
_PAGES_MAX: Final = 100
"""Pages that may be followed at the same time; more can be looked at."""
_EVERY: Final = 1.0
_SHARE: Final = 50
"""A page is drawn again after so many times as long as it took, times the pages that are followed: so all of them
together are drawn for 2 % of the time. More would show in the start lateness of the node (`bench attack`)."""
_KEPT_MAX: Final = 50
"""Pages that are kept as they were last, for when the store is away."""
_BEAT_EVERY: Final = 15.0
"""Seconds after which somebody to whom nothing was sent gets a sign of life."""


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A page: its parts are HTML, in the order in which they stand."""

    title: str
    parts: Mapping[str, str]
    status: int = 200

    def hashed(self) -> dict[str, tuple[str, str]]:
        """Each part with its hash."""
        return {
            name: (hash_of(html), str(html)) for name, html in self.parts.items()
        }  # a template's text is its own kind


Draw = Callable[[Ground], Awaitable[Drawn]]


class TooMany(NodeError):
    """More people look than can be served."""


def hash_of(html: str) -> str:
    """By which a part is known to be what it was."""
    return blake2b(html.encode(), digest_size=8).hexdigest()


class Hub:
    """All pages that somebody looks at."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._watched: dict[str, _Watch] = {}
        self._kept: dict[str, Drawn] = {}
        self._followers = 0
        self.drawing = asyncio.Lock()
        """Held by the page that is being drawn for those who follow it: it is not timed while it waits for others."""

    async def page(self, key: str, draw: Draw) -> Drawn:
        """A page as it is now. Raises StoreError if the store is away and the page was never seen."""
        watch = self._watched.get(key)
        if watch is not None and watch.drawn is not None and self._house.trouble is None:
            return watch.drawn
        try:
            return await self.draw(key, draw)
        except StoreError:
            if key in self._kept:
                return self._kept[key]
            raise

    async def draw(self, key: str, draw: Draw) -> Drawn:
        """Draw a page, and keep it. Raises StoreError."""
        try:
            ground = await self._house.ground()
            async with self._house.answering():
                drawn = await draw(ground)
        except StoreError as error:
            self._house.failed(error)
            raise
        self._kept.pop(key, None)
        self._kept[key] = drawn
        if len(self._kept) > _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return drawn

    async def follow(self, key: str, draw: Draw, seen: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """What changes, as server-sent events; `seen` are the hashes of the parts that the reader has. Raises TooMany,
        before anything is sent."""
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
        """How many pages are followed."""
        return len(self._watched)

    @property
    def house(self) -> House:
        """Where it looks."""
        return self._house


class _Watch:
    """One page, and those who follow it."""

    def __init__(self, hub: Hub, key: str, draw: Draw) -> None:
        self._hub, self._key, self._draw = hub, key, draw
        self.followers: set[_Follower] = set()
        self.drawn: Drawn | None = None
        self._parts: dict[str, tuple[str, str]] = {}
        self._task = asyncio.create_task(self._live(), name=f"page {key}")

    def add(self, follower: _Follower) -> None:
        self.followers.add(follower)
        if self.drawn is not None:
            follower.tell(self._parts)

    def remove(self, follower: _Follower) -> None:
        self.followers.discard(follower)

    def end(self) -> None:
        self._task.cancel()

    async def _live(self) -> None:
        before = 0.0
        while True:
            took = await self._draw_again()
            usual, before = min(took, before), took  # one that was slow once, as the first mostly is, is not slow
            await asyncio.sleep(max(_EVERY - took, usual * _SHARE * self._hub.watched))

    async def _draw_again(self) -> float:
        """Draw it, and tell those who follow. Returns how long that took, in seconds."""
        async with self._hub.drawing:
            began = perf_counter()
            try:
                drawn = await self._hub.draw(self._key, self._draw)
            except StoreError:
                self._say_trouble()
                return 0.0  # it is the store that took long: it is asked again soon
            except Exception as error:
                for follower in self.followers:
                    follower.fail(error)
                raise
            self.drawn, self._parts = drawn, drawn.hashed()
            self._say_trouble()
            for follower in self.followers:
                follower.tell(self._parts)
            return perf_counter() - began

    def _say_trouble(self) -> None:
        trouble = self._hub.house.trouble
        for follower in self.followers:
            follower.tell_trouble(msgspec.to_builtins(trouble))


class _Follower:
    """Somebody who looks: what they have, and what they are to be sent. A slow reader gets the newest, not all."""

    def __init__(self, seen: dict[str, str]) -> None:
        self._seen = seen
        self._parts: dict[str, tuple[str, str]] = {}
        self._trouble: Any = None
        self._told_trouble: Any = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def tell(self, parts: Mapping[str, tuple[str, str]]) -> None:
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
        """The next message."""
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
    """Return the event with these parts: encoded once for all who are sent the same."""
    return _event("parts", dict(parts))


def _event(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
