"""The reaper: ends expired occurrences that no node has ended, and frees blocked overlap queues (N4, X6).

    expired ─► its node lives: ask the node to end it ─► a kill grace later ─► still not ended: reap
           └─► it has no owner: reap
           └─► unknown whether its node lives: leave it to the rescuer

The reaper never sees an occurrence that its node handles: the node ends it at its execution timeout. The expiry in the
store is later, because it includes the kill grace and the time for conditions and hooks. The reaper sees occurrences
that their node has lost, or cannot write the end of.

All times are the store's. If the store's clock is set ahead by an hour, no occurrence has run for an hour longer. The
reaper adds that hour to the expiry of occurrences that had started before (N6).

Only a node that has the code of a job can call its completion hooks (X7). A node without the code leaves such an
occurrence to other nodes for a while. Then it reaps the occurrence anyway, because the job must be able to run again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from itinerary.core.recovery.rescue import reaped
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.errors import StoreError
from itinerary.model.queries import Detail, DetailsQuery, OverdueQuery
from itinerary.model.rows import NodeNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import CancelRequest, TakeoverWrite, Written
from itinerary.ports import Clock, Store
from itinerary.runtime import outcome_events as settling
from itinerary.runtime.outcome_events import Tell, nobody
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["Reaper"]

_WHO: Final = "the reaper"
_LEFT_TO_OTHERS: Final = 3
"""Looks for which a node leaves an occurrence to other nodes if it cannot call the hooks."""
_JUMP: Final = 2 * SECOND
"""The smallest step of the store's clock that counts as a jump. A smaller step can be network delay."""
_JUMPS_MAX: Final = 100


class Reaper:
    """The component that ends expired occurrences."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: Clock,
        *,
        knows: Callable[[NodeNumber | None], bool],
        plans: Callable[[], PlanCache],
        log: Any,
        notify: Tell = nobody,
    ) -> None:
        """Create a reaper.

        Args:
            store: The store to search.
            node: This node.
            settings: The settings of the node.
            clock: The store clock.
            knows: True if this node knows whether the given node is alive.
            plans: Returns the plans of the jobs.
            log: The log of the node.
            tell: Receives an event for each reaped occurrence.
        """
        self._store, self._node, self._clock, self._log = store, node, clock, log
        self._knows, self._plans, self._notify = knows, plans, notify
        self._interval, self._kill_grace = settings.reaper_interval, settings.kill_grace
        self._is_wanted = asyncio.Event()
        self._asked: dict[tuple[Ref, int], int] = {}
        """The time at which the owner was asked to end an occurrence, by this node's clock. A new fence means a new
        owner."""
        self._ahead: int | None = None
        """The difference between the store's clock and this node's clock."""
        self._jumps: deque[tuple[int, int]] = deque(maxlen=_JUMPS_MAX)
        """The jumps of the store's clock: the time of each, in store time, and its size."""
        self._left: dict[tuple[Ref, int], int] = {}
        """The number of looks for which an occurrence was left to other nodes."""

    async def run(self) -> None:
        """Look until cancelled. Look again sooner while an owner was asked to end an occurrence."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                self._log.warning("reaper.failed", error=str(error), hint="it is tried again")
            await self._wait()

    async def _wait(self) -> None:
        wait = min(self._interval, self._kill_grace) if self._asked else self._interval
        self._is_wanted.clear()
        try:
            async with asyncio.timeout(wait / SECOND):
                await self._is_wanted.wait()
        except TimeoutError:
            return

    def take_settings(self, settings: Settings) -> None:
        """Use the interval of these settings, and look now."""
        self._interval = settings.reaper_interval
        self._is_wanted.set()

    async def look(self) -> None:
        """Look once for expired occurrences and blocked overlap queues."""
        found = await self._store.read(OverdueQuery())
        self._mind_the_clock(found.now)
        mine = [row for row in found.expired if self._knows(row.owner) and self._is_over(row, found.now)]
        known = {(row.ref, row.fence) for row in mine}
        self._asked = {key: at for key, at in self._asked.items() if key in known}
        self._left = {key: times for key, times in self._left.items() if key in known}
        await self._ask([row for row in mine if row.owner is not None and (row.ref, row.fence) not in self._asked])
        ripe = [row for row in mine if row.owner is None or self._has_had_its_grace(row)]
        if ripe:
            await self._reap(ripe)
        if found.stuck:
            await self._call(found.stuck)

    def _mind_the_clock(self, store_now: int) -> None:
        before, self._ahead = self._ahead, store_now - self._clock.elapsed()
        if before is not None and self._ahead - before > _JUMP:
            self._jumps.append((store_now, self._ahead - before))

    def _is_over(self, row: OccurrenceRow, store_now: int) -> bool:
        """True if an occurrence has expired, without counting jumps of the store's clock since its start."""
        began_at, expires_at = row.started_at or 0, row.expires_at or 0
        return expires_at + sum(by for at, by in self._jumps if began_at < at) <= store_now

    async def _ask(self, rows: Sequence[OccurrenceRow]) -> None:
        """Ask the owners to end their occurrences.

        This is an ordinary cancellation, which a node receives within a second.
        """
        unasked = [row for row in rows if row.cancelled_by is None]
        if unasked:
            why = f"{_WHO}: over its time"
            await self._store.control(self._node, [CancelRequest(row.ref, why) for row in unasked])
        now = self._clock.elapsed()
        self._asked |= {(row.ref, row.fence): now for row in rows}

    def _has_had_its_grace(self, row: OccurrenceRow) -> bool:
        return self._clock.elapsed() - self._asked[row.ref, row.fence] >= self._kill_grace

    async def _reap(self, rows: Sequence[OccurrenceRow]) -> None:
        details = await self._store.read(DetailsQuery(tuple(row.ref for row in rows)))
        seen = {(row.ref, row.fence) for row in rows}
        writes = [
            write
            for detail in details
            if (detail.row.ref, detail.row.fence) in seen and detail.row.status not in FINAL
            if (write := self._reaping(detail)) is not None
        ]
        answers = await self._store.intervene(self._node, writes) if writes else []
        self._notify(settling.ended(self._plans().timeline, rows, writes, answers))

    def _reaping(self, detail: Detail) -> TakeoverWrite | None:
        """Return the write that reaps an occurrence; None to leave it to other nodes for now."""
        row, plan = detail.row, self._plans().readable(detail.row)
        untold = ""
        if plan is not None and plan.definition.on_complete:
            times = self._left[row.ref, row.fence] = self._left.get((row.ref, row.fence), -1) + 1
            if times < _LEFT_TO_OTHERS and (not plan.is_runnable or row.owner is None):
                return None
            if not plan.is_runnable or row.owner is None:
                plan = None  # no node appeared that can call its hooks
                untold = "; on_complete was not called: no node that has the code of the job took it over"
        assert row.started_at is not None, "what has not begun has all the time in the world"
        took = format_duration((row.expires_at or row.started_at) - row.started_at)
        return reaped(detail, f"over its time: nobody ended it within {took} of its start{untold}", plan)

    async def _call(self, rows: Sequence[OccurrenceRow]) -> None:
        """Give a free overlap slot to the first occurrence in its queue (protocol rule 14)."""
        why = "nobody is in its job's slot"
        calls = [TakeoverWrite(row.ref, row.fence, OccurrenceState.PENDING, why) for row in rows]
        for row, answer in zip(rows, await self._store.intervene(self._node, calls), strict=True):
            if isinstance(answer, Written):
                self._log.warning("line.called", occurrence=row.ref, job=row.job)
