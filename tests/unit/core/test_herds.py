"""Many that are due at the same instant: they start first, and everything that can wait does."""

from __future__ import annotations

import pytest

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.scheduler import LAUNCH_FOR
from itinerary.core.loop.starts import _SLOTS_AT_ONCE
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import hangs, works


def asked(commands: list[c.Command], kind: type[c.Command]) -> list[c.Command]:
    return [command for command in commands if isinstance(command, kind)]


def starts(commands: list[c.Command]) -> int:
    return sum(len(command.starts) for command in commands if isinstance(command, c.StartRuns))


def herd(count: int, slots: int) -> World:
    """So many jobs, due each hour and for the first time at START."""
    world = World(max_concurrent_jobs=slots)
    for number in range(count):
        world.job(f"job {number}", is_heard=number == count - 1)
    world.does("main", hangs())
    world.run_to(-0.5)
    return world


@pytest.mark.spec("P4", "starts before claims")
def test_what_is_due_now_starts_before_what_is_due_in_ten_seconds_is_claimed() -> None:
    world = World()
    world.job("each second", schedule=every("1s"))
    world.run_to(20.5)
    world.keep(c.StartRuns)
    world._shared[0] = START + 21 * SECOND + 1
    first = world.turn()
    assert starts(first) == 1
    assert not asked(first, c.Claim), "it is for an instant ten seconds later"
    assert not asked(world.turn(), c.Claim), "the start has not been answered"
    world.let_go(settle=False)
    world.turn()
    assert (world.scheduler.next_at or 0) <= world.now, "and then it is not put off any longer"
    assert asked(world.turn(), c.Claim)


def forgetting_while_starting() -> World:
    """At the same instant one is to start, and one that is over is past its grace period."""
    world = World(grace_period=30 * SECOND)
    world.job("each second", schedule=every("1s"))
    world.run_to(40.5)
    world.keep(c.StartRuns)
    world._shared[0] = START + 41 * SECOND + 1
    assert starts(world.turn()) == 1
    return world


def remembered(world: World) -> bool:
    return any(key.instant == START + 11 * SECOND for key in world.scheduler._scheduler.known)


@pytest.mark.spec("P4", "starts before what is over leaves")
@pytest.mark.spec("O6", "memory")
def test_what_is_over_leaves_memory_when_those_that_are_due_have_started() -> None:
    world = forgetting_while_starting()
    assert remembered(world)
    world.let_go(settle=False)
    world.turn()
    assert not remembered(world), "it does not wait for the next instant"


@pytest.mark.spec("O6", "memory")
def test_what_is_over_leaves_memory_within_seconds_however_long_a_start_takes() -> None:
    world = forgetting_while_starting()
    world._shared[0] += 3 * SECOND
    world.turn()
    assert remembered(world)
    world._shared[0] += 3 * SECOND
    world.turn()
    assert not remembered(world)


def launched_herd() -> World:
    """Many that are due each second have just been launched; others are to be claimed."""
    world = World(max_concurrent_jobs=2_000)
    for number in range(300):
        world.job(f"job {number}", schedule=every("1s"), is_heard=number == 299)
    world.does("main", works(0.2))
    world.run_to(20.5)
    world.keep(c.StartRuns)
    world._shared[0] = START + 21 * SECOND + 1
    world.turn()
    world.let_go(settle=False)
    world.turn()
    return world


@pytest.mark.spec("P4", "starts before claims")
def test_many_that_were_launched_have_a_moment_to_begin_before_anything_is_claimed() -> None:
    world = launched_herd()
    assert world.scheduler.is_hurried(world.now)
    assert world.scheduler.next_at == 0, "the moment is counted from when they have been launched"
    assert not asked(world.turn(), c.Claim)
    assert world.scheduler.next_at == world.now + LAUNCH_FOR
    world._shared[0] += LAUNCH_FOR
    assert not world.scheduler.is_hurried(world.now)
    assert asked(world.turn(), c.Claim)


@pytest.mark.spec("N6")
def test_when_the_clock_goes_back_nothing_waits_for_those_that_were_launched() -> None:
    world = launched_herd()
    world.turn()
    assert world.scheduler.is_hurried(world.now)
    earlier = world.now - 3_600 * SECOND
    world.scheduler._scheduler.shift(-3_600 * SECOND, earlier)
    assert not world.scheduler.is_hurried(earlier)


@pytest.mark.spec("P4", "starts before claims")
def test_a_claim_that_has_no_time_to_lose_is_not_put_off() -> None:
    world = World(pre_schedule_interval=2 * SECOND)
    world.job("each second", schedule=every("1s"))
    world.run_to(20.5)
    world.keep(c.StartRuns)
    world._shared[0] = START + 21 * SECOND
    assert starts(world.turn()) == 1
    world._shared[0] = START + 22 * SECOND + SECOND // 2
    assert asked(world.turn(), c.Claim), "its instant is near"


@pytest.mark.spec("X1", "slots enough")
def test_a_herd_with_slots_enough_starts_some_at_a_time_and_each_of_it_once() -> None:
    count = _SLOTS_AT_ONCE + 10
    world = herd(count, slots=2 * count)
    world.keep(c.StartRuns)
    world._shared[0] = START
    assert starts(world.turn()) == _SLOTS_AT_ONCE
    assert world.scheduler.next_at == 0, "the others are next"
    assert starts(world.turn()) == 10
    assert starts(world.turn()) == 0
    world.let_go()
    assert len(world.launches()) == count


@pytest.mark.spec("X1", "priority")
def test_with_slots_enough_too_the_most_urgent_go_first() -> None:
    world = World(max_concurrent_jobs=10)
    for name, priority in (("a", 0), ("b", 5), ("c", 1)):
        world.job(name, priority=priority)
    world.run_to(0.5)
    assert [one.facts.job for one in world.script.launched] == ["b", "c", "a"]


@pytest.mark.spec("X1", "slots")
def test_a_herd_that_lacks_slots_stands_in_line() -> None:
    world = herd(5, slots=3)
    world.run_to(3)
    assert len(world.launches()) == 3
    assert sorted(world.statuses) == ["pending", "pending", "running", "running", "running"]


@pytest.mark.spec("R9")
def test_what_is_next_when_a_node_is_shut_down_is_given_back_and_does_not_start() -> None:
    count = _SLOTS_AT_ONCE + 10
    world = herd(count, slots=2 * count)
    world._shared[0] = START
    world.turn()
    world.shut_down()
    assert starts(world.commands) == _SLOTS_AT_ONCE
    assert sum(len(command.interventions) for command in world.commands if isinstance(command, c.Release)) == 10


@pytest.mark.spec("N6")
def test_what_is_next_when_the_clock_goes_back_waits_for_its_instant_again() -> None:
    count = _SLOTS_AT_ONCE + 10
    world = herd(count, slots=2 * count)
    world.keep(c.StartRuns)
    world._shared[0] = START
    assert starts(world.turn()) == _SLOTS_AT_ONCE
    world._shared[0] = START - 5 * SECOND
    assert starts(world.turn(m.ClockJumped(-5 * SECOND, "it was set"))) == 0
    assert starts(world.turn()) == 0
    world._shared[0] = START
    assert starts(world.turn()) == 10
