"""The defaults of all jobs in what people do with jobs: update, roll back, start again, backfill (X5, R6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from itinerary import Itinerary, cron, every
from itinerary.core.timeline.definitions import read_definition
from itinerary.errors import ConfigError
from itinerary.jobs.registration import register
from itinerary.jobs.version_diff import differences
from itinerary.model.definition import Definition
from itinerary.model.overrides import OverrideLevel, Overrides, left_unset, read_overrides
from itinerary.model.policies import Retry, UpdatePolicy
from itinerary.model.queries import EntriesQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.operations.apply import ApplyOptions, apply_jobs
from itinerary.operations.backfill import BackfillWish
from itinerary.operations.job_updates import DefinitionChange, Updates
from itinerary.operations.run_requests import RunRequests
from itinerary.read.run_lookup import RunLookup
from itinerary.read.timeline_view import StoreView
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.unit.jobs.test_registration import LOG


class Office:
    """A store, and programs with defaults that declare and update one job."""

    def __init__(self) -> None:
        self.store = EngineStore(MemoryEngine(lambda: 1_767_225_600 * SECOND))

    async def declare(self, app: Itinerary) -> None:
        await register(self.store, app.declared, by="anna", log=LOG)

    async def update(self, app: Itinerary, **change: Any) -> None:
        view = await StoreView.of(self.store)
        updates = Updates(self.store, view, "berta", app._rules, lambda: UpdatePolicy.IMMEDIATE)
        await updates.update("etl", DefinitionChange(**change))

    async def versions(self) -> list[EntryRow]:
        return [entry for entry in await self.store.read(EntriesQuery(0)) if entry.kind is EntryKind.VERSION]

    async def newest(self) -> Definition:
        return read_definition((await self.versions())[-1].body)


def app_of(timezone: str | None = None, schedule: Any = None, options: Any = None, **defaults: Any) -> Itinerary:
    app = Itinerary(store="memory:", timezone=timezone, defaults=defaults)  # type: ignore[arg-type]  # keys of a table
    app.job("etl", every("1h") if schedule is None else schedule, **(options or {})).shell("t", ["true"])
    return app


def played(story: Callable[[Office], Awaitable[None]]) -> None:
    async def play() -> None:
        office = Office()
        async with office.store:
            await story(office)

    asyncio.run(play())


@pytest.mark.spec("X5", "defaults in the store")
def test_a_start_with_other_defaults_is_the_next_version_and_says_so() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(overlap="queue"))
        await office.declare(app_of(overlap="queue"))
        await office.declare(app_of(overlap="allow"))
        assert [entry.reason for entry in await office.versions()] == ["declared", "declared with other defaults"]
        assert (await office.newest()).config().overlap == "allow"

    played(story)


@pytest.mark.spec("X5", "defaults in the store")
def test_a_job_that_was_updated_by_hand_keeps_that_and_takes_other_defaults_once() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(overlap="queue", retry={"max_retries": 2}))
        await office.update(app_of(), options={"priority": 7, "overlap": "replace"})
        for _ in range(3):
            await office.declare(app_of(overlap="allow", retry={"max_retries": 5}))
        assert [entry.reason for entry in await office.versions()] == ["declared", None, "declared with other defaults"]
        found = (await office.newest()).config()
        assert (found.priority, found.overlap, found.retry.max_retries) == (7, "replace", 5)
        await office.declare(app_of(options={"priority": 1}, retry={"max_retries": 5}))
        found = (await office.newest()).config()
        assert (found.priority, found.overlap) == (1, "skip"), "its declaration has changed, and takes the place"

    played(story)


@pytest.mark.spec("X5", "defaults in the store")
def test_an_update_keeps_the_defaults_of_the_store_and_not_those_of_the_program_that_makes_it() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of("Asia/Tokyo", retry={"max_retries": 3, "retry_interval": "1m"}))
        await office.update(app_of(retry={"max_retries": 9}), options={"retry": {"retry_interval": "5m"}})
        found = await office.newest()
        assert found.defaults == Overrides(timezone="Asia/Tokyo", retry=Retry(max_retries=3))
        assert (found.config().retry.max_retries, found.config().source("retry.retry_interval")) == (3, "job")
        await office.update(app_of("Europe/Berlin"), schedule=cron("0 5 * * *"))
        assert (await office.newest()).schedule["tz"] == "Asia/Tokyo"

    played(story)


@pytest.mark.spec("X5", "defaults in the store")
def test_an_update_that_contradicts_the_stored_defaults_is_refused() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(execution_timeout="10m"))
        with pytest.raises(ConfigError, match="job 'etl': task_timeout: 30m is longer than execution_timeout, 10m"):
            await office.update(app_of(), options={"task_timeout": "30m"})

    played(story)


@pytest.mark.spec("X5", "defaults in the store")
def test_a_rollback_brings_the_defaults_back_that_were_in_force() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(overlap="queue"))
        await office.declare(app_of(overlap="allow"))
        await office.update(app_of(), to_version=1)
        assert (await office.newest()).config().overlap == "queue"

    played(story)


@pytest.mark.spec("R4", "bounded concurrency")
@pytest.mark.parametrize(("overlap", "is_warned"), [("allow", False), ("queue", True)])
def test_a_backfill_of_several_at_a_time_goes_by_the_overlap_of_the_defaults(overlap: str, is_warned: bool) -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(overlap=overlap))
        requests = RunRequests(office.store, await StoreView.of(office.store), "anna", RunLookup())
        warning = requests.one_at_a_time("etl", BackfillWish(start=0, end=1, max_active=4))
        assert (warning is not None) is is_warned

    played(story)


@pytest.mark.spec("X5", "defaults in the store")
def test_a_job_that_sets_what_was_a_default_shows_both_levels_in_the_plan() -> None:
    async def story(office: Office) -> None:
        await office.declare(app_of(overlap="queue", priority=3))
        app = app_of(options={"overlap": "allow"})
        wish = ApplyOptions(policy=UpdatePolicy.IMMEDIATE)
        done = await apply_jobs(office.store, app.declared, wish, by="anna", zone_data=app.zone_data, is_plan=True)
        assert done.jobs[0].differences == (
            "overlap: queue (defaults) -> allow (job)",
            "priority: 3 (defaults) -> 0 (built in)",
        )
        assert [one.key for one in done.defaults] == ["priority"], "the overlap is a change of the job"

    played(story)


@pytest.mark.spec("R7", "the diff")
def test_a_bound_that_the_defaults_set_and_that_was_none_before_is_told_as_not_set() -> None:
    old, new = (Definition(schedule={}, defaults=defaults) for defaults in (Overrides(), Overrides(max_active=2)))
    assert differences(old, new) == ("max_active: not set -> 2 (defaults)",)


@pytest.mark.spec("X5", "value by value")
def test_only_those_defaults_are_kept_that_a_job_leaves_unset() -> None:
    retry = {"max_retries": 3, "jitter": "1s"}
    defaults = read_overrides({"overlap": "queue", "retry": retry, "recovery": "compressed"}, OverrideLevel.SETTINGS)
    own = read_overrides(
        {"overlap": "allow", "retry": {"max_retries": 1}, "recovery": "execute_last"}, OverrideLevel.JOB
    )
    assert left_unset(defaults, own) == Overrides(retry=Retry(jitter="1s"))
    assert left_unset(defaults, Overrides()) == defaults


@pytest.mark.spec("X5", "defaults in the store")
def test_a_declaration_under_other_defaults_is_checked_against_them() -> None:
    declaration = app_of(options={"task_timeout": "30m"}).declared["etl"]
    assert declaration.under(Overrides(timezone="Asia/Tokyo")).definition(0).defaults.timezone == "Asia/Tokyo"
    with pytest.raises(ConfigError, match="task_timeout: 30m is longer than execution_timeout, 10m"):
        declaration.under(Overrides(execution_timeout="10m"))
