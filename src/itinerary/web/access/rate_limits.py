"""How much anybody may ask in a time (Q4).

A bucket holds so many requests and fills up again at a rate; who finds it empty is told when to come back. There is one
for each token, or, where there is none, for each address that asks; looking and changing have buckets of their own, so
that an open dashboard cannot keep its owner from cancelling a run. What fails to be a token empties a third, smaller
one, of its address. That one slows down only what is wrong: a right token passes, whatever others of its address send.

Who is refused for asking too much gets that answer a second later (`Slowdown`), so a client that does not heed it asks
once a second on each of its connections, and costs the server next to nothing.

The buckets are bounded. The one that was not used for longest is forgotten first, and its owner begins with a full one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.schedules.durations import SECOND

__all__ = ["BUCKETS_MAX", "Buckets", "RateLimits", "Slowdown"]

BUCKETS_MAX: Final = 10_000
"""How many are remembered, of each kind."""


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many in a second, after how many at once."""

    reads_per_second: float = 100.0
    reads_at_once: int = 400
    changes_per_second: float = 20.0
    changes_at_once: int = 100
    failures_per_second: float = 0.2
    failures_at_once: int = 10

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            if not getattr(self, key) > 0:
                raise ConfigError(f"{key} {getattr(self, key)!r} is out of range; give more than 0")


class Buckets:
    """A bucket for each key. What is in it is counted in time, since that is what fills it: whole microseconds, so that
    nothing is lost by rounding however often somebody looks."""

    def __init__(self, per_second: float, at_once: int, elapsed: Callable[[], int], size: int = BUCKETS_MAX) -> None:
        """`elapsed` is a clock that only goes forward, in microseconds."""
        self._price = max(1, round(SECOND / per_second))
        self._full = at_once * self._price
        self._elapsed, self._size = elapsed, size
        self._buckets: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> int | None:
        """Take one. Returns None, or, if there is none, in how many whole seconds there will be."""
        level = self._level(key)
        wait = self._wait(level)
        self._buckets[key] = (level if wait else level - self._price, self._elapsed())
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        return wait

    def wait(self, key: str) -> int | None:
        """The same without taking one."""
        return self._wait(self._level(key))

    def _level(self, key: str) -> int:
        if key not in self._buckets:
            return self._full
        level, at = self._buckets[key]
        return min(self._full, level + self._elapsed() - at)

    def _wait(self, level: int) -> int | None:
        return None if level >= self._price else -((level - self._price) // SECOND)


class Slowdown:
    """Lets those who ask too much wait for their refusal. Used on one loop."""

    def __init__(self, seconds: float = 1.0, at_once: int = 200) -> None:
        """`at_once`: so many may wait; further ones are refused without a wait, so that connections are left."""
        self._seconds, self._left = seconds, at_once

    async def wait(self) -> None:
        """Wait before a refusal is sent. A server that stops cancels the wait: then it is sent at once."""
        if not self._left:
            return
        self._left -= 1
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(self._seconds)
        self._left += 1
