"""A store that did not answer is remembered by the nodes that asked it, and told when it is back (N5, U4)."""

from __future__ import annotations

import json

import pytest

from itinerary.model.queries import NodesQuery
from itinerary.runtime.store_outages import StoreAbsence, StoreAbsences
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played


@pytest.mark.spec("N5", "on record")
def test_a_node_tells_from_when_to_when_its_store_did_not_answer() -> None:
    async def story(world: World) -> None:
        async with world.running(world.node()):
            await world.sleep_until(30.5)
            world.engine.is_down = True
            await world.sleep_until(90.5)
            world.engine.is_down = False
            await world.sleep_until(110)
            (node,) = await world.store.read(NodesQuery())
        about = json.loads(node.about)
        (absence,) = about["store_absences"]["last"]
        since, until = (absence["since"] - EPOCH) / SECOND, (absence["until"] - EPOCH) / SECOND
        assert 30.5 <= since <= 31.6, "from the first question that had no answer"
        assert 90.5 <= until <= 95.6, "to the first that had one"
        assert about["heartbeat_interval"] == 5 * SECOND

    played(story)


@pytest.mark.spec("N5", "silent")
def test_a_heartbeat_that_hung_and_was_answered_late_is_an_absence_of_the_store() -> None:
    async def story(world: World) -> None:
        async with world.running(world.node()):
            await world.sleep_until(30.5)
            world.engine.takes = 12.0  # as a connection that was cut, and the work repeated on another one
            await world.sleep_until(36.5)
            world.engine.takes = 0.0
            await world.sleep_until(60)
            (node,) = await world.store.read(NodesQuery())
        (absence,) = json.loads(node.about)["store_absences"]["last"]
        since, until = (absence["since"] - EPOCH) / SECOND, (absence["until"] - EPOCH) / SECOND
        assert 30.5 <= since <= 36.5
        assert 11.9 <= until - since <= 12.1
        assert "heartbeat" in [slow["what"] for slow in world.log.said("store.slow")]

    played(story)


def test_a_single_answer_that_got_lost_is_not_worth_telling() -> None:
    absences = StoreAbsences()
    absences.note(EPOCH, EPOCH + SECOND - 1)
    assert absences == StoreAbsences()


def test_only_the_last_few_are_kept_and_all_are_counted() -> None:
    absences = StoreAbsences()
    for minute in range(12):
        absences.note(EPOCH + minute * 60 * SECOND, EPOCH + minute * 60 * SECOND + SECOND)
    assert absences.count == 12
    assert absences.last[0] == StoreAbsence(EPOCH + 120 * SECOND, EPOCH + 121 * SECOND)
    assert len(absences.last) == 10
