"""Any sequence of operations gives the same answers on a store and on the memory reference, and leaves the same rows.

Hypothesis makes the sequences: claims, starts, writes, interventions, requests of people, updates, sweeps, events and
forgetting, right and wrong, once and repeated. Both stores are asked the same, each by its own numbers; then all that
they hold is compared, and checked against what must be true of any store.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.stores.engine import Engine, T, Work
from itinerary.stores.memory import MemoryEngine
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.dump import dump
from tests.contracts.stores.operations import Operation, fill, operations, repeatable
from tests.contracts.stores.world import World
from tests.engines import Wrapped


@pytest.mark.spec("D4")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=st.lists(operations, min_size=10, max_size=60))
def test_a_store_answers_like_the_memory_reference(store: Opened, asked: Sequence[Operation]) -> None:
    store.runner.run(_compared(store.engine, asked))


class Forgetful(Wrapped):
    """An engine whose every first answer is lost after the commit, so that all work is done twice (DESIGN 2)."""

    async def write(self, work: Work[T]) -> T:
        await self.engine.write(work)
        return await self.engine.write(work)


@pytest.mark.spec("N2", "lost replies")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=st.lists(repeatable, min_size=10, max_size=60))
def test_a_write_whose_answer_was_lost_is_answered_as_the_first_time_and_nothing_happens_twice(
    store: Opened, asked: Sequence[Operation]
) -> None:
    store.runner.run(_compared(Forgetful(store.engine), asked))


async def _compared(engine: Engine, asked: Sequence[Operation]) -> None:
    ours, reference = World(engine), World(MemoryEngine())
    for world in (ours, reference):
        await world.begin()
        await fill(world)
    for operation in asked:
        told, expected = await operation(ours), await operation(reference)
        assert ours.shown(told) == reference.shown(expected), operation
    left, wanted = await dump(ours.engine), await dump(reference.engine)
    wanted.check()
    left.check()
    assert left.comparable() == wanted.comparable()
