"""What was foreseen, held against what a real node then did, occurrence by occurrence (U5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.cli.load_app import load_app
from itinerary.forecast import foresee, occurrences
from itinerary.model.queries import ActiveQuery, HistoryQuery, JobsQuery
from itinerary.schedules.durations import SECOND
from itinerary.stores.urls import open_store
from tests.integration.stores.scale import IS_FULL

EXAMPLE = Path(__file__).parents[3] / "examples" / "app.py"
Told = set[tuple[str, int, str]]


async def happened(url: str) -> tuple[int, Told]:
    """When the jobs were registered, and what became of each occurrence."""
    async with open_store(url) as store:
        jobs = await store.read(JobsQuery())
        found: Told = set()
        for job in jobs:
            rows = [*(await store.read(HistoryQuery(job.number))).rows, *await store.read(ActiveQuery(job.number))]
            found |= {(job.name, row.instant, str(row.status)) for row in rows}
        return min(job.registered_at for job in jobs), found


def compared(app: Itinerary, url: str, seconds: float, said: Mapping[str, int], margin: float) -> tuple[Told, Told]:
    """What was foreseen and what happened, up to so long before the node ended."""
    with app.running():
        time.sleep(seconds)  # real time is what is looked at
        until = int((time.time() - margin) * SECOND)
    start, reality = asyncio.run(happened(url))
    stage, _ = asyncio.run(app.stage(start, said))
    foreseen = occurrences(stage, foresee(stage, start, until))
    told = {(one.job, one.instant, str(one.state)) for one in foreseen}
    return told, {one for one in reality if one[1] < until}


async def work() -> None: ...


async def long_work() -> None:
    await asyncio.sleep(6)


@pytest.mark.spec("U5", "its prediction equals what happens")
def test_what_a_node_does_in_some_seconds_is_what_was_foreseen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/itinerary.db"
    app = Itinerary(store=url)
    begin = datetime.fromtimestamp(int(time.time()) + 4, UTC)  # by then the node is there, however slow the machine is
    app.job("tick", every("2s", start=begin)).task(work)
    app.job("slow", every("4s", start=begin), overlap="skip").task(long_work)
    app.job("beside", every("3s", start=begin), overlap="allow").task(long_work)
    said = {"tick": 0, "slow": 6 * SECOND, "beside": 6 * SECOND}
    told, reality = compared(app, url, 19, said, margin=7)
    assert told == reality
    assert len(told) > 8
    assert {state for job, _, state in told if job == "slow"} == {"completed", "skipped"}


@pytest.mark.skipif(not IS_FULL, reason="two minutes of real time; FAULTS_SCALE=10")
@pytest.mark.spec("U5", "two minutes of the example")
def test_two_minutes_of_the_example_are_what_was_foreseen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/itinerary.db"
    app, paths = load_app(str(EXAMPLE))
    app.reconfigure(store=url, paths=paths)
    told, reality = compared(app, url, 126, {"slow": 5 * SECOND}, margin=6)
    print(f"{len(told)} foreseen, {len(reality)} happened, {len(told ^ reality)} differ")
    assert told == reality
    assert len(told) > 140
