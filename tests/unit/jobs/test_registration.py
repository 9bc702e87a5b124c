"""Declared jobs meet stored ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from itinerary import Itinerary, Schedule, cron, every, iso8601, union
from itinerary.core.timeline.definitions import read_definition
from itinerary.errors import NodeError
from itinerary.jobs.registration import ENTRIES_AT_ONCE, register
from itinerary.model.queries import EntriesQuery, JobsByNameQuery, JobsQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.timeline import (
    EntryAccepted,
    EntryRefusal,
    EntryRejected,
    TimelineEntryRequest,
    UnstartedReconciler,
)
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore

SECOND = 1_000_000
LOG = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))


async def work() -> None: ...


async def other() -> None: ...


def app_with(*schedules: tuple[str, Schedule], **options: Any) -> Itinerary:
    app = Itinerary(store="memory:")
    for name, schedule in schedules:
        app.job(name, schedule, **options).task(work)
    return app


class Clock:
    """The store's time, which the test moves."""

    def __init__(self) -> None:
        self.now = 1_767_225_600 * SECOND

    def __call__(self) -> int:
        return self.now


def memory(clock: Clock) -> EngineStore:
    return EngineStore(MemoryEngine(clock))


async def declare(store: EngineStore, app: Itinerary, by: str = "anna") -> None:
    await register(store, app._declared, by=by, log=LOG)


async def entries(store: EngineStore) -> Sequence[EntryRow]:
    return await store.read(EntriesQuery(0))


@pytest.mark.spec("R6", "declared jobs")
def test_what_is_new_is_registered_and_what_is_the_same_is_left_alone() -> None:
    async def scenario() -> None:
        async with memory(Clock()) as store:
            app = app_with(("a", every("15m")), ("b", cron("H 3 * * *")))
            await declare(store, app)
            await declare(store, app_with(("b", cron("H 3 * * *")), ("a", every("15m"))))
            made = await entries(store)
            assert [(entry.kind, entry.version, entry.entered_by) for entry in made] == [
                (EntryKind.VERSION, 1, "anna"),
                (EntryKind.VERSION, 1, "anna"),
            ]

    asyncio.run(scenario())


@pytest.mark.spec("R6", "declared jobs")
def test_what_is_different_becomes_the_next_version_and_what_is_not_declared_stays() -> None:
    async def scenario() -> None:
        async with memory(Clock()) as store:
            await declare(store, app_with(("a", every("15m")), ("b", every("1h"))))
            await declare(store, app_with(("a", every("10m"))))
            jobs = await store.read(JobsByNameQuery(("a", "b")))
            assert {name: row.version for name, row in jobs.items()} == {"a": 2, "b": 1}
            await declare(store, app_with(("a", every("10m")), timezone="Asia/Tokyo"))
            assert (await store.read(JobsByNameQuery(("a",))))["a"].version == 3

    asyncio.run(scenario())


@pytest.mark.spec("D10", "registered again")
def test_a_removed_job_that_is_declared_again_continues_its_versions() -> None:
    async def scenario() -> None:
        async with memory(Clock()) as store:
            app = app_with(("a", every("15m")))
            await declare(store, app)
            gone = TimelineEntryRequest(job="a", kind=EntryKind.REMOVE, request="r", by="anna")
            assert isinstance((await store.amend([gone]))[0], EntryAccepted)
            await declare(store, app)
            kinds = [(entry.kind, entry.version) for entry in await entries(store)]
            assert kinds == [(EntryKind.VERSION, 1), (EntryKind.REMOVE, 1), (EntryKind.VERSION, 2)]

    asyncio.run(scenario())


@pytest.mark.spec("S4", "anchored at first registration")
@pytest.mark.parametrize("schedule", [iso8601("PT90M"), union(iso8601("PT90M"), every("1h"))], ids=["bare", "wrapped"])
def test_a_bare_duration_counts_from_the_first_registration_for_ever(schedule: Schedule) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with memory(clock) as store:
            await declare(store, app_with(("a", schedule)))
            clock.now += 3_600 * SECOND
            await declare(store, app_with(("a", schedule)))
            assert len(await entries(store)) == 1
            await declare(store, app_with(("a", schedule), overlap="queue"))
            first, second = await entries(store)
            assert read_definition(first.body).schedule == read_definition(second.body).schedule

    asyncio.run(scenario())


class OthersFirst(EngineStore):
    """A store on which somebody else declares the same jobs, just before our own entries are made."""

    def __init__(self, clock: Clock, other: Itinerary) -> None:
        super().__init__(MemoryEngine(clock))
        self._clock, self._other = clock, other
        self.denied = 0

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        if self._other is not None:
            other, self._other = self._other, None  # type: ignore[assignment]  # once
            self._clock.now += 5 * SECOND
            await declare(self, other, by="berta")
        answers = await super().amend(entries, judge)
        self.denied += sum(isinstance(answer, EntryRejected) for answer in answers)
        return answers


@pytest.mark.spec("R6", "a stale update is refused")
def test_two_nodes_that_start_at_once_with_the_same_jobs_make_one_version() -> None:
    async def scenario() -> None:
        schedules = [("a", iso8601("PT90M")), ("b", every("1h"))]
        async with OthersFirst(Clock(), app_with(*schedules)) as store:
            await declare(store, app_with(*schedules))
            assert store.denied == 1  # of `a`, whose anchor differs; the other entry is the very same one
            assert [(entry.version, entry.entered_by) for entry in await entries(store)] == [(1, "berta"), (1, "berta")]

    asyncio.run(scenario())


class LosingAnswers(EngineStore):
    """A store whose first answer to each batch of entries is lost: whoever asks, asks again."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine(Clock()))

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        await super().amend(entries, judge)
        return await super().amend(entries, judge)


def test_an_entry_whose_answer_was_lost_is_not_made_twice() -> None:
    async def scenario() -> None:
        async with LosingAnswers() as store:
            await declare(store, app_with(("a", every("1h"))))
            assert len(await entries(store)) == 1

    asyncio.run(scenario())


class AlwaysLater(EngineStore):
    """A store on which somebody is always quicker."""

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        return [EntryRejected(entry.job, EntryRefusal.STALE, 9, 0) for entry in entries]


def test_who_is_never_quick_enough_gives_up_with_the_reason() -> None:
    async def scenario() -> None:
        async with AlwaysLater(MemoryEngine(Clock())) as store:
            with pytest.raises(NodeError, match="do several programs declare the same names differently"):
                await declare(store, app_with(("a", every("2h"))))

    asyncio.run(scenario())


def test_many_jobs_are_registered_in_batches() -> None:
    async def scenario() -> None:
        async with memory(Clock()) as store:
            app = app_with(*((f"job-{number}", every("1h")) for number in range(ENTRIES_AT_ONCE + 1)))
            await declare(store, app)
            assert len(await store.read(JobsQuery())) == ENTRIES_AT_ONCE + 1
            assert {entry.revision for entry in await entries(store)} == {1, 2}

    asyncio.run(scenario())
