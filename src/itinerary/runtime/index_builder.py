"""The index builder: reads the timeline, and enumerates the due instants of the next minutes (I3).

The builder does this at the start, every `index_rebuild_interval`, and at once when jobs change or the clock jumps. The
whole index is built outside the loop, and sent to the core as a message. A job that cannot be enumerated is logged and
left out. If jobs cannot be read, the old index stays, and the builder logs this and retries soon. The core may be
waiting for the new index, and starts nothing until it arrives.

Afterwards the builder makes the plans of jobs that are due before the next index. This delays no other component. A job
without a plan, because its code is not on this node or its definition is invalid, is logged and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from itinerary.core.loop.messages import IndexBuilt
from itinerary.core.timeline.expected import Expected
from itinerary.core.timeline.index import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, WindowError
from itinerary.model.ids import job_id
from itinerary.model.rows import JobNumber
from itinerary.model.settings import Settings
from itinerary.ports import Clock, Store
from itinerary.runtime.idle_window import Comes, any_time
from itinerary.runtime.inbox import Inbox
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import news_since

__all__ = ["Elsewhere", "IndexBuilder"]

Elsewhere = Callable[..., Awaitable[Any]]
"""A function that runs another function with its arguments without blocking the loop, such as `asyncio.to_thread`."""

_FIRST_RETRY: Final = 0.5
"""Seconds until the first retry of a failed build."""
_SHORTEST: Final = 8
"""The largest factor by which the lookahead may shrink when it contains too many instants."""


class _Planned(NamedTuple):
    """The results of planning."""

    without: set[tuple[JobNumber, str]]
    """Jobs that cannot be run, with the reason."""
    lacking: set[JobNumber]
    """The jobs in `without` whose code is not on this node."""
    runnable: set[JobNumber]


class IndexBuilder:
    """The component that keeps the timeline, and builds indexes from it."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        inbox: Inbox,
        plans: PlanCache,
        *,
        elsewhere: Elsewhere,
        log: Any,
        lull: Comes = any_time,
    ) -> None:
        """Create a builder.

        Args:
            store: The store to read jobs from.
            settings: The settings of the node.
            clock: The store clock.
            inbox: Receives each index.
            plans: The cache of plans, with its timeline.
            elsewhere: Runs a function without blocking the loop.
            log: The log of the node.
            lull: Waits for a moment in which nothing is about to start. Only a periodic rebuild waits for it.
        """
        self._store, self._settings, self._clock, self._inbox, self._log = store, settings, clock, inbox, log
        self._elsewhere, self._lull = elsewhere, lull
        self.plans = plans
        self._ids: dict[JobNumber, str] = {}
        self._is_wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._why = "the node starts"
        self._looks_ahead = settings.lookahead_window
        self._newest: IndexBuilt | None = None
        self._gaps: dict[JobNumber, str] = {}
        self._unplanned: set[tuple[JobNumber, str]] = set()
        self.lacks: frozenset[JobNumber] = frozenset()
        """The jobs that were due here and whose code is not on this node."""

    @property
    def timeline(self) -> Timeline:
        """The timeline, as far as it has been read."""
        return self.plans.timeline

    def rebuild(self, why: str) -> None:
        """Rebuild the index now."""
        self._why = why
        self._is_wanted.set()

    def take_settings(self, settings: Settings) -> None:
        """Use these settings, and rebuild at once: the time of the next rebuild may have changed."""
        self._settings, self._looks_ahead = settings, settings.lookahead_window
        self.rebuild("the settings have changed")

    async def run(self) -> None:
        """Rebuild the index regularly until cancelled."""
        retry_after: float | None = None
        while True:
            try:
                async with asyncio.timeout(self._usual if retry_after is None else retry_after):
                    await self._is_wanted.wait()
            except TimeoutError:
                if retry_after is None:
                    self._why = "its time has come"
                    await self._quiet()
            self._is_wanted.clear()
            why = self._why
            try:
                await self.build(why)
            except ItineraryError as error:
                say = self._log.error if retry_after is None else self._log.debug  # log repeated failures only once
                say("index.not_rebuilt", why=why, error=str(error), hint="the old index stays; it is tried again")
                longest = self._settings.node_heartbeat_interval / SECOND
                retry_after = _FIRST_RETRY if retry_after is None else min(retry_after * 2, longest)
            else:
                retry_after = None
                await self.plan_ahead()

    async def _quiet(self) -> None:
        """Wait for an idle window, unless an index is requested in the meantime."""
        waits = [asyncio.ensure_future(self._lull()), asyncio.ensure_future(self._is_wanted.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    @property
    def _usual(self) -> float:
        """Seconds from one index to the next.

        A shortened index is rebuilt sooner. Otherwise there would be no upcoming runs between its end and the next
        index.
        """
        return min(self._settings.index_rebuild_interval, self._looks_ahead // 2) / SECOND

    async def build(self, why: str) -> None:
        """Build the index once.

        Args:
            why: The reason, for the log.

        Raises:
            ItineraryError: If the jobs cannot be read, or have more runs than an index can hold.
        """
        begun = self._clock.elapsed()
        await self.read()
        message, expected = await self._elsewhere(self._built, self._clock.now())
        await self._inbox.deliver(message)
        self._newest = message
        gaps = {gap.job: gap.reason for gap in expected.gaps}
        self._complain(gap for gap in gaps.items() if self._gaps.get(gap[0]) != gap[1])
        self._gaps = gaps
        self._log.info(
            "index.rebuilt",
            why=why,
            window_start=expected.start,
            window_end=expected.end,
            jobs=len(self.timeline.jobs),
            runs=len(message.index),
            revision=message.revision,
            took_microseconds=self._clock.elapsed() - begun,
        )

    async def plan_ahead(self) -> None:
        """Make the plans that are needed before the next index arrives."""
        if self._newest is not None:
            planned = await self._elsewhere(self._planned, self._newest, self._clock.now())
            self.lacks = (self.lacks - planned.runnable) | planned.lacking
            self._complain(sorted(planned.without - self._unplanned))
            self._unplanned |= planned.without

    def _complain(self, quarantined: Iterable[tuple[JobNumber, str]]) -> None:
        """Log the jobs that cannot be run, once for each reason.

        The faults of a version never change, so they are logged only once. A gap may close, and open on another day.
        """
        for job, reason in quarantined:
            self._log.error("job.quarantined", job=self.timeline.jobs[job].name, reason=reason)

    async def read(self) -> Timeline:
        """Read the new timeline entries. A lock prevents the builder and the sweeper from adding the same entries."""
        async with self._reading:
            return await self._read()

    async def _read(self) -> Timeline:
        entries, jobs = await news_since(self._store.read, self.timeline)
        if entries:
            self.plans = self.plans.at(await self._elsewhere(self.timeline.extended, entries, jobs))
        return self.timeline

    # -- outside the loop ----------------------------------------------------------------------------------------------

    def _built(self, now: int) -> tuple[IndexBuilt, Expected]:
        plans = self.plans  # read once: another task may replace it
        timeline = plans.timeline
        expected = self._expected(timeline, now, self._settings.lookahead_window)
        runs = expected.is_to_run
        versions = expected.versions[runs]
        width = int(versions.max(initial=0)) + 1
        # Combine a job and its version into one number, because NumPy compares pairs one by one, which takes seconds.
        distinct, places = np.unique(expected.jobs[runs] * width + versions, return_inverse=True)
        jobs = [(JobNumber(one // width), one % width) for one in distinct.tolist()]
        titles = [self._title(timeline, job, version) for job, version in jobs]
        table = JobTable(titles)
        numbers = np.array([table.number(title) for title in titles], np.int64)
        index = ScheduledRunIndex(ScheduledRuns(table, numbers[places.reshape(-1)], expected.instants[runs]))
        by_title = dict(zip(titles, jobs, strict=True))
        ordered = [by_title[title] for title in table]
        job_numbers = np.array([job for job, _ in ordered], np.int64)
        return IndexBuilt(timeline.revision, index, ordered, job_numbers, plans), expected

    def _planned(self, message: IndexBuilt, now: int) -> _Planned:
        """Make the plans of the jobs that are due soon."""
        settings = self._settings
        until = now + settings.index_rebuild_interval + settings.pre_schedule_interval
        soon = message.index.query(now - settings.grace_period, until)
        planned = _Planned(set(), set(), set())
        for number in np.unique(soon.numbers).tolist():
            job, version = message.jobs[number]
            plan = message.plans.plan(job, version)
            if isinstance(plan, str):
                planned.without.add((job, plan))
            elif plan.is_runnable:
                planned.runnable.add(job)
            else:
                planned.lacking.add(job)
                planned.without.add((job, f"the code of its version {version} is not on this node"))
        return planned

    def _title(self, timeline: Timeline, job: JobNumber, version: int) -> str:
        """Return the row title of a job version. Titles begin with the job id, which orders the index."""
        if job not in self._ids:
            self._ids[job] = str(job_id(timeline.jobs[job].name))
        return f"{self._ids[job]} {version}"

    def _expected(self, timeline: Timeline, now: int, lookahead: int) -> Expected:
        """Return the due instants. If there are too many for one enumeration, shorten the lookahead.

        A shorter index is rebuilt in time. Without any index, the node would be alive but start nothing.
        """
        while True:
            try:
                expected = timeline.expected(now - self._settings.grace_period, now + lookahead)
            except WindowError:
                if lookahead // 2 < self._settings.lookahead_window // _SHORTEST:
                    raise
                lookahead //= 2
            else:
                self._looks_ahead = lookahead
                return expected
