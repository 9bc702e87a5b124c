"""Audits that users request on the dashboard: in the background, one at a time.

An audit reads every occurrence of its window. So it is heavy work (see `heavy`), and uses the CPU seconds of its
caller. The result of a window is kept for a while: a page that is opened again within a minute does not start its audit
again.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

import msgspec
from msgspec.structs import replace

from itinerary.audit import AuditProgress, AuditResult
from itinerary.errors import ItineraryError, NodeError
from itinerary.web.background import Background
from itinerary.web.heavy.pool import HeavyWork
from itinerary.web.heavy.works import AuditWork
from itinerary.web.problems import RequestRefused

__all__ = ["AuditSeen", "Audits"]

_KEPT_MAX: Final = 20
_FRESH_FOR: Final = 60.0

Window = tuple[int, int]


class AuditSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An audit: its progress, or its result."""

    progress: AuditProgress | None = None
    """None: the audit waits for another one to end."""
    found: AuditResult | None = None
    trouble: str | None = None
    ended: float | None = None
    """The end of the audit, by the monotonic clock."""

    @property
    def percent(self) -> int:
        """The progress in percent."""
        if self.progress is None:
            return 0
        far = self.progress
        return 100 * (far.upto - far.start) // max(far.end - far.start, 1)


class Audits:
    """The latest audits, by window."""

    def __init__(self, background: Background, heavy: HeavyWork) -> None:
        self._background, self._heavy = background, heavy
        self._seen: dict[Window, AuditSeen] = {}
        self._turn = asyncio.Lock()

    def seen(self, window: Window) -> AuditSeen | None:
        """Return the progress or the result of a window's audit; None if there is none."""
        return self._seen.get(window)

    def ask(self, window: Window, by: str) -> None:
        """Start the audit of a window for a caller, unless it is running or has just ended.

        Raises:
            NodeError: Too many audits and backfills are in progress.
        """
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
        self._background.start(name, self._work(window, by))

    async def _work(self, window: Window, by: str) -> None:
        start, end = window
        try:
            async with self._turn:
                answer = await self._heavy.run(
                    AuditWork(start=start, end=end), by, handle=lambda far: self._note(window, far), is_long=True
                )
        except (ItineraryError, RequestRefused) as error:
            self._end(window, AuditSeen(trouble=str(error)))
        else:
            self._end(window, AuditSeen(found=msgspec.json.decode(answer, type=AuditResult)))

    def _note(self, window: Window, far: AuditProgress) -> None:
        self._seen[window] = AuditSeen(progress=far)

    def _end(self, window: Window, seen: AuditSeen) -> None:
        self._seen[window] = replace(seen, ended=monotonic())
