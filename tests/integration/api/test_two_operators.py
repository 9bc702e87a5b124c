"""Two people who update a job at the same moment, from two processes: one wins, the other is told (R6, D10)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

import itinerary
from itinerary import Itinerary, every
from itinerary.jobs.registration import register
from itinerary.model.queries import EntriesQuery
from itinerary.stores import open_store
from tests.integration.api.conftest import PATIENCE
from tests.integration.stores.conftest import Places, places, postgres_server

__all__ = ["places", "postgres_server"]

LOG = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(50))
ROUNDS = 2


async def work() -> None: ...


def person(url: str, interval: str, version: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(itinerary.__file__).parent.parent)}
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(Path(__file__).with_name("person.py")), url, interval, str(version)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.spec("R6", "a stale one is refused")
@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
def test_of_two_processes_that_update_a_job_at_once_one_is_told_the_version_that_it_missed(places: Places) -> None:
    url = places()
    app = Itinerary(store="memory:")
    app.job("etl", every("1h")).task(work)

    async def declare() -> None:
        async with open_store(url) as store:
            await register(store, app._declared, by="anna", log=LOG)

    async def versions() -> list[int]:
        async with open_store(url) as store:
            return [entry.version for entry in await store.read(EntriesQuery(0))]

    asyncio.run(declare())
    for version in range(1, ROUNDS + 1):
        people = [person(url, f"{version * 10 + number}m", version) for number in (1, 2)]
        try:
            for one in people:
                assert one.stdout is not None
                assert one.stdout.readline() == "ready\n"
            for one in people:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            said = sorted(one.communicate(timeout=PATIENCE)[0].strip() for one in people)
        finally:
            for one in people:
                one.kill()
                one.wait(PATIENCE)
        assert said[0] == f"made: {version + 1}"
        assert said[1].startswith(f"refused: job 'etl' is at version {version + 1} since")
        assert f"made from version {version}" in said[1]
    assert asyncio.run(versions()) == list(range(1, ROUNDS + 2))
