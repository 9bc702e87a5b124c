"""PostgreSQL goes away in the middle of ten thousand writes: the callers wait and go on, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from itinerary.model.rows import AttemptRow, JobNumber, NodeNumber
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Claimed, Started, Written
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ATTEMPTS
from tests.contracts.stores.desk import Desk
from tests.contracts.stores.dump import dump
from tests.integration.stores.racing import wanted_in
from tests.integration.stores.scale import IS_FULL
from tests.servers import PostgresServer

WRITES = 10_000 if IS_FULL else 1_500
_LANES = 16
_AWAYS = 3 if IS_FULL else 1
"""How often the server goes away meanwhile."""


class _Counter:
    """How many writes have been answered; at some of them the server goes."""

    def __init__(self, go_away: Callable[[], None]) -> None:
        self.answered = 0
        self._go_away = go_away
        self._moments = [WRITES * number // (_AWAYS + 1) for number in range(1, _AWAYS + 1)]
        self.going: list[asyncio.Task[None]] = []

    def count(self) -> None:
        self.answered += 1
        if self.answered in self._moments:
            self.going.append(asyncio.create_task(asyncio.to_thread(self._go_away)))


async def _live(desk: Desk, node: NodeNumber, wanted: Sequence[object], counter: _Counter) -> None:
    """Claim, start and finish one occurrence after the other: three writes each."""
    for item in wanted:
        (claimed,) = await desk.claim(node, item)  # type: ignore[arg-type]
        counter.count()
        assert isinstance(claimed, Claimed)
        (started,) = await desk.start(node, claimed)
        counter.count()
        assert isinstance(started, Started), started
        (written,) = await desk.store.write(node, [desk.end(started)])
        counter.count()
        assert isinstance(written, Written), written


async def _check(store: EngineStore, jobs: Sequence[JobNumber], count: int) -> None:
    found = await dump(store._engine)
    found.check()
    rows = list(found.occurrences.values())
    assert len(rows) == count
    assert {(row.status, row.sequence, row.fence) for row in rows} == {(OccurrenceState.COMPLETED, 2, 1)}
    assert {row.job for row in rows} == set(jobs)
    attempts: list[AttemptRow] = found.of(ATTEMPTS)
    assert len(attempts) == count
    assert {attempt.status for attempt in attempts} == {TaskState.SUCCESS}


@pytest.mark.spec("D4", "D5")
@pytest.mark.parametrize("how", ["restarted", "crashed"])
def test_a_server_that_goes_away_in_the_middle_loses_and_doubles_nothing_and_no_caller_hears_of_it(
    postgres_server: PostgresServer, how: str
) -> None:
    def go_away() -> None:
        if how == "restarted":
            postgres_server.stop()
        else:
            postgres_server.crash()
        postgres_server.start()

    each = WRITES // 3 // _LANES

    async def main(url: str) -> None:
        async with open_store(url) as store:
            desk = Desk(store, store._engine)
            node = await desk.node()
            jobs = [await desk.job(f"job {number}") for number in range(_LANES)]
            counter = _Counter(go_away)
            await asyncio.gather(*[_live(desk, node, wanted_in(0, job, each), counter) for job in jobs])
            assert len(counter.going) == _AWAYS
            await asyncio.gather(*counter.going)
            await _check(store, jobs, each * _LANES)

    with postgres_server.database() as url:
        asyncio.run(main(url))
