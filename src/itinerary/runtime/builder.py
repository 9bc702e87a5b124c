"""The index builder: reads the timeline, and lays out what is due in the next minutes (I3).

It does so at the start, every `index_rebuild_interval`, and at once when jobs have changed or the clock has jumped. The
index is built whole, elsewhere than on the loop, and handed to the core as a message. A job that cannot be enumerated
is logged and left out; if jobs cannot be read the old index stays, and that is logged too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import numpy as np

from itinerary.core.expected import Expected, Gap
from itinerary.core.index import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.core.messages import IndexBuilt
from itinerary.core.plans import PlanBook
from itinerary.core.timeline import Timeline
from itinerary.errors import ItineraryError, StoreError, WindowError
from itinerary.model.ids import job_id
from itinerary.model.queries import Entries, Jobs
from itinerary.model.rows import EntryRow, JobNumber, JobRow
from itinerary.model.settings import Settings
from itinerary.ports import Clock, Store
from itinerary.runtime.inbox import Inbox
from itinerary.schedules.durations import SECOND

__all__ = ["Elsewhere", "IndexBuilder"]

Elsewhere = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments somewhere that does not hold up the loop: `asyncio.to_thread`, say."""

_PAGE: Final = 10_000
_SHORTEST: Final = 8
"""How many times shorter than it should be a look ahead may become, when there is too much in it."""


class IndexBuilder:
    """Keeps the timeline, and makes indexes from it."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        inbox: Inbox,
        plans: PlanBook,
        *,
        elsewhere: Elsewhere,
        log: Any,
    ) -> None:
        self._store, self._settings, self._clock, self._inbox, self._log = store, settings, clock, inbox, log
        self._elsewhere = elsewhere
        self.plans = plans
        self._ids: dict[JobNumber, str] = {}
        self._is_wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._why = "the node starts"
        self._said: dict[JobNumber, str] = {}

    @property
    def timeline(self) -> Timeline:
        """As far as it has been read."""
        return self.plans.timeline

    def rebuild(self, why: str) -> None:
        """Build it anew, now."""
        self._why = why
        self._is_wanted.set()

    async def run(self) -> None:
        """Build it again and again."""
        while True:
            try:
                async with asyncio.timeout(self._settings.index_rebuild_interval / SECOND):
                    await self._is_wanted.wait()
            except TimeoutError:
                self._why = "its time has come"
            self._is_wanted.clear()
            why = self._why
            try:
                await self.build(why)
            except (StoreError, ItineraryError) as error:
                self._log.error("index.not_rebuilt", why=why, error=str(error), hint="the old index stays in use")

    async def build(self, why: str) -> None:
        """Build it once. Raises if the jobs cannot be read, or have more runs than an index can hold."""
        begun = self._clock.elapsed()
        await self.read()
        now = self._clock.now()
        message, expected = await self._elsewhere(self._built, now)
        await self._inbox.deliver(message)
        self._complain(expected.gaps)
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

    async def read(self) -> Timeline:
        """Read what has been entered since the last time. The sweeper reads too, and one must not add what the other has
        added meanwhile."""
        async with self._reading:
            return await self._read()

    async def _read(self) -> Timeline:
        entries: list[EntryRow] = []
        while True:
            after = entries[-1].revision if entries else self.timeline.revision
            page = await self._store.read(Entries(after, _PAGE))
            entries += page
            if len(page) < _PAGE:
                break
        if entries:
            jobs = await self._new_jobs()
            self.plans = self.plans.at(await self._elsewhere(self.timeline.extended, entries, jobs))
        return self.timeline

    async def _new_jobs(self) -> list[JobRow]:
        """The jobs that were not there the last time; read after the entries, so that none is missing."""
        found: list[JobRow] = []
        last = max(self.timeline.jobs, default=JobNumber(0))
        while True:
            page = await self._store.read(Jobs(found[-1].number if found else last, _PAGE))
            found += page
            if len(page) < _PAGE:
                return found

    # -- elsewhere ---------------------------------------------------------------------------------------------------

    def _built(self, now: int) -> tuple[IndexBuilt, Expected]:
        plans = self.plans  # once: others may read on meanwhile
        timeline = plans.timeline
        expected = self._expected(timeline, now, self._settings.lookahead_window)
        runs = expected.is_to_run
        pairs = np.stack((expected.jobs[runs], expected.versions[runs]))
        distinct, places = np.unique(pairs, axis=1, return_inverse=True)
        jobs = [(JobNumber(job), version) for job, version in distinct.T.tolist()]
        titles = [self._title(timeline, job, version) for job, version in jobs]
        table = JobTable(titles)
        numbers = np.array([table.number(title) for title in titles], np.int64)
        index = ScheduledRunIndex(ScheduledRuns(table, numbers[places.reshape(-1)], expected.instants[runs]))
        by_title = dict(zip(titles, jobs, strict=True))
        return IndexBuilt(timeline.revision, index, [by_title[title] for title in table], plans), expected

    def _title(self, timeline: Timeline, job: JobNumber, version: int) -> str:
        """The job's id, by which the index is ordered; each version that has runs has a row of its own."""
        if job not in self._ids:
            self._ids[job] = str(job_id(timeline.jobs[job].name))
        return f"{self._ids[job]} {version}"

    def _expected(self, timeline: Timeline, now: int, lookahead: int) -> Expected:
        """What is due. If there is more than one enumeration may return, the look ahead is shortened: a shorter index
        is rebuilt in time, no index at all would leave the node alive and silent."""
        while True:
            try:
                return timeline.expected(now - self._settings.grace_period, now + lookahead)
            except WindowError:
                if lookahead // 2 < self._settings.lookahead_window // _SHORTEST:
                    raise
                lookahead //= 2

    def _complain(self, gaps: tuple[Gap, ...]) -> None:
        """Say which jobs cannot be enumerated, once for each reason."""
        now = {gap.job: gap.reason for gap in gaps}
        for job, reason in now.items():
            if self._said.get(job) != reason:
                self._log.error("job.quarantined", job=self.timeline.jobs[job].name, reason=reason)
        self._said = now
