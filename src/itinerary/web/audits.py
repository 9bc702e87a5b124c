"""Audits that somebody has asked for on the dashboard: in the background, one at a time, and at half speed.

An audit goes through every occurrence of its window. It is read-only, and runs in the same process as a scheduler; so
between two pages it rests for as long as it has worked. What it came to is kept for a while, per window: who looks at
the page again within a minute does not have it run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from itinerary.audit import Audited, Progress, audit_store
from itinerary.errors import ItineraryError, NodeError
from itinerary.ports import Store
from itinerary.web.background import Background

__all__ = ["WINDOW_MAX", "AuditSeen", "Audits"]

WINDOW_MAX: Final = 31 * 86_400 * 1_000_000
"""The longest window, in microseconds; longer ones are for the command line."""
_KEPT_MAX: Final = 20
_FRESH_FOR: Final = 60.0
_TIME_LIMIT: Final = 900.0
_REST_MAX: Final = 1.0

Window = tuple[int, int]


class AuditSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One audit: under way, or what it came to."""

    progress: Progress | None = None
    """None: it waits for another one to end."""
    found: Audited | None = None
    trouble: str | None = None
    ended: float | None = None
    """When it had ended, by a clock of our own."""

    @property
    def percent(self) -> int:
        """How far it is."""
        if self.progress is None:
            return 0
        far = self.progress
        return 100 * (far.upto - far.start) // max(far.end - far.start, 1)


class Audits:
    """The last ones, by window."""

    def __init__(self, background: Background, store: Callable[[], Awaitable[Store]]) -> None:
        self._background, self._store = background, store
        self._seen: dict[Window, AuditSeen] = {}
        self._turn = asyncio.Lock()

    def seen(self, window: Window) -> AuditSeen | None:
        """How far the audit of a window is, or what it came to."""
        return self._seen.get(window)

    def ask(self, window: Window) -> None:
        """Have a window audited, unless it is, or was a moment ago. Raises NodeError if too much is under way."""
        name, seen = f"audit {window}", self._seen.get(window)
        is_fresh = seen is not None and seen.ended is not None and monotonic() - seen.ended < _FRESH_FOR
        if is_fresh or self._background.runs(name):
            return
        if self._background.is_full:
            raise NodeError("too much is under way on this node already; ask again when it has ended")
        self._seen.pop(window, None)
        self._seen[window] = AuditSeen()
        for old in [known for known, one in self._seen.items() if one.ended is not None][: len(self._seen) - _KEPT_MAX]:
            del self._seen[old]
        self._background.start(name, self._work(window))

    async def _work(self, window: Window) -> None:
        try:
            async with self._turn, asyncio.timeout(_TIME_LIMIT):
                store = _Resting(await self._store())
                found = await audit_store(cast("Store", store), *window, lambda far: self._note(window, far))
        except ItineraryError as error:
            self._end(window, AuditSeen(trouble=str(error)))
        except TimeoutError:
            why = "it took more than a quarter of an hour; audit a shorter window, or use `itinerary audit`"
            self._end(window, AuditSeen(trouble=why))
        else:
            self._end(window, AuditSeen(found=found))

    def _note(self, window: Window, far: Progress) -> None:
        self._seen[window] = AuditSeen(progress=far)

    def _end(self, window: Window, seen: AuditSeen) -> None:
        self._seen[window] = replace(seen, ended=monotonic())


class _Resting:
    """A store whose reader rests before each read, for as long as it has worked since the last one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since = monotonic()

    async def read(self, query: Any) -> Any:
        await asyncio.sleep(min(monotonic() - self._since, _REST_MAX))
        answer = await self._store.read(query)
        self._since = monotonic()
        return answer
