"""A node that was frozen while it held work, and thawed when others had taken it: it gets nothing any more (protocol
rule 9)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Started, TakeoverWrite, Written
from itinerary.stores import open_store
from tests.contracts.stores.desk import Desk
from tests.contracts.stores.dump import Dump, dump
from tests.integration.stores.conftest import Places
from tests.integration.stores.nursery import Nursery
from tests.integration.stores.own_tables import as_claimed, count_effects, create_effects
from tests.integration.stores.scale import SCALE


def _freeze(pid: int) -> None:
    """SIGSTOP, and wait until it stands still."""
    os.kill(pid, signal.SIGSTOP)
    for task in Path(f"/proc/{pid}/task").iterdir():
        while (task / "stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass


@pytest.mark.spec("D5", "D6")
@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("_repeated", range(SCALE))
def test_a_frozen_node_that_was_robbed_is_refused_everything_when_it_thaws(
    places: Places, nursery: Nursery, _repeated: int
) -> None:
    url = places()
    node = nursery.born("frozen", url)
    held = node.word("holds")
    create_effects(url)
    _freeze(node.pid)

    async def rob() -> Dump:
        """Another process takes all of it: the one that was not started it starts, the others it ends or carries on."""
        async with open_store(url) as store:
            desk = Desk(store, store._engine)
            thief = await desk.node("thief")
            desk.revision = (await store.beat(thief)).revision
            unstarted = await desk.row(held[0])
            request = desk.request(as_claimed(unstarted), fence=None)
            (started,) = await store.start(thief, desk.revision, [request], 0)
            assert isinstance(started, Started)
            assert started.fence > unstarted.fence
            rows = [await desk.row(ref) for ref in held[1:]]
            ends = [TakeoverWrite(row.ref, row.fence, OccurrenceState.ORPHANED, "its node is dead") for row in rows[1:]]
            carried_on = TakeoverWrite(rows[0].ref, rows[0].fence, None, "its node is dead", owner=thief)
            answers = await store.intervene(thief, [carried_on, *ends])
            assert all(isinstance(answer, Written) for answer in answers), answers
            return await dump(store._engine)

    before = asyncio.run(rob())
    node.say(go=True)
    os.kill(node.pid, signal.SIGCONT)
    answers = node.word("answers")
    assert answers == dict.fromkeys(("start", "launch", "write", "end", "commit"), "lost")
    assert node.end() == 0

    async def after() -> Dump:
        async with open_store(url) as store:
            return await dump(store._engine)

    found = asyncio.run(after())
    found.check()
    assert found.rows == before.rows
    assert count_effects(url) == 0
