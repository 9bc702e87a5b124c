"""The remover: takes away what executors have left behind, when the store says that it may (K3, protocol rule 28).

A finished pod stays for an hour, for people to look at. A pod that still runs though its attempt is over has nobody who
listens to it, and goes at once: its occurrence was reaped, say, or its node could not delete it.

Whether an attempt is over is read from its row, so nothing is removed whose end is not durable. A pod of another
installation has an occurrence that this store does not know under that number, and is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError
from itinerary.model.attempts import Leftover
from itinerary.model.ids import job_id
from itinerary.model.queries import Detail, Details
from itinerary.model.rows import Ref
from itinerary.model.states import TASK_FINAL
from itinerary.ports import LeavesBehind, Store
from itinerary.schedules.durations import SECOND

__all__ = ["KEEP_FOR", "Remover"]

KEEP_FOR: Final = 3_600 * SECOND
"""How long what is finished is kept, in microseconds."""
LOOK_INTERVAL: Final = 60.0
"""How often is looked, in seconds."""
_AT_ONCE: Final = 1_000


class Remover:
    """Looks for what was left behind, on one node at a time: `is_first` says whether that is this one."""

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
        """Look, for ever."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if self._is_first():
                try:
                    await self.look()
                except StoreError as error:
                    self._log.warning("removal.failed", error=str(error), hint="it is tried again")

    async def look(self) -> None:
        """Look once."""
        found = [one for one in await self._executor.left_behind() if not one.is_over or one.over_for >= self._keep_for]
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            details = await self._store.read(Details(tuple({one.key.ref for one in some})))
            over = self._over(some, {detail.row.ref: detail for detail in details})
            if over:
                await self._executor.remove(over)
                self._log.info("pods.removed", count=len(over))

    def _over(self, leftovers: Sequence[Leftover], details: dict[Ref, Detail]) -> list[Leftover]:
        """Those whose attempts are over, as the store has it."""
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
