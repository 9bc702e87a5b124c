"""The zones of jobs that are declared or changed are entered with them (protocol rule 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from itinerary import Itinerary, Schedule, cron, every, union
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ScheduleError, UnknownZone
from itinerary.jobs.registration import register
from itinerary.model.queries import EntriesQuery, JobsQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules import Zone, ZoneData, packaged_zone
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from tests.unit.operations.test_job_updates import HOUR, NOON, START, Office, told
from tests.unit.runtime.world import Log

BERLIN, TOKYO, PARIS = "Europe/Berlin", "Asia/Tokyo", "Europe/Paris"
NOW = 1_767_225_600 * SECOND


async def work() -> None: ...


def hour_ahead(name: str) -> Zone:
    zone = packaged_zone(name)
    return Zone(name, zone.starts, tuple(offset + 3_600 for offset in zone.offsets))


OLD, NEW = ZoneData("2026a", packaged_zone), ZoneData("2026b", hour_ahead)


def app_with(*schedules: Schedule, zone_data: ZoneData = OLD, **options: Any) -> Itinerary:
    app = Itinerary(store="memory:", zone_data=zone_data, timezone=options.pop("zone", None))
    for number, schedule in enumerate(schedules):
        app.job(f"job {number}", schedule, **options).task(work)
    return app


class Registry:
    """A store, and what is in it."""

    def __init__(self) -> None:
        self.store = EngineStore(MemoryEngine(lambda: NOW))
        self.log = Log()

    async def declare(self, app: Itinerary) -> None:
        await register(self.store, app._declared, by="anna", log=self.log, zone_data=app._rules.zone_data)

    async def entries(self) -> Sequence[EntryRow]:
        return await self.store.read(EntriesQuery(0))

    async def zones(self) -> list[tuple[str, str | None]]:
        return [(entry.subject, entry.reason) for entry in await self.entries() if entry.kind is EntryKind.ZONE]

    async def revision(self) -> int:
        return (await self.store.read(StoreStatusQuery())).revision

    async def timeline(self) -> Timeline:
        return Timeline.of(await self.entries(), await self.store.read(JobsQuery()))


@pytest.mark.spec("S8", "protocol rule 5: a job's zones are entered with it")
def test_the_zones_that_declared_jobs_need_are_entered_before_them_and_no_others() -> None:
    async def story() -> None:
        registry = Registry()
        async with registry.store:
            await registry.declare(app_with(every("1h"), cron("0 5 * * *", tz="UTC")))
            assert await registry.zones() == []
            several = union(cron("0 5 * * *", tz=TOKYO), cron("0 6 * * *"))
            await registry.declare(app_with(cron("0 5 * * *"), several, zone=BERLIN))
            assert await registry.zones() == [(TOKYO, "zone data 2026a"), (BERLIN, "zone data 2026a")]
            first = next(entry for entry in await registry.entries() if entry.kind is EntryKind.ZONE)
            assert (first.job, first.entered_by) == (0, "anna")
            needing = [
                entry for entry in await registry.entries() if entry.version and entry.body and BERLIN in entry.body
            ]
            assert all(first.revision < entry.revision for entry in needing)
            assert not (await registry.timeline()).expected(NOW, NOW + 86_400 * SECOND).gaps
            assert registry.log.said("zones.entered") == [{"zones": [TOKYO, BERLIN], "why": "zone data 2026a"}]

    asyncio.run(story())


@pytest.mark.spec("R7", "protocol rule 5: running it twice changes nothing")
def test_declaring_the_same_jobs_again_enters_nothing_whatever_zone_data_the_program_has() -> None:
    async def story() -> None:
        registry = Registry()
        async with registry.store:
            await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN)))
            revision = await registry.revision()
            await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN)))
            await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN), zone_data=NEW))
            assert await registry.revision() == revision
            await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN), cron("0 5 * * *", tz=PARIS), zone_data=NEW))
            assert await registry.zones() == [(BERLIN, "zone data 2026a"), (PARIS, "zone data 2026b")]
            instants = [due.instant for due in (await registry.timeline()).expected(NOW, NOW + 86_400 * SECOND)]
            assert [(instant - NOW) // (3_600 * SECOND) for instant in instants] == [4, 3]

    asyncio.run(story())


@pytest.mark.spec("R6", "protocol rule 5: several programs at once")
def test_programs_that_declare_jobs_in_the_same_zone_at_once_enter_it_once() -> None:
    async def story() -> None:
        registry = Registry()
        async with registry.store:
            apps = [app_with(cron("0 5 * * *", tz=BERLIN), zone_data=data) for data in (OLD, NEW, OLD, NEW)]
            await asyncio.gather(*(registry.declare(app) for app in apps))
            assert len(await registry.zones()) == 1
            assert [entry.version for entry in await registry.entries() if entry.kind is EntryKind.VERSION] == [1]

    asyncio.run(story())


@pytest.mark.spec("R6", "protocol rule 5: a job that moves to another zone")
def test_a_declaration_that_moves_to_a_new_zone_is_judged_by_its_table() -> None:
    async def story() -> None:
        registry = Registry()
        async with registry.store:
            await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN)))
            await registry.declare(app_with(cron("0 5 * * *", tz=TOKYO)))
            assert [subject for subject, _ in await registry.zones()] == [BERLIN, TOKYO]
            timeline = await registry.timeline()
            (due,) = timeline.expected(NOW, NOW + 86_400 * SECOND)
            assert (due.version, (due.instant - NOW) // (3_600 * SECOND)) == (2, 20)

    asyncio.run(story())


@pytest.mark.spec("R7", "protocol rule 5: an update brings its zone")
def test_an_update_to_a_new_zone_enters_it_in_the_same_transaction_and_a_plan_does_not() -> None:
    async def story(office: Office) -> None:
        claimed = await office.claimed(NOON)
        change = {"schedule": cron("30 */2 * * *", tz=BERLIN), "from_version": 1, "window": "6h"}
        plan = await office.plan(**change)
        assert len(await office.store.read(EntriesQuery(0))) == 1
        made = await office.update(**change)
        assert (plan.added, plan.removed, plan.kept) == (made.added, made.removed, made.kept)
        assert made.added == tuple(NOON + n * HOUR for n in (1.5, 3.5, 5.5))
        entries = await office.store.read(EntriesQuery(0))
        assert [(entry.revision, entry.kind) for entry in entries[1:]] == [(2, EntryKind.ZONE), (2, EntryKind.VERSION)]
        assert (await office.row(claimed)).status is OccurrenceState.CANCELLED
        assert (await office.update(**change)).version == 2
        assert len(await office.store.read(EntriesQuery(0))) == 3
        assert made.effective_from == START

    told(story)


def test_a_zone_that_neither_the_store_nor_the_program_has_is_refused_before_anything_is_entered() -> None:
    def nothing(name: str) -> Zone:
        raise UnknownZone(f"time zone {name!r} is unknown here")

    async def story() -> None:
        registry = Registry()
        async with registry.store:
            with pytest.raises(ScheduleError, match="'Europe/Berlin' is unknown here"):
                await registry.declare(app_with(cron("0 5 * * *", tz=BERLIN), zone_data=ZoneData("2026a", nothing)))
            assert await registry.entries() == []

    asyncio.run(story())
