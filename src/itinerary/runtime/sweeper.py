"""The sweeper: sees to it that nothing due is without a row (protocol rule 19, R1).

At the start of a node this is recovery; while it runs, it is how the share of a dead node gets done, and how the
instants of a pause are recorded. What is missing is found by comparing what the timeline expects with what is there,
from the watermark on, and becomes rows that are nobody's; what was claimed before everybody was gone is judged with
it. `core.recovery.sweep` and `core.recovery.unstarted_claims` decide; the node that holds the plan carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from itinerary.core.recovery.sweep import ACTIVE_MAX, WINDOWS_REACH, Sweep, is_decided, last_step
from itinerary.core.recovery.unstarted_claims import NONE_UNSTARTED, Unstarted, unstarted
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.queries import Active, Answer, Query
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
from itinerary.runtime.store_retry import Patience
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant
from itinerary.stores.paging import decided_between, windows_after

__all__ = ["LOOKS", "Sweeper"]

LOOKS: Final = 5
"""How often one looks for work between two heartbeats, and several nodes together sweep: once a second, as they are by
default."""
_SAY_EVERY: Final = 20 * SECOND
"""How often a node says that it is still behind with what was missed."""


class Sweeper:
    """Works off plans."""

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
        tell: Tell = nobody,
        lull: Comes = any_time,
    ) -> None:
        """`lull` waits for a moment in which nothing is about to start."""
        self._store, self._node, self._settings, self._clock, self._builder = store, node, settings, clock, builder
        self._elsewhere, self._log, self._tell = elsewhere, log, tell
        self._lull = lull
        self._patience = Patience("sweeper", log, settings.node_heartbeat_interval)
        self.dead: frozenset[NodeNumber] = frozenset()
        """Nodes that are known to be dead: their plans are taken over."""
        self.is_shared = False
        """Others are there: what one of them does not get to is looked for more often, by whoever comes first."""
        self._is_called = asyncio.Event()

    async def run(self) -> None:
        """Sweep, again and again."""
        while True:
            await self._lull()
            try:
                await self.sweep()
            except ItineraryError as error:
                self._log.error("sweep.failed", error=str(error), hint="it is tried again")
            await self._until_due()

    def look(self, now: int, watermark: int) -> None:
        """Be told how far the sweep is, each time that somebody looks at the store. Where nodes share the work, whoever
        sees first that nobody has swept just now does it: a sweep holds everybody up for a moment, so one is enough."""
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
        """Decide everything up to a moment ago, unless somebody else is at it, or nobody knows what time it is.

        If somebody has left a plan unfinished, that one comes first. It ends where it was to end, and another goes on
        there: a node that starts has decided what was missed before it is ready.
        """
        if self._clock.is_in_doubt:
            return
        end = self._end
        swept_to = await self._work_off_one()
        if swept_to is not None and swept_to < end:
            await self._work_off_one()

    @property
    def _end(self) -> int:
        """Where a plan ends that is made now."""
        return self._clock.now() - self._settings.takeover_after

    async def _work_off_one(self) -> int | None:
        """Work off one plan, and return where it ended; None if this node has none to work off."""
        plan = await self._plan()
        if plan is None or plan.owner != self._node:
            return None
        swept_to = plan.end
        while plan is not None and plan.owner == self._node:
            plan = await self._work_off(plan)
        return swept_to

    async def _plan(self) -> SweepPlan | None:
        """The plan that is to be worked off now: a new one, or one that somebody left unfinished.

        Each try has an end of its own. A try that waited for the store through a long outage would make a plan that is
        too old to recover what was claimed just before the outage.
        """
        plan = await self._patience.ask(lambda: self._store.begin_sweep(self._node, self._end), "sweep")
        if plan is not None and plan.owner != self._node and plan.owner in self.dead:
            fence = plan.fence
            plan = await self._patience.ask(lambda: self._store.begin_sweep(self._node, self._end, fence), "sweep")
        return plan

    async def _work_off(self, plan: SweepPlan) -> SweepPlan | None:
        """Go through a plan. What is left of it comes back, if the timeline or a claimed row has changed meanwhile: by
        what is out of date nothing is written, so it is read again only then."""
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
                self._tell(news)
            if self._clock.elapsed() - said_at >= _SAY_EVERY:
                said_at = self._clock.elapsed()
                self._log_lag(plan, made + found)
        if made:
            self._log.info("sweep.made_rows", count=made, window_start=plan.start, window_end=plan.end)
        if found:
            self._log.info("sweep.found_overlooked", count=found, window_start=plan.start, window_end=plan.end)
        return None

    def _log_lag(self, plan: SweepPlan, decided: int) -> None:
        """Log how far the node is behind with what was missed: a node that starts is not ready before that is done."""
        self._log.warning(
            "sweep.behind",
            by_seconds=(self._clock.now() - plan.start) // SECOND,
            since=shown_instant(plan.start),
            decided=decided,
            hint="what was missed is decided first; add a node, or look at the CPU and the store",
        )

    async def _steps(self, plan: SweepPlan, timeline: Timeline) -> Iterator[SweepStep]:
        """What the plan takes. Live it is short, and nearly always nothing is missing: then nothing more is read."""
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

    async def _unstarted(self, plan: SweepPlan, timeline: Timeline) -> Unstarted:
        """Read what was due and has not started. The claimed rows among it are recovered with what has no row."""
        rows = await self._read(Active(due_before=plan.end, limit=ACTIVE_MAX, with_lines=False))
        return unstarted(plan, timeline, rows, grace_period=self._settings.grace_period, now=self._clock.now())
