"""The reaper: ends what is over its time and that nobody has ended, and calls lines that nobody has called (N4, X6).

    over its time ─► its node lives: it is asked to end it ─► a kill grace later ─► still there: reaped
                 └─► nobody has it: reaped
                 └─► nobody knows yet whether its node lives: that is the rescuer's

An occurrence that its node looks after never comes here: the node ends it at its execution timeout, and what the store
says of its time has the kill grace in it, and whatever its requirements and hooks may take. What comes here is what its
node has lost sight of, or cannot write the end of.

Time is the store's. If its clock is set ahead by an hour, nothing has run for an hour longer: what had begun before
gets that hour back (N6).

Only who has the code of a job can tell its hooks of an end (X7). A node that has not leaves such a one to others for a
while, and then reaps it all the same: a job must be free again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from itinerary.core.recovery.rescue import reaped
from itinerary.core.timeline.job_plan import PlanBook
from itinerary.errors import StoreError
from itinerary.model.queries import Detail, Details, Overdue
from itinerary.model.rows import NodeNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import Cancellation, Intervention, Written
from itinerary.ports import Clock, Store
from itinerary.runtime import outcome_events as settling
from itinerary.runtime.outcome_events import Tell, nobody
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["Reaper"]

_WHO: Final = "the reaper"
_LEFT_TO_OTHERS: Final = 3
"""For how many turns a node leaves to others what it cannot tell the hooks of."""
_JUMP: Final = 2 * SECOND
"""The least step of the store's clock that is taken for one; less is the way there and back."""
_JUMPS_MAX: Final = 100


class Reaper:
    """Looks for what is over its time."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: Clock,
        *,
        knows: Callable[[NodeNumber | None], bool],
        plans: Callable[[], PlanBook],
        log: Any,
        tell: Tell = nobody,
    ) -> None:
        """`knows` says whether it is known of a node if it lives; `plans` are those of the jobs."""
        self._store, self._node, self._clock, self._log = store, node, clock, log
        self._knows, self._plans, self._tell = knows, plans, tell
        self._interval, self._kill_grace = settings.reaper_interval, settings.kill_grace
        self._is_wanted = asyncio.Event()
        self._asked: dict[tuple[Ref, int], int] = {}
        """When who was asked to end, by this node's clock; under another fence it is another's."""
        self._ahead: int | None = None
        """How far the store's clock is ahead of this node's."""
        self._jumps: deque[tuple[int, int]] = deque(maxlen=_JUMPS_MAX)
        """When the store's clock was set ahead, by itself, and by how much."""
        self._left: dict[tuple[Ref, int], int] = {}
        """How often what was left to others."""

    async def run(self) -> None:
        """Look, for ever: soon again, if somebody was asked to end."""
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
        """Look as often as these say, and for the first time now."""
        self._interval = settings.reaper_interval
        self._is_wanted.set()

    async def look(self) -> None:
        """Look once."""
        found = await self._store.read(Overdue())
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
        """Whether it is over its time, without what the store's clock was set ahead since it began."""
        began_at, expires_at = row.started_at or 0, row.expires_at or 0
        return expires_at + sum(by for at, by in self._jumps if began_at < at) <= store_now

    async def _ask(self, rows: Sequence[OccurrenceRow]) -> None:
        """Ask those who have them to end them: what people may do, and what a node hears within a second."""
        unasked = [row for row in rows if row.cancelled_by is None]
        if unasked:
            why = f"{_WHO}: over its time"
            await self._store.control(self._node, [Cancellation(row.ref, why) for row in unasked])
        now = self._clock.elapsed()
        self._asked |= {(row.ref, row.fence): now for row in rows}

    def _has_had_its_grace(self, row: OccurrenceRow) -> bool:
        return self._clock.elapsed() - self._asked[row.ref, row.fence] >= self._kill_grace

    async def _reap(self, rows: Sequence[OccurrenceRow]) -> None:
        details = await self._store.read(Details(tuple(row.ref for row in rows)))
        seen = {(row.ref, row.fence) for row in rows}
        writes = [
            write
            for detail in details
            if (detail.row.ref, detail.row.fence) in seen and detail.row.status not in FINAL
            if (write := self._reaping(detail)) is not None
        ]
        answers = await self._store.intervene(self._node, writes) if writes else []
        self._tell(settling.ended(self._plans().timeline, rows, writes, answers))

    def _reaping(self, detail: Detail) -> Intervention | None:
        """What is done about it; None if that is left to others for now."""
        row, plan = detail.row, self._plans().readable(detail.row)
        untold = ""
        if plan is not None and plan.definition.on_complete:
            times = self._left[row.ref, row.fence] = self._left.get((row.ref, row.fence), -1) + 1
            if times < _LEFT_TO_OTHERS and (not plan.is_runnable or row.owner is None):
                return None
            if not plan.is_runnable or row.owner is None:
                plan = None  # nobody came who could tell its hooks
                untold = "; on_complete was not called: no node that has the code of the job took it over"
        assert row.started_at is not None, "what has not begun has all the time in the world"
        took = format_duration((row.expires_at or row.started_at) - row.started_at)
        return reaped(detail, f"over its time: nobody ended it within {took} of its start{untold}", plan)

    async def _call(self, rows: Sequence[OccurrenceRow]) -> None:
        """Give the slot to whoever stands in line first, where nobody is in there any more (protocol rule 14)."""
        why = "nobody is in its job's slot"
        calls = [Intervention(row.ref, row.fence, OccurrenceState.PENDING, why) for row in rows]
        for row, answer in zip(rows, await self._store.intervene(self._node, calls), strict=True):
            if isinstance(answer, Written):
                self._log.warning("line.called", occurrence=row.ref, job=row.job)
