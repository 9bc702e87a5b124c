"""Rate limits of callers (Q4): token buckets.

A bucket holds a number of requests and refills at a rate. A caller with an empty bucket receives the time to wait. Each
token has a bucket; without a token, each client address has one. Reads and changes have separate buckets, so an open
dashboard cannot stop its user from cancelling a run. A wrong token takes from a third, smaller bucket of its address.
That bucket slows down only wrong tokens: a right token always passes, whatever its address sends.

A rejection for too many requests is sent after one second (`Slowdown`). So a client that ignores it asks once a second
on each of its connections, and costs the server almost nothing.

The number of buckets is bounded. The bucket that was unused for longest is dropped first; its caller starts with a full
one.
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
"""The maximum number of buckets of each kind."""


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The rates per second, and the bursts that are allowed above them."""

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
    """Buckets by key.

    A level is counted in whole microseconds of refill time, so frequent reads lose nothing by rounding.
    """

    def __init__(self, per_second: float, at_once: int, elapsed: Callable[[], int], size: int = BUCKETS_MAX) -> None:
        """Set the rate and the burst. `elapsed` is a monotonic clock in microseconds."""
        self._price = max(1, round(SECOND / per_second))
        self._full = at_once * self._price
        self._elapsed, self._size = elapsed, size
        self._buckets: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> int | None:
        """Take one request from a bucket.

        Returns:
            None if the bucket had one; otherwise the whole seconds until it has.
        """
        level = self._level(key)
        wait = self._wait(level)
        self._buckets[key] = (level if wait else level - self._price, self._elapsed())
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        return wait

    def wait(self, key: str) -> int | None:
        """Return the result of `take` without taking a request."""
        return self._wait(self._level(key))

    def _level(self, key: str) -> int:
        if key not in self._buckets:
            return self._full
        level, at = self._buckets[key]
        return min(self._full, level + self._elapsed() - at)

    def _wait(self, level: int) -> int | None:
        return None if level >= self._price else -((level - self._price) // SECOND)


class Slowdown:
    """A delay before rejections for too many requests. Used on one event loop."""

    def __init__(self, seconds: float = 1.0, at_once: int = 200) -> None:
        """Set the delay. At most `at_once` rejections wait; further ones are sent at once, to free connections."""
        self._seconds, self._left = seconds, at_once

    async def wait(self) -> None:
        """Wait before a rejection is sent. A server that stops cancels the wait, and the rejection is sent at once."""
        if not self._left:
            return
        self._left -= 1
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(self._seconds)
        self._left += 1
