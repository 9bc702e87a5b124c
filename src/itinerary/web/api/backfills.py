"""Backfills that this node runs in background tasks, with their progress.

Created runs remain if the node stops. A caller that sends the same request with the same key again, to any node,
resumes the backfill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from itinerary.errors import ItineraryError
from itinerary.operations.backfill import Backfill
from itinerary.web.problems import RequestRefused

__all__ = ["BackfillRegistry", "TrackedBackfill"]

_AT_ONCE_MAX: Final = 20
_KEPT_MAX: Final = 200
"""The maximum number of ended backfills that are kept."""

Work = Callable[[Callable[[Backfill], None]], Coroutine[Any, Any, Backfill]]


class TrackedBackfill:
    """A backfill and its progress."""

    def __init__(self, far: Backfill) -> None:
        self.far = far
        self.trouble: str | None = None
        self.has_begun = asyncio.Event()
        """Set when the first occurrences and the key are durable, or when the backfill has ended."""
        self.task: asyncio.Task[None] | None = None

    @property
    def is_worked_on(self) -> bool:
        """True if the backfill runs on this node."""
        return self.task is not None and not self.task.done()


class BackfillRegistry:
    """The backfills that this node runs, and the latest ones that ended."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._known: dict[tuple[str, str], TrackedBackfill] = {}

    def get(self, job: str, key: str) -> TrackedBackfill | None:
        """Return the backfill of a job and a key, if this node started it."""
        return self._known.get((job, key))

    async def begin(self, job: str, key: str, far: Backfill, work: Work) -> TrackedBackfill:
        """Start a backfill unless it is running, and wait until its first occurrences are durable.

        Raises:
            Refused: Too many backfills run on this node.
        """
        known = self._known.get((job, key))
        if known is not None and known.is_worked_on:
            return known
        under_way = sum(one.is_worked_on for one in self._known.values())
        if under_way >= _AT_ONCE_MAX:
            raise RequestRefused(
                503, "Busy", f"{under_way} backfills are under way on this node already; ask another, or later"
            )
        worked = self._known[job, key] = TrackedBackfill(far)
        worked.task = asyncio.create_task(self._worked_off(worked, work, job), name=f"backfill {job}")
        over = [place for place, one in self._known.items() if not one.is_worked_on]
        for place in over[: max(len(self._known) - _KEPT_MAX, 0)]:
            del self._known[place]
        await worked.has_begun.wait()
        return worked

    async def close(self) -> None:
        """Cancel all running backfills. The created runs remain."""
        tasks = [one.task for one in self._known.values() if one.task is not None and not one.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _worked_off(self, worked: TrackedBackfill, work: Work, job: str) -> None:
        def handle(far: Backfill) -> None:
            worked.far = far
            worked.has_begun.set()

        try:
            worked.far = await work(handle)
        except ItineraryError as error:
            worked.trouble = str(error)
            self._log.warning("web.backfill_stopped", job=job, error=str(error))
        finally:
            worked.has_begun.set()
