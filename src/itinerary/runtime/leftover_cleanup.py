"""The remover: deletes what executors have left behind, once the store allows it (K3, protocol rule 28).

A finished pod stays for an hour, so that users can inspect it. A pod that still runs although its attempt has ended has
no listener, and is removed at once. For example, its occurrence was reaped, or its node could not delete it.

The remover reads from the row whether an attempt has ended, so it removes nothing whose end is not durable. A pod of
another installation has an occurrence that this store does not know under that number. The remover leaves it alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError
from itinerary.model.attempts import Leftover
from itinerary.model.ids import job_id
from itinerary.model.queries import Detail, DetailsQuery
from itinerary.model.rows import Ref
from itinerary.model.states import TASK_FINAL
from itinerary.ports import LeavesBehind, Store
from itinerary.schedules.durations import SECOND

__all__ = ["KEEP_FOR", "LeftoverCleanup"]

KEEP_FOR: Final = 3_600 * SECOND
"""The retention of finished leftovers, in microseconds."""
LOOK_INTERVAL: Final = 60.0
"""Seconds between two looks."""
_AT_ONCE: Final = 1_000


class LeftoverCleanup:
    """The component that removes leftovers, on one node at a time. `is_first` is true on that node."""

    def __init__(
        self,
        executor: LeavesBehind,
        store: Store,
        timeline: Callable[[], Timeline],
        is_first: Callable[[], bool],
        log: Any,
        keep_for: int = KEEP_FOR,
    ) -> None:
        self._executor, self._store, self._timeline, self._is_first = executor, store, timeline, is_first
        self._log, self._keep_for = log, keep_for

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if self._is_first():
                try:
                    await self.look()
                except StoreError as error:
                    self._log.warning("removal.failed", error=str(error), hint="it is tried again")

    async def look(self) -> None:
        """Look for leftovers once, and remove those whose attempts have ended."""
        found = [one for one in await self._executor.left_behind() if not one.is_over or one.over_for >= self._keep_for]
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            details = await self._store.read(DetailsQuery(tuple({one.key.ref for one in some})))
            over = self._over(some, {detail.row.ref: detail for detail in details})
            if over:
                await self._executor.remove(over)
                self._log.info("pods.removed", count=len(over))

    def _over(self, leftovers: Sequence[Leftover], details: dict[Ref, Detail]) -> list[Leftover]:
        """Return the leftovers whose attempts have ended according to the store."""
        jobs, found = self._timeline().jobs, []
        for one in leftovers:
            detail = details.get(one.key.ref)
            job = None if detail is None else jobs.get(detail.row.job)
            if detail is None or job is None or detail.row.key.id(job_id(job.name)) != one.occurrence:
                continue
            attempts = {(attempt.place, attempt.number): attempt for attempt in detail.attempts}
            attempt = attempts.get((one.key.place, one.key.number))
            if attempt is not None and attempt.status in TASK_FINAL:
                found.append(one)
        return found
