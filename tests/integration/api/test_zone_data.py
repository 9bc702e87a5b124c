"""Programs with different zone data on one store, one after the other and side by side (protocol rule 5)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from itinerary import Itinerary, cron
from itinerary.model.queries import EntriesQuery
from itinerary.model.rows import EntryKind
from itinerary.schedules import Zone, ZoneData, packaged_zone
from itinerary.stores import open_store
from tests.integration.api.conftest import run

BERLIN = "Europe/Berlin"


async def work() -> None: ...


def quarter_hour_ahead(name: str) -> Zone:
    zone = packaged_zone(name)
    return Zone(name, zone.starts, tuple(offset + 900 for offset in zone.offsets))


OLD, NEW = ZoneData("2026a", packaged_zone), ZoneData("2026b", quarter_hour_ahead)


def app_on(store: str, data: ZoneData) -> Itinerary:
    app = Itinerary(store=store, name=data.release, zone_data=data)
    app.job("hourly", cron("20 * * * *", tz=BERLIN)).task(work)
    return app


def next_minute(app: Itinerary) -> int:
    following = app["hourly"].next_run()
    assert following is not None
    assert following > datetime.now(UTC)
    return following.minute


@pytest.mark.spec("N1", "protocol rule 5: programs with different zone data")
def test_the_newest_zone_data_that_any_program_has_brought_counts_for_all_of_them(store: str) -> None:
    async def program() -> list[str | None]:
        for data in (OLD, NEW, OLD):
            app = app_on(store, data)
            async with app.running():
                next_minute_of.append((data.release, next_minute(app)))
        async with open_store(store) as opened:
            entries = await opened.read(EntriesQuery(0))
        return [entry.reason for entry in entries if entry.kind is EntryKind.ZONE]

    next_minute_of: list[tuple[str, int]] = []
    assert run(program()) == ["zone data 2026a", "zone data 2026b"]
    assert next_minute_of == [("2026a", 20), ("2026b", 5), ("2026a", 5)]


@pytest.mark.spec("L12", "protocol rule 5: nodes that run hear of new zone data")
def test_a_node_that_runs_hears_of_the_zone_data_that_another_one_brings(store: str) -> None:
    async def program() -> None:
        older, newer = app_on(store, OLD), app_on(store, NEW)
        async with older.running():
            assert next_minute(older) == 20
            async with newer.running():
                assert next_minute(newer) == 5
                while next_minute(older) != 5:  # noqa: ASYNC110 - it hears of it through the store
                    await asyncio.sleep(0.02)

    run(program())
