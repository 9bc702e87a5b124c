"""The agenda wakes everybody once for each time, in order, and keeps nobody who has left it."""

from __future__ import annotations

import gc
import heapq
import random
from typing import Any, cast

import pytest

from itinerary.core.loop.occurrence import OccurrenceRun
from itinerary.core.loop.timers import _STALE_MAX, TimerQueue
from tests.unit.core.bench import SECOND, World
from tests.unit.core.scripted import fails


class Waiting:
    """Stands for a course: an agenda does not look at it."""


def runs(count: int) -> list[OccurrenceRun]:
    return [cast(Any, Waiting()) for _ in range(count)]


def in_memory(world: World) -> list[OccurrenceRun]:
    """Every course of this node, whoever holds it."""
    gc.collect()
    node = world.scheduler._scheduler.node
    return [one for one in gc.get_objects() if isinstance(one, OccurrenceRun) and one.node is node]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_put_and_dropped_it_wakes_the_others_in_order(seed: int) -> None:
    chance, timers, now = random.Random(seed), TimerQueue(), 0  # noqa: S311 - not for secrets
    expected: list[tuple[int, int, int]] = []  # time, in the order of having been put, who
    known = runs(30)
    for turn in range(3_000):
        who, at = chance.randrange(len(known)), now + chance.randrange(1, 40)
        match chance.randrange(4):
            case 0 | 1 if not any((time, one) == (at, who) for time, _, one in expected):
                timers.put(at, known[who])
                heapq.heappush(expected, (at, turn, who))
            case 2:
                timers.drop(at, known[who])
                expected = [entry for entry in expected if (entry[0], entry[2]) != (at, who)]
                heapq.heapify(expected)
            case 3:
                now += chance.randrange(3)
                woken = [known.index(one) for one in timers.due(now)]
                assert woken == [heapq.heappop(expected)[2] for _ in woken]
                assert not expected or expected[0][0] > now
        assert timers.next_at == min((time for time, *_ in expected), default=None)
        assert len(timers) == len(expected)


def test_times_of_which_nobody_is_left_do_not_add_up() -> None:
    timers, last = TimerQueue(), runs(1)[0]
    timers.put(10**9, last)
    for at, run in enumerate(runs(5 * _STALE_MAX)):
        timers.put(at, run)
        timers.drop(at, run)
        timers.drop(at, run)
    assert len(timers._times) <= _STALE_MAX + 3
    assert (timers.next_at, timers.due(10**9)) == (10**9, [last])


@pytest.mark.spec("O6", "memory")
def test_what_was_over_at_once_is_not_kept_for_as_long_as_it_might_have_taken() -> None:
    world = World()
    world.job("quick", task_timeout="2h", execution_timeout="3h")
    world.job("tried again", task_timeout="2h", retry={"max_retries": 1, "retry_interval": "1s"})
    world.does("main", fails("boom"))
    world.run_to(0.5)
    scheduler = world.scheduler._scheduler
    assert len(in_memory(world)) == 2
    world.run_to(5)
    assert len(scheduler.alarms) == 0, "both are over"
    world.run_to(scheduler.settings.grace_period / SECOND + 2)
    assert in_memory(world) == []
