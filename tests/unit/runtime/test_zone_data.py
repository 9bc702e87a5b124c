"""Nodes with different zone data on one store: all of them compute with what is stored, and nothing runs twice.

In the newer zone data Berlin's clock is four seconds ahead, so a job on its wall clock has other instants from the
moment on in which that data is entered, and for every instant it can be told by which data it was computed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from itinerary.audit import AuditResult, audit_window
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap, Recovery, RecoveryPolicy
from itinerary.model.queries import EntriesQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.states import OccurrenceState
from itinerary.runtime.node import Node
from itinerary.schedules import Schedule, Zone, ZoneData, cron, every, packaged_zone, union
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import EPOCH, World, played

BERLIN = "Europe/Berlin"
BESIDE_EACH_OTHER = Overrides(overlap=Overlap.ALLOW)
EACH_TENTH_SECOND = cron("*/10 * * * * *", tz=BERLIN)


def ahead(seconds: int) -> Any:
    """Zone data in which Berlin's clock is so many seconds ahead."""

    def zone(name: str) -> Zone:
        found = packaged_zone(name)
        offsets = tuple(offset + seconds for offset in found.offsets)
        return Zone(name, found.starts, offsets) if name == BERLIN else found

    return zone


OLD, NEW, NEWEST = ZoneData("2026a", packaged_zone), ZoneData("2026b", ahead(4)), ZoneData("2026c", ahead(7))


class Fleet:
    """Nodes that come and go, and what their tasks did."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ran: Counter[tuple[str, int]] = Counter()
        """Which job ran, and for which second since the beginning."""

    async def work(self, ctx: Any) -> None:
        self.ran[ctx.job, (round(ctx.scheduled_at.timestamp()) * SECOND - EPOCH) // SECOND] += 1
        await asyncio.sleep(0.2)

    async def register(self, name: str, schedule: Schedule, overrides: Overrides = BESIDE_EACH_OTHER) -> None:
        await self.world.register(name, self.work, schedule=schedule, overrides=overrides)

    @asynccontextmanager
    async def running(self, name: str, data: ZoneData) -> AsyncIterator[Node]:
        node = self.world.node(name, zone_data=data)
        async with self.world.running(node):
            yield node

    async def entered(self) -> list[EntryRow]:
        """The zone data in the store."""
        entries = await EngineStore(self.world.engine.engine).read(EntriesQuery(0))
        return [entry for entry in entries if entry.kind is EntryKind.ZONE]

    async def changes(self) -> list[float]:
        """When zone data took the place of other zone data: seconds since the beginning."""
        return [(entry.effective_from - EPOCH) / SECOND for entry in (await self.entered())[1:]]

    async def audited(self) -> AuditResult:
        store = EngineStore(self.world.engine.engine)
        return await audit_window(store, None, (await store.read(StoreStatusQuery())).watermark)


def instants(schedule: Schedule, spans: Sequence[tuple[float, float, ZoneData]]) -> list[int]:
    """A schedule's seconds since the beginning, with other zone data in each span: by a path of its own."""
    found = []
    for start, end, data in spans:
        low, high = (EPOCH + round(at * SECOND) for at in (start, end))
        found += [round(at.timestamp()) - EPOCH // SECOND for at in schedule.between(low, high, data.zone)]
    return found


@pytest.mark.spec("N1", "protocol rule 5: new zone data during a rolling restart")
@pytest.mark.parametrize("seed", range(5))
def test_new_zone_data_during_a_rolling_restart_runs_no_instant_twice_and_loses_none(seed: int) -> None:
    jobs: dict[str, Schedule] = {
        "tenths": EACH_TENTH_SECOND,
        "thirds": cron("1-59/3 * * * * *", tz=BERLIN),
        "utc": every("5s"),
        "both": union(cron("30 * * * * *", tz=BERLIN), cron("30 * * * * *")),
    }

    async def story(world: World) -> None:
        fleet = Fleet(world)
        for name, schedule in jobs.items():
            await fleet.register(name, schedule)
        world.engine.takes = world.engine.answers_after = 0.003
        async with AsyncExitStack() as last:
            async with fleet.running("c", OLD):
                async with fleet.running("b", OLD):
                    async with fleet.running("a", OLD):
                        await world.sleep_until(61.3)
                    await last.enter_async_context(fleet.running("a", NEW))
                    await world.sleep_until(90.2)
                async with fleet.running("b", OLD):  # somebody forgot to update this one, and starts it all the same
                    await world.sleep_until(120.7)
                await last.enter_async_context(fleet.running("b", NEW))
                await world.sleep_until(150.1)
            await last.enter_async_context(fleet.running("c", NEW))
            await world.sleep_until(200.5)
        entered = await fleet.entered()
        assert [(entry.subject, entry.reason, entry.entered_by) for entry in entered] == [
            (BERLIN, "zone data 2026a", "node c"),
            (BERLIN, "zone data 2026b", "node a"),
        ], "one node brings it, and nobody takes it back"
        (change,) = await fleet.changes()
        assert 61.3 < change < 62
        assert max(fleet.ran.values()) == 1, "no instant ran twice"
        for name, schedule in jobs.items():
            owed = instants(schedule, [(0, change, OLD), (change, 200.5, NEW)])
            ran = sorted(second for job, second in fleet.ran if job == name)
            assert ran == [second for second in owed if second <= ran[-1]], name
            assert owed[-1] - ran[-1] < 30
        withdrawn = [row for name in jobs for row in await world.rows(name) if row.is_withdrawn]
        assert withdrawn, "some had been claimed ahead, and were not due any more"
        assert all(row.started_at is None and row.status is OccurrenceState.CANCELLED for row in withdrawn)
        assert {row.reason for row in withdrawn} == {
            "version 1, by the zone data in force then, does not have this instant"
        }
        audited = await fleet.audited()
        assert audited.is_clean, audited.findings
        assert audited.expected > 100
        said = world.log.said("zones.entered")
        assert [line["why"] for line in said] == ["zone data 2026a", "zone data 2026b"]
        assert [line["zones"] for line in world.log.said("zones.outdated")] == [[BERLIN]]

    played(story, seed=seed)


@pytest.mark.spec("R1", "protocol rule 5: new zone data after an outage")
def test_what_was_due_while_nobody_ran_is_recovered_by_the_zone_data_of_its_time() -> None:
    async def story(world: World) -> None:
        fleet = Fleet(world)
        await fleet.register("tenths", EACH_TENTH_SECOND)
        async with fleet.running("a", OLD):
            await world.sleep_until(15.0)
        await world.sleep_until(100.5)
        async with fleet.running("a", NEW):
            await world.sleep_until(140.0)
        (change,) = await fleet.changes()
        ran = sorted(second for _, second in fleet.ran)
        assert ran == [*range(0, 101, 10), 106, 116, 126, 136]
        assert 100.5 <= change < 101
        assert max(fleet.ran.values()) == 1
        assert (await fleet.audited()).is_clean

    played(story)


@pytest.mark.spec("R5", "protocol rule 5: a compressed window")
def test_a_compressed_run_is_told_the_instants_that_were_expected_not_those_of_its_own_zone_data() -> None:
    async def story(world: World) -> None:
        told: list[list[int]] = []

        async def work(ctx: Any) -> None:
            if ctx.window is not None and len(ctx.window) > 1:
                told.append([round(at.timestamp()) - EPOCH // SECOND for at in ctx.window])

        fleet = Fleet(world)
        compressed = Overrides(recovery=RecoveryPolicy(Recovery.COMPRESSED))
        await world.register("tenths", work, schedule=EACH_TENTH_SECOND, overrides=compressed)
        async with fleet.running("a", NEW):
            await world.sleep_until(15.0)
        await world.sleep_until(200.5)
        async with fleet.running("a", OLD):
            await world.sleep_until(210.0)
        (window,) = told
        assert window == list(range(window[0], window[-1] + 1, 10))
        assert window[0] % 10 == 6, "by the packaged zone data they would be whole tens"
        assert (await fleet.audited()).is_clean

    played(story)


@pytest.mark.spec("L11", "protocol rule 5: zones that the store lacks")
def test_a_node_that_starts_enters_the_zones_of_stored_jobs_and_no_others() -> None:
    async def story(world: World) -> None:
        fleet = Fleet(world)
        await fleet.register("utc", every("10s"))
        async with fleet.running("a", OLD):
            await world.sleep_until(5.0)
        assert await fleet.entered() == []
        await fleet.register("tenths", EACH_TENTH_SECOND)
        for _ in range(2):
            async with fleet.running("a", OLD):
                await world.sleep_until(world.loop.time() + 5.0)
        (entry,) = await fleet.entered()
        assert (entry.subject, entry.job) == (BERLIN, 0)
        revision = (await world.store.read(StoreStatusQuery())).revision
        async with fleet.running("a", ZoneData("2026b", packaged_zone)):
            await world.sleep_until(world.loop.time() + 5.0)
        assert (await world.store.read(StoreStatusQuery())).revision == revision, (
            "newer, and the same: nothing is entered"
        )

    played(story)


@pytest.mark.spec("N1", "protocol rule 5: three releases at once")
@pytest.mark.parametrize("seed", range(3))
def test_nodes_with_three_releases_that_start_at_once_end_with_the_newest(seed: int) -> None:
    async def story(world: World) -> None:
        fleet = Fleet(world)
        await fleet.register("tenths", EACH_TENTH_SECOND)
        world.engine.takes = world.engine.answers_after = 0.01
        nodes = [world.node(data.release, zone_data=data) for data in (NEW, OLD, NEWEST)]
        await asyncio.gather(*(node.start() for node in nodes))
        tasks = [asyncio.create_task(node.run()) for node in nodes]
        await world.sleep_until(60.0)
        for node in nodes:
            node.shut_down("the story is over")
        await asyncio.gather(*tasks)
        entered = await fleet.entered()
        assert entered[-1].reason == "zone data 2026c"
        assert [entry.reason for entry in entered] == sorted(entry.reason or "" for entry in entered)
        assert max(fleet.ran.values()) == 1
        assert {second % 10 for _, second in fleet.ran if second > 5} == {3}
        assert (await fleet.audited()).is_clean

    played(story, seed=seed)
