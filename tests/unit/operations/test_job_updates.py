"""Versions of a job: made from a named one, shown before they are made, and made once (R6, R7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from itinerary import Itinerary, cron, every
from itinerary.core.timeline.definitions import read_definition
from itinerary.errors import ConfigError, NodeError, StaleVersion
from itinerary.executors import Registry
from itinerary.jobs.declaration import DeclarationContext
from itinerary.jobs.registration import register
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import NOTHING
from itinerary.model.policies import UpdatePolicy
from itinerary.model.queries import ByRefQuery, EntriesQuery, JobsByNameQuery, StoreStatusQuery
from itinerary.model.rows import Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Claimed, ClaimRequest
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.job_updates import DefinitionChange, Diff, Updates
from itinerary.read.timeline_view import StoreView
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore

LOG = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
START = NOON - timedelta(minutes=5)
HOUR = timedelta(hours=1)


async def work() -> None: ...


class Office:
    """A store whose clock the test moves, a job, and somebody who changes it."""

    def __init__(self, by: str = "anna") -> None:
        self.now = int(START.timestamp()) * SECOND
        self.store = EngineStore(MemoryEngine(lambda: self.now))
        self.rules = DeclarationContext(Registry(), NOTHING, {"api": 5})
        self.by = by

    async def declare(self, schedule: Any = None, **options: Any) -> None:
        app = Itinerary(store="memory:")
        app.job("etl", every("1h") if schedule is None else schedule, **options).task(work)
        await register(self.store, app._declared, by="anna", log=LOG)

    async def updates(self, by: str = "anna") -> Updates:
        return Updates(self.store, await StoreView.of(self.store), by, self.rules, lambda: UpdatePolicy.IMMEDIATE)

    async def update(self, **change: Any) -> Diff:
        return await (await self.updates()).update("etl", DefinitionChange(**change))

    async def plan(self, **change: Any) -> Diff:
        return await (await self.updates()).update("etl", DefinitionChange(**change), is_plan=True)

    async def changes(self) -> StatusChanges:
        return StatusChanges(self.store, await StoreView.of(self.store), "anna")

    async def claimed(self, at: datetime) -> Claimed:
        """An occurrence that some node has claimed."""
        node = await self.store.join(f"node {at}", "a", "{}")
        revision = (await self.store.read(StoreStatusQuery())).revision
        job = (await self.store.read(JobsByNameQuery(("etl",))))["etl"]
        key = Key(int(at.timestamp()) * SECOND, job.number, Kind.SCHEDULED)
        answer = await self.store.claim(node, revision, [ClaimRequest(key, job.version, key.instant)])
        assert isinstance(answer, list)
        return answer[0]

    async def row(self, claimed: Claimed) -> OccurrenceRow:
        return (await self.store.read(ByRefQuery((claimed.ref,))))[claimed.ref]


def told(story: Callable[[Office], Awaitable[None]]) -> None:
    async def whole() -> None:
        office = Office()
        async with office.store:
            await office.declare()
            await story(office)

    asyncio.run(whole())


@pytest.mark.spec("R7", "the diff")
def test_the_difference_is_shown_before_it_is_made_and_is_the_same_afterwards() -> None:
    async def story(office: Office) -> None:
        plan = await office.plan(schedule=every("90m"), from_version=1, window="6h")
        assert not plan.is_applied
        assert len(await office.store.read(EntriesQuery(0))) == 1
        made = await office.update(schedule=every("90m"), from_version=1, window="6h")
        assert (made.from_version, made.version, made.effective_from, made.is_applied) == (1, 2, START, True)
        assert made.added == (NOON + 1.5 * HOUR, NOON + 4.5 * HOUR)
        assert made.removed == tuple(NOON + n * HOUR for n in (1, 2, 4, 5))
        assert made.kept == (NOON, NOON + 3 * HOUR)
        assert (plan.added, plan.removed, plan.kept) == (made.added, made.removed, made.kept)
        assert plan.version == made.version

    told(story)


@pytest.mark.spec("R7", "running it twice changes nothing")
def test_an_update_that_is_sent_twice_is_one_change() -> None:
    async def story(office: Office) -> None:
        first = await office.update(schedule=every("2h"), from_version=1)
        again = await office.update(schedule=every("2h"), from_version=1)
        assert again == first
        assert not (await office.update(schedule=every("2h"))).is_change
        assert not (await office.update(schedule=every("2h"), from_version=2)).is_change
        assert len(await office.store.read(EntriesQuery(0))) == 2

    told(story)


@pytest.mark.spec("R6", "a stale one is refused")
def test_a_change_from_an_old_version_is_refused_and_names_the_one_that_it_missed() -> None:
    async def story(office: Office) -> None:
        await office.update(schedule=every("2h"), from_version=1, reason="too much load")
        with pytest.raises(StaleVersion, match=r"at version 2 since .* by anna: too much load; .* from version 1"):
            await office.update(schedule=every("3h"), from_version=1)
        with pytest.raises(StaleVersion, match="make it from 2"):
            await office.plan(schedule=every("3h"), from_version=1)
        with pytest.raises(ConfigError, match="has no version 7; there are 1 to 2"):
            await office.update(schedule=every("3h"), from_version=7)
        assert len(await office.store.read(EntriesQuery(0))) == 2

    told(story)


@pytest.mark.spec("R6", "a stale one is refused")
def test_of_two_people_who_change_a_job_at_once_one_is_told_the_version_that_they_missed() -> None:
    async def story(office: Office) -> None:
        anna, ben = await office.updates("anna"), await office.updates("ben")
        answers = await asyncio.gather(
            anna.update("etl", DefinitionChange(schedule=every("2h"), from_version=1)),
            ben.update("etl", DefinitionChange(schedule=every("3h"), from_version=1)),
            return_exceptions=True,
        )
        refused = [answer for answer in answers if isinstance(answer, StaleVersion)]
        made = [answer for answer in answers if isinstance(answer, Diff)]
        assert (len(refused), [one.version for one in made]) == (1, [2])
        assert "is at version 2" in str(refused[0])

    told(story)


@pytest.mark.spec("R7", "graceful")
def test_a_graceful_update_lets_the_next_old_instant_run_and_counts_after_it() -> None:
    async def story(office: Office) -> None:
        office.now += 900 * SECOND
        made = await office.update(schedule=every("20m"), policy="graceful", window="4h")
        assert made.effective_from == NOON + HOUR + timedelta(seconds=1)
        assert made.kept[0] == NOON + HOUR
        assert made.added[0] == NOON + HOUR + timedelta(minutes=20), "and nothing at 12:20 or 12:40"

    told(story)


@pytest.mark.spec("R7", "graceful")
def test_a_graceful_update_may_name_the_time_from_which_it_counts() -> None:
    async def story(office: Office) -> None:
        at = NOON + timedelta(hours=2, minutes=30)
        made = await office.update(schedule=every("30m"), policy="graceful", effective_from=at, window="4h")
        assert made.effective_from == at
        assert made.kept == tuple(NOON + n * HOUR for n in range(4))
        assert made.added == (at, at + HOUR)
        with pytest.raises(ConfigError, match=r"effective_from: .* is past"):
            await office.update(schedule=every("2h"), policy="graceful", effective_from=NOON - HOUR)
        with pytest.raises(ConfigError, match='goes with policy="graceful"'):
            await office.update(schedule=every("2h"), effective_from=at)

    told(story)


@pytest.mark.spec("R7", "windowed")
def test_a_windowed_update_is_in_force_now_and_compares_so_many_occurrences_or_so_much_time() -> None:
    async def story(office: Office) -> None:
        by_count = await office.plan(schedule=every("30m"), policy="windowed", window=4)
        assert by_count.effective_from == START
        assert (len(by_count.added) + len(by_count.kept), by_count.window_end) == (4, NOON + 2 * HOUR)
        by_time = await office.plan(schedule=every("30m"), policy="windowed", window="1d")
        assert (len(by_time.kept), len(by_time.added)) == (24, 24)
        rare = await office.plan(schedule=cron("0 0 29 2 *"), policy="windowed", window=48)
        assert (len(rare.removed), len(rare.added)) == (48, 0)
        with pytest.raises(ConfigError, match="window: 0 occurrences are out of range"):
            await office.plan(schedule=every("30m"), policy="windowed", window=0)

    told(story)


@pytest.mark.spec("R7", "removed and unstarted")
def test_what_is_claimed_and_removed_is_cancelled_and_a_later_version_brings_it_back() -> None:
    async def story(office: Office) -> None:
        office.now += 3_895 * SECOND
        claimed = await office.claimed(NOON + HOUR)
        await office.update(schedule=every("7h"))
        row = await office.row(claimed)
        assert (row.status, row.reason) == (OccurrenceState.CANCELLED, "version 2 does not have this instant")
        made = await (await office.updates()).update("etl", DefinitionChange(to_version=1, reason="too rare"))
        row = await office.row(claimed)
        assert (row.status, row.version, row.is_withdrawn) == (OccurrenceState.PRERUN, 3, False)
        assert made.added[0] == NOON + HOUR

    told(story)


@pytest.mark.spec("R7", "kept ones take the new configuration")
def test_what_is_claimed_and_kept_takes_the_new_version() -> None:
    async def story(office: Office) -> None:
        office.now += 3_895 * SECOND
        claimed = await office.claimed(NOON + HOUR)
        await office.update(options={"overlap": "queue", "task_timeout": "1m"})
        row = await office.row(claimed)
        assert (row.status, row.version) == (OccurrenceState.PRERUN, 2)
        definition = read_definition((await office.store.read(EntriesQuery(0)))[-1].body)
        assert (definition.overrides.overlap, definition.overrides.task_timeout) == ("queue", "1m")

    told(story)


@pytest.mark.spec("R6", "rolling back")
def test_rolling_back_makes_a_new_version_that_equals_an_old_one() -> None:
    async def story(office: Office) -> None:
        await office.update(schedule=every("2h"), options={"overlap": "allow"})
        made = await office.update(to_version=1, from_version=2)
        assert (made.version, made.is_change) == (3, True)
        bodies = [entry.body for entry in await office.store.read(EntriesQuery(0))]
        assert bodies[2] == bodies[0] != bodies[1]
        assert not (await office.update(to_version=1)).is_change
        with pytest.raises(ConfigError, match="has no version 9"):
            await office.update(to_version=9)

    told(story)


@pytest.mark.spec("R6", "declared jobs")
def test_a_restart_leaves_an_update_alone_until_the_declaration_changes() -> None:
    async def story(office: Office) -> None:
        await office.update(schedule=every("2h"))
        await office.declare()
        assert len(await office.store.read(EntriesQuery(0))) == 2
        await office.declare(every("3h"))
        entries = await office.store.read(EntriesQuery(0))
        assert [entry.version for entry in entries] == [1, 2, 3]
        assert entries[-1].reason == "declared differently"

    told(story)


@pytest.mark.spec("R7", "stopped")
def test_a_new_version_of_a_stopped_job_brings_nothing_back() -> None:
    async def story(office: Office) -> None:
        office.now += 3_895 * SECOND
        claimed = await office.claimed(NOON + HOUR)
        await (await office.changes()).stop("etl", "not needed")
        assert (await office.row(claimed)).reason == "stopped by anna since 2026-03-28T12:59:55Z: not needed"
        await office.update(schedule=every("30m"))
        assert (await office.row(claimed)).status is OccurrenceState.CANCELLED
        await (await office.changes()).start("etl", None)
        row = await office.row(claimed)
        assert (row.status, row.version) == (OccurrenceState.PRERUN, 2)

    told(story)


@pytest.mark.spec("R7", "what cannot be")
def test_what_makes_no_sense_is_refused_with_the_reason() -> None:
    async def story(office: Office) -> None:
        for change, why in (
            ({"options": {"overlap": "skpi"}}, "did you mean 'skip'"),
            ({"options": {"limits": ["mail"]}}, "nobody says how many shares 'mail' has"),
            ({"options": {"timezone": "Europe/Berlin"}}, "give the schedule as well"),
            ({"schedule": "every hour"}, "is not a schedule"),
            ({"schedule": every("2h"), "policy": "gentle"}, "policy: 'gentle' is unknown"),
        ):
            with pytest.raises(ConfigError, match=why):
                await office.update(**change)
        with pytest.raises(NodeError, match="there is no job 'elt'"):
            await (await office.updates()).update("elt", DefinitionChange(schedule=every("2h")))
        await (await office.changes()).remove("etl", None)
        with pytest.raises(NodeError, match="was removed; declare it again"):
            await office.update(schedule=every("2h"))

    told(story)
