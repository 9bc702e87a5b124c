"""The sweeper: makes sure that every due instant has a row (protocol rule 19, R1).

At the start of a node, the sweep is the recovery. While the node runs, the sweep creates the occurrences of dead nodes,
and records the instants of a pause. The sweeper compares the instants that the timeline expects with the existing rows,
from the watermark on. Missing instants become rows without an owner. The sweep also decides about rows that were
claimed before all nodes stopped. `core.recovery.sweep` and `core.recovery.unstarted_claims` decide. The node that holds
the plan carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from itinerary.core.recovery.sweep import ACTIVE_MAX, WINDOWS_REACH, Sweep, is_decided, last_step
from itinerary.core.recovery.unstarted_claims import NONE_UNSTARTED, UnstartedClaims, unstarted
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.queries import ActiveQuery, Answer, Query
from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Settings
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import Refusal
from itinerary.ports import Store
from itinerary.runtime import outcome_events as settling
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.idle_window import Comes, any_time
from itinerary.runtime.index_builder import Elsewhere, IndexBuilder
from itinerary.runtime.outcome_events import Tell, nobody
from itinerary.runtime.store_retry import StoreRetry
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant
from itinerary.stores.paging import decided_between, windows_after

__all__ = ["LOOKS", "Sweeper"]

LOOKS: Final = 5
"""Looks for work of a node between two heartbeats, and sweeps of several nodes together. By default, both happen
once a second."""
_SAY_EVERY: Final = 20 * SECOND
"""The interval between log lines while a node is behind with missed instants."""


class Sweeper:
    """The component that carries out sweep plans."""

    def __init__(  # noqa: PLR0913 - everything that a sweep needs
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: StoreClock,
        builder: IndexBuilder,
        *,
        elsewhere: Elsewhere,
        log: Any,
        notify: Tell = nobody,
        lull: Comes = any_time,
    ) -> None:
        """Create a sweeper.

        Args:
            store: The store to sweep.
            node: This node.
            settings: The settings of the node.
            clock: The store clock.
            builder: Keeps the timeline.
            elsewhere: Runs a function without blocking the loop.
            log: The log of the node.
            tell: Receives an event for each occurrence that the sweep ends.
            lull: Waits for a moment in which nothing is about to start.
        """
        self._store, self._node, self._settings, self._clock, self._builder = store, node, settings, clock, builder
        self._elsewhere, self._log, self._notify = elsewhere, log, notify
        self._lull = lull
        self._patience = StoreRetry("sweeper", log, settings.node_heartbeat_interval)
        self.dead: frozenset[NodeNumber] = frozenset()
        """Nodes that are known to be dead. This node takes over their plans."""
        self.is_shared = False
        """True if other nodes are present. The sweep then runs more often, on the node that is first to notice that
        it is due."""
        self._is_called = asyncio.Event()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._lull()
            try:
                await self.sweep()
            except ItineraryError as error:
                self._log.error("sweep.failed", error=str(error), hint="it is tried again")
            await self._until_due()

    def look(self, now: int, watermark: int) -> None:
        """Check after each read of the store whether a sweep is due.

        Where nodes share the work, the first node that sees an old watermark sweeps. One sweep is enough, because a
        sweep blocks all nodes for a moment.

        Args:
            now: The store's time.
            watermark: The instant up to which everything is decided.
        """
        due_every = self._settings.node_heartbeat_interval // LOOKS
        if self.is_shared and now - self._settings.takeover_after - watermark >= due_every:
            self._is_called.set()

    async def _until_due(self) -> None:
        self._is_called.clear()
        while not self._is_called.is_set():
            try:
                async with asyncio.timeout(self._settings.node_heartbeat_interval / SECOND):
                    await self._is_called.wait()
            except TimeoutError:
                if not self.is_shared:
                    return

    async def sweep(self) -> None:
        """Decide everything up to a moment ago, unless another node sweeps, or the clock is in doubt.

        If another node has left a plan unfinished, this node finishes that plan first, and then makes one for the rest.
        A starting node has therefore decided all missed instants before it is ready.
        """
        if self._clock.is_in_doubt:
            return
        end = self._end
        swept_to = await self._work_off_one()
        if swept_to is not None and swept_to < end:
            await self._work_off_one()

    @property
    def _end(self) -> int:
        """The end of a plan that is made now."""
        return self._clock.now() - self._settings.takeover_after

    async def _work_off_one(self) -> int | None:
        """Carry out one plan, and return its end; None if this node has no plan to carry out."""
        plan = await self._plan()
        if plan is None or plan.owner != self._node:
            return None
        swept_to = plan.end
        while plan is not None and plan.owner == self._node:
            plan = await self._work_off(plan)
        return swept_to

    async def _plan(self) -> SweepPlan | None:
        """Return the plan to carry out now: a new one, or an unfinished one of another node.

        Every retry computes a new end. After a long outage, the end of the first try would be too old to recover rows
        that were claimed just before the outage.
        """
        plan = await self._patience.ask(lambda: self._store.begin_sweep(self._node, self._end), "sweep")
        if plan is not None and plan.owner != self._node and plan.owner in self.dead:
            fence = plan.fence
            plan = await self._patience.ask(lambda: self._store.begin_sweep(self._node, self._end, fence), "sweep")
        return plan

    async def _work_off(self, plan: SweepPlan) -> SweepPlan | None:
        """Carry out a plan. If the timeline or a claimed row has changed, return the rest of the plan.

        The store refuses writes that are based on an old timeline, so the timeline is read again only then.
        """
        timeline = self._builder.timeline
        said_at = self._clock.elapsed()
        made, found, steps = 0, 0, await self._steps(plan, timeline)
        while (step := await self._elsewhere(next, steps, None)) is not None:
            answer = await self._patience.ask(
                lambda: self._store.advance_sweep(self._node, timeline.revision, step),
                "sweep",
            )
            if answer is Refusal.MOVED:
                await self._patience.ask(self._builder.read, "sweep")
                return await self._patience.ask(lambda: self._store.begin_sweep(self._node, plan.end), "sweep")
            if isinstance(answer, Refusal):
                self._log.info("sweep.taken_over", why=str(answer))
                return None
            made, found = made + len(step.wanted), found + len(step.claimed) + len(step.covered)
            if news := settling.made(timeline, (*step.wanted, *(row.becomes for row in step.claimed))):
                self._notify(news)
            if self._clock.elapsed() - said_at >= _SAY_EVERY:
                said_at = self._clock.elapsed()
                self._log_lag(plan, made + found)
        if made:
            self._log.info("sweep.made_rows", count=made, window_start=plan.start, window_end=plan.end)
        if found:
            self._log.info("sweep.found_overlooked", count=found, window_start=plan.start, window_end=plan.end)
        return None

    def _log_lag(self, plan: SweepPlan, decided: int) -> None:
        """Log how far the node is behind with missed instants. A starting node is not ready before they are decided."""
        self._log.warning(
            "sweep.behind",
            by_seconds=(self._clock.now() - plan.start) // SECOND,
            since=shown_instant(plan.start),
            decided=decided,
            hint="what was missed is decided first; add a node, or look at the CPU and the store",
        )

    async def _steps(self, plan: SweepPlan, timeline: Timeline) -> Iterator[SweepStep]:
        """Return the steps of a plan.

        While a node runs, a plan is short and usually empty. Nothing else is read then.
        """
        grace_period = self._settings.grace_period
        is_short = plan.end - plan.start <= grace_period
        if is_short and await self._elsewhere(is_decided, plan, timeline):
            return iter([last_step(plan)])
        decided = [key async for page in decided_between(self._read, plan.start, plan.end) for key in page]
        if is_short and await self._elsewhere(is_decided, plan, timeline, decided):
            return iter([last_step(plan)])
        windows = await windows_after(self._read, plan.start - WINDOWS_REACH)
        not_started = NONE_UNSTARTED if is_short else await self._unstarted(plan, timeline)
        sweep = Sweep(
            plan,
            timeline,
            decided,
            windows,
            grace_period=grace_period,
            unstarted=not_started,
        )
        return sweep.steps()

    async def _read(self, query: Query[Answer]) -> Answer:
        return await self._patience.ask(lambda: self._store.read(query), "sweep")

    async def _unstarted(self, plan: SweepPlan, timeline: Timeline) -> UnstartedClaims:
        """Read due occurrences that have not started.

        Claimed rows among them are recovered together with missing rows.
        """
        rows = await self._read(ActiveQuery(due_before=plan.end, limit=ACTIVE_MAX, with_queued=False))
        return unstarted(plan, timeline, rows, grace_period=self._settings.grace_period, now=self._clock.now())
