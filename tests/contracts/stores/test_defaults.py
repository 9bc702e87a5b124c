"""The defaults of all jobs are part of what each store keeps: one reader sees what another one applied (X5, R7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary import Itinerary, every
from itinerary.core.timeline.job_plan import JobPlan, PlanCache
from itinerary.jobs.registration import register
from itinerary.jobs.undeclared import JobSource
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Undeclared, UpdatePolicy
from itinerary.model.queries import ByRefQuery, EntriesQuery, JobsByNameQuery
from itinerary.model.rows import Key
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.operations.apply import ApplyOptions, ApplyResult, JobApplyResult, apply_jobs
from itinerary.read.job_detail import job_detail
from itinerary.read.snapshot import StoreSnapshot
from itinerary.stores.paging import read_timeline
from tests.contracts.stores.desk import HOUR, Desk, told
from tests.unit.jobs.test_registration import LOG

HOME = JobSource("/srv/jobs.toml", Undeclared.STOP)


def app_of(**defaults: Any) -> Itinerary:
    """Two jobs, one of which sets an overlap of its own."""
    app = Itinerary(store="memory:", defaults=defaults)  # type: ignore[arg-type]  # keys of a table
    app.job("plain", every("1h")).shell("t", ["true"])
    app.job("own", every("1h"), overlap="skip").shell("t", ["true"])
    return app


async def applied(desk: Desk, app: Itinerary, *, is_plan: bool = False, by: str = "anna") -> ApplyResult:
    wish = ApplyOptions(policy=UpdatePolicy.IMMEDIATE, home=HOME)
    return await apply_jobs(desk.store, app.declared, wish, by=by, zone_data=app.zone_data, is_plan=is_plan)


async def seen(desk: Desk, job: str) -> dict[str, tuple[str, str]]:
    """The values of a job that somebody set, as a reader sees them who knows only the store."""
    ground = await StoreSnapshot.of(desk.store)
    detail = await job_detail(ground, ground.job(job))
    return {one.key: (one.value, one.set_by) for one in detail.configuration if one.source != "default"}


@pytest.mark.spec("X5", "defaults in the store")
@told
async def test_a_reader_sees_the_defaults_that_were_declared_and_not_its_own(desk: Desk) -> None:
    await register(desk.store, app_of(overlap="queue").declared, by="anna", log=LOG, home=HOME)
    assert await seen(desk, "plain") == {"overlap": ("queue", "defaults of /srv/jobs.toml")}
    assert await seen(desk, "own") == {"overlap": ("skip", "job")}


@pytest.mark.spec("X5", "defaults in the store")
@pytest.mark.spec("R7", "shown before it is applied")
@told
async def test_other_defaults_are_planned_and_then_the_next_version_of_the_jobs_that_take_them(desk: Desk) -> None:
    await applied(desk, app_of(overlap="queue"))
    wanted = app_of(overlap="allow", retry={"max_retries": 5})
    before = await desk.store.read(EntriesQuery(0))
    planned = await applied(desk, wanted, is_plan=True)
    assert await desk.store.read(EntriesQuery(0)) == before
    done = await applied(desk, wanted)
    for found in (planned, done):
        assert [(one.key, one.before, one.after, one.jobs) for one in found.defaults] == [
            ("overlap", "queue (defaults)", "allow (defaults)", 1),
            ("retry.max_retries", "0 (built in)", "5 (defaults)", 2),
        ]
        assert {job.job: job.differences for job in found.jobs} == {
            "plain": (
                "overlap: queue (defaults) -> allow (defaults)",
                "retry.max_retries: 0 (built in) -> 5 (defaults)",
            ),
            "own": ("retry.max_retries: 0 (built in) -> 5 (defaults)",),
        }
    assert await seen(desk, "plain") == {
        "overlap": ("allow", "defaults of /srv/jobs.toml"),
        "retry.max_retries": ("5", "defaults of /srv/jobs.toml"),
    }
    changes = (await desk.store.read(EntriesQuery(0)))[len(before) :]
    assert [(one.version, one.entered_by, one.reason) for one in changes] == [
        (2, "anna", "applied: the defaults of all jobs changed")
    ] * 2
    assert not (await applied(desk, wanted)).is_change, "applied twice, it is one change"


@pytest.mark.spec("X5", "defaults in the store")
@told
async def test_a_default_that_a_job_overrides_makes_no_version_of_it(desk: Desk) -> None:
    await applied(desk, app_of(overlap="queue"))
    done = await applied(desk, app_of(overlap="allow"))
    assert {job.job: job.outcome for job in done.jobs} == {"plain": JobApplyResult.CHANGED, "own": JobApplyResult.SAME}


@pytest.mark.spec("X5", "defaults in the store")
@told
async def test_a_node_that_has_not_read_the_new_defaults_claims_nothing_by_the_old_ones(desk: Desk) -> None:
    node = await desk.node()
    await applied(desk, app_of(retry={"max_retries": 1}))
    timeline = await read_timeline(desk.store.read)
    job = (await desk.store.read(JobsByNameQuery(("plain",))))["plain"]
    instant = timeline.next_run(job.number, await desk.now())
    assert instant is not None
    wanted = ClaimRequest(Key(instant, job.number, Kind.SCHEDULED), 1, instant)
    answer = await desk.store.claim(node, timeline.revision, [wanted])
    assert isinstance(answer, list)
    book = PlanCache(timeline)
    await applied(desk, app_of(retry={"max_retries": 4}))
    later = ClaimRequest(Key(instant + HOUR, job.number, Kind.SCHEDULED), 1, instant + HOUR)
    assert await desk.store.claim(node, timeline.revision, [later]) is Refusal.MOVED
    row = (await desk.store.read(ByRefQuery((answer[0].ref,))))[answer[0].ref]
    assert row.version == 2, "it has not started, and takes the new defaults"
    book = book.at(await read_timeline(desk.store.read))
    assert [_retries(book.plan(job.number, version)) for version in (1, 2)] == [1, 4], "what runs keeps the old ones"


def _retries(plan: JobPlan | str) -> int:
    assert isinstance(plan, JobPlan), plan
    return plan.start_config.config.job.retry.max_retries


@pytest.mark.spec("X5", "defaults in the store")
@told
async def test_of_many_who_apply_the_same_defaults_at_once_one_makes_the_version(desk: Desk) -> None:
    await applied(desk, app_of(overlap="queue"))
    await asyncio.gather(*[applied(desk, app_of(overlap="allow"), by=f"person {number}") for number in range(5)])
    job = (await desk.store.read(JobsByNameQuery(("plain",))))["plain"]
    assert job.version == 2
