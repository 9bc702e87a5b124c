"""Declared jobs, applied to a store: all of them in one transaction, by what is in force, and once (R6, R7, D10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from itinerary import Itinerary, cron, every, iso8601
from itinerary.core.timeline.definitions import read_definition
from itinerary.errors import ConfigError, NodeError
from itinerary.jobs.registration import register
from itinerary.jobs.version_diff import differences
from itinerary.model.occurrence import Kind
from itinerary.model.policies import UpdatePolicy
from itinerary.model.queries import ByRefQuery, EntriesQuery, JobsByNameQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, EntryRow, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import EntryAccepted, EntryRejected, TimelineEntryRequest, UnstartedReconciler
from itinerary.model.writes import BATCH_MAX, Claimed, ClaimRequest
from itinerary.operations.apply import ApplyOptions, ApplyResult, JobApplyResult, apply_jobs
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.job_updates import DefinitionChange, Updates
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import Schedule
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.unit.jobs.test_registration import LOG

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
START = NOON - timedelta(minutes=5)
HOUR = timedelta(hours=1)


class Office:
    """A store whose clock the test moves, and somebody who applies jobs to it."""

    def __init__(self) -> None:
        self.now = int(START.timestamp()) * SECOND
        self.store = EngineStore(MemoryEngine(lambda: self.now))

    def app(self, **schedules: Schedule | tuple[Schedule, dict[str, Any]]) -> Itinerary:
        app = Itinerary(store="memory:")
        for name, given in schedules.items():
            schedule, options = given if isinstance(given, tuple) else (given, {})
            app.job(name, schedule, **options).shell("t", ["true"])
        return app

    async def apply(
        self, app: Itinerary, *, is_plan: bool = False, policy: UpdatePolicy = UpdatePolicy.IMMEDIATE, **wish: Any
    ) -> ApplyResult:
        return await apply_jobs(
            self.store,
            app.declared,
            ApplyOptions(policy=policy, **wish),
            by="anna",
            zone_data=app.zone_data,
            is_plan=is_plan,
        )

    async def entries(self) -> Sequence[EntryRow]:
        return await self.store.read(EntriesQuery(0))

    async def claimed(self, name: str, at: datetime) -> Claimed:
        """An occurrence that some node has claimed."""
        node = await self.store.join(f"node {name} {at}", "a", "{}")
        revision = (await self.store.read(StoreStatusQuery())).revision
        job = (await self.store.read(JobsByNameQuery((name,))))[name]
        key = Key(int(at.timestamp()) * SECOND, job.number, Kind.SCHEDULED)
        answer = await self.store.claim(node, revision, [ClaimRequest(key, job.version, key.instant)])
        assert isinstance(answer, list)
        return answer[0]

    async def row(self, claimed: Claimed) -> OccurrenceRow:
        return (await self.store.read(ByRefQuery((claimed.ref,))))[claimed.ref]


def played(scenario: Callable[[Office], Awaitable[None]]) -> None:
    async def play() -> None:
        office = Office()
        async with office.store:
            await scenario(office)

    asyncio.run(play())


def outcomes(done: ApplyResult) -> dict[str, str]:
    return {job.job: job.outcome.value for job in done.jobs}


@pytest.mark.spec("R7", "one transaction")
def test_new_jobs_changed_jobs_removals_and_zones_are_one_revision() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h"), b=every("1h"), c=every("1h")))
        before = len(await office.entries())
        done = await office.apply(
            office.app(a=every("1h"), b=every("2h"), d=cron("0 3 * * *", tz="Asia/Tokyo")), remove=("c",)
        )
        assert outcomes(done) == {"a": "same", "b": "changed", "d": "new", "c": "removed"}
        made = (await office.entries())[before:]
        assert len({entry.revision for entry in made}) == 1
        assert [entry.kind for entry in made] == ["zone", "version", "version", "remove"]
        assert {entry.entered_by for entry in made} == {"anna"}

    played(scenario)


@pytest.mark.spec("R7", "shown before it is applied")
def test_the_plan_of_new_changed_and_removed_jobs_is_what_applying_then_does() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h"), c=cron("0 */6 * * *", tz="Europe/Berlin")))
        wanted = office.app(a=every("2h"), b=cron("30 2 * * *", tz="America/New_York"), n=every("8h"))
        planned = await office.apply(wanted, is_plan=True, remove=("c",), window="3d")
        done = await office.apply(wanted, remove=("c",), window="3d")
        assert not planned.is_applied
        assert done.is_applied
        for one, other in zip(planned.jobs, done.jobs, strict=True):
            assert one.diff is not None
            assert other.diff is not None
            assert (one.diff.added, one.diff.removed, one.diff.kept) == (
                other.diff.added,
                other.diff.removed,
                other.diff.kept,
            )
            assert (one.version, one.outcome, one.schedule) == (other.version, other.outcome, other.schedule)
        sizes = [(len(job.diff.added), len(job.diff.removed), len(job.diff.kept)) for job in done.jobs if job.diff]
        assert sizes == [(0, 36, 36), (3, 0, 0), (9, 0, 0), (0, 12, 0)]

    played(scenario)


@pytest.mark.spec("R7", "removed and unstarted")
def test_what_was_claimed_and_is_no_longer_due_is_cancelled_with_the_change() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h"), b=every("1h"), c=every("1h")))
        a, b, c = [await office.claimed(name, NOON) for name in "abc"]
        await office.apply(office.app(a=every("7h"), b=(every("1h"), {"overlap": "queue"})), remove=("c",))
        assert [(await office.row(one)).status for one in (a, b, c)] == [
            OccurrenceState.CANCELLED,
            OccurrenceState.PRERUN,
            OccurrenceState.CANCELLED,
        ]
        assert (await office.row(b)).version == 2
        await office.apply(office.app(a=every("1h")))
        assert (await office.row(a)).status is OccurrenceState.PRERUN

    played(scenario)


@pytest.mark.spec("R7", "graceful")
def test_a_graceful_change_lets_the_next_old_instant_run() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h")))
        (job,) = (await office.apply(office.app(a=every("7h")), policy=UpdatePolicy.GRACEFUL)).jobs
        assert job.diff is not None
        assert job.diff.kept[0] == NOON
        assert job.diff.effective_from == NOON + timedelta(seconds=1)
        assert job.diff.removed[0] == NOON + HOUR

    played(scenario)


@pytest.mark.spec("R7", "twice")
def test_applied_twice_a_bare_duration_keeps_its_anchor_and_nothing_changes() -> None:
    async def scenario(office: Office) -> None:
        app = office.app(a=iso8601("PT8H"), b=cron("H 3 * * *"))
        await office.apply(app)
        office.now += 3_600 * SECOND
        again = await office.apply(office.app(a=iso8601("PT8H"), b=cron("H 3 * * *")))
        assert outcomes(again) == {"a": "same", "b": "same"}
        assert not again.is_change
        assert len(await office.entries()) == 2
        changed = await office.apply(office.app(a=(iso8601("PT8H"), {"priority": 3}), b=cron("H 3 * * *")))
        (job, _) = changed.jobs
        assert job.differences == ("priority: not set -> 3",)
        assert job.diff is not None
        assert not job.diff.removed

    played(scenario)


@pytest.mark.spec("R6", "apply")
def test_what_was_updated_by_hand_is_taken_back_and_the_plan_says_so() -> None:
    async def scenario(office: Office) -> None:
        app = office.app(a=every("1h"))
        await office.apply(app)
        updates = Updates(
            office.store, await StoreView.of(office.store), "bob", app._rules, lambda: UpdatePolicy.IMMEDIATE
        )
        await updates.update("a", DefinitionChange(schedule=every("3h"), options={"overlap": "queue"}))
        await register(office.store, app.declared, by="node", log=LOG)
        assert len(await office.entries()) == 2, "a node that starts leaves it alone"
        (job,) = (await office.apply(app, is_plan=True)).jobs
        assert job.differences == ("schedule: Every 3h -> Every 1h", "overlap: queue -> not set")
        (job,) = (await office.apply(app)).jobs
        assert (job.outcome, job.version) == (JobApplyResult.CHANGED, 3)
        await register(office.store, app.declared, by="node", log=LOG)
        assert len(await office.entries()) == 3

    played(scenario)


@pytest.mark.spec("S11", "apply")
def test_a_pause_stays_when_its_job_changes() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h")))
        await StatusChanges(office.store, await StoreView.of(office.store), "bob").pause("a", "migration", None)
        (job,) = (await office.apply(office.app(a=every("2h")))).jobs
        assert job.outcome is JobApplyResult.CHANGED
        view = await StoreView.of(office.store)
        assert view.timeline.next_run(view.job("a").number, view.now()) is None

    played(scenario)


@pytest.mark.spec("D10", "the same name continues its versions")
def test_a_job_that_was_removed_comes_back_with_its_next_version() -> None:
    async def scenario(office: Office) -> None:
        await office.apply(office.app(a=every("1h"), b=every("1h")))
        await office.apply(office.app(b=every("1h")), remove=("a",))
        again = await office.apply(office.app(b=every("1h")), remove=("a",))
        assert outcomes(again) == {"b": "same", "a": "same"}
        assert again.others == ()
        (a, _) = (await office.apply(office.app(a=every("1h"), b=every("1h")))).jobs
        assert (a.outcome, a.version) == (JobApplyResult.NEW, 2)

    played(scenario)


class Meddling(EngineStore):
    """A store in which somebody else is quicker, so many times."""

    def __init__(self, engine: MemoryEngine, other: Callable[[int], TimelineEntryRequest], times: int) -> None:
        super().__init__(engine)
        self._other, self.times = other, times

    async def amend(
        self, entries: Sequence[TimelineEntryRequest], judge: UnstartedReconciler | None = None
    ) -> list[EntryAccepted] | list[EntryRejected]:
        if self.times > 0 and any(entry.reason == "mine" for entry in entries):
            self.times -= 1
            await super().amend([self._other(self.times)])
        return await super().amend(entries, judge)


@pytest.mark.parametrize(("times", "is_done"), [(3, True), (1_000, False)])
def test_if_somebody_else_is_quicker_it_is_decided_again(times: int, is_done: bool) -> None:
    async def scenario() -> None:
        office = Office()
        other = office.app(a=every("30m"))

        def another(number: int) -> TimelineEntryRequest:
            version = times - number
            body = other.declared["a"].body(0).replace('"30m"', f'"{version}m"')
            return TimelineEntryRequest(
                job="a", kind=EntryKind.VERSION, request=f"by hand {number}", by="bob", from_version=version, body=body
            )

        office.store = Meddling(MemoryEngine(lambda: office.now), another, times)
        async with office.store:
            await office.apply(office.app(a=every("1h")))
            app = office.app(a=every("2h"), b=every("1h"))
            if is_done:
                done = await office.apply(app, reason="mine")
                assert [(job.job, job.version) for job in done.jobs] == [("a", 2 + times), ("b", 1)]
                assert (await office.entries())[-1].revision == times + 2
            else:
                with pytest.raises(NodeError, match="the timeline changes all the time; try again"):
                    await office.apply(app, reason="mine")

    asyncio.run(scenario())


def test_one_transaction_has_room_for_so_many_changes() -> None:
    async def scenario(office: Office) -> None:
        app = Itinerary(store="memory:")
        for number in range(BATCH_MAX + 1):
            app.job(f"job {number}", every("1h")).shell("t", ["true"])
        with pytest.raises(ConfigError, match="10001 jobs and zones would change, and one transaction"):
            await office.apply(app)
        assert await office.entries() == []

    played(scenario)


def test_differences_are_told_part_by_part() -> None:
    def definition(declare: Callable[[Itinerary], None]) -> Any:
        app = Itinerary(store="memory:", allow_modules=["hooks"])
        declare(app)
        return read_definition(app.declared["a"].body(0))

    def old(app: Itinerary) -> None:
        job = app.job("a", every("1h"), overlap="skip", retry={"max_retries": 3})
        job.shell("one", ["1"]).shell("two", ["2"]).shell("three", ["3"]).requires(job="b")

    def new(app: Itinerary) -> None:
        job = app.job("a", cron("0 5 * * *", tz="Europe/Berlin"), retry={"max_retries": 5}, execution_timeout="2h")
        job.shell("two", ["2"], failure="continue").shell("one", ["uno"]).shell("four", ["4"])
        job._declaration.add_hook("hooks:told", is_start=False)

    assert differences(definition(old), definition(new)) == (
        "schedule: Every 1h -> At 05:00, Europe/Berlin",
        "overlap: skip -> not set",
        "retry.max_retries: 3 -> 5",
        "execution_timeout: not set -> 2h",
        "task four: added",
        "task three: removed",
        "task one: shell: 1 -> uno",
        "task two: failure: not set -> continue",
        "order of tasks: one, two, three -> two, one, four",
        "requires: job b -> nothing",
        "on_complete: nothing -> hooks:told",
    )
    assert differences(definition(old), definition(old)) == ()
