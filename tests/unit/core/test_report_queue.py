"""What executors report waits while starts are on their way; and nothing is judged wrongly for that."""

from __future__ import annotations

import pytest

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.report_queue import AT_ONCE, HELD_MAX, HERD
from itinerary.core.loop.scheduler import LAUNCH_FOR
from itinerary.model.attempts import AttemptKey, Ended, Succeeded
from itinerary.model.writes import OwnerWrite
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import hangs

pytestmark = pytest.mark.spec("L3", "starts before ends")


def written(asked: list[c.Command]) -> list[OwnerWrite]:
    return [change for command in asked if isinstance(command, c.Write) for change in command.changes]


def world_with_a_herd_on_its_way(count: int = HERD, **of_first: object) -> World:
    """`first` runs since START; a few seconds later others are being started, and the store has not answered."""
    world = World(max_concurrent_jobs=4 * HERD)
    world.job("first", **of_first)  # type: ignore[arg-type]  # overrides of a job
    for number in range(count):
        world.job(f"other {number}", schedule=every("7s"), overlap="allow", is_heard=number == count - 1)
    world.does("main", hangs())
    world.run_to(0.5)
    world.keep(c.StartRuns)
    world.run_to(next_of_the_others(world))
    assert world.kept, "their starts are on their way"
    return world


def next_of_the_others(world: World) -> float:
    """When the others are due: every seven seconds, counted from the epoch."""
    return (-(-world.now // (7 * SECOND)) * 7 * SECOND - START) / SECOND


def key_of_first(world: World) -> AttemptKey:
    (key,) = [one.key for one in world.script.launched if one.facts.job == "first"]
    return key


def ended(world: World) -> m.AttemptsReported:
    return m.AttemptsReported([Ended(key_of_first(world), Succeeded())])


def test_a_report_waits_while_a_herd_is_on_its_way_and_is_taken_up_when_the_last_of_that_have_begun() -> None:
    world = world_with_a_herd_on_its_way()
    assert written(world.turn(ended(world))) == []
    world.let_go(settle=False)
    assert written(world.turn()) == []
    assert written(world.turn()) == []
    assert world.scheduler.next_at == world.now + LAUNCH_FOR, "those who were launched last have a moment to begin"
    world._shared[0] += LAUNCH_FOR
    assert len(written(world.turn())) == 1


def test_a_report_waits_for_half_a_second_and_no_longer() -> None:
    world = world_with_a_herd_on_its_way()
    world.turn(ended(world))
    reported_at = world.now
    assert world.scheduler.next_at == reported_at + HELD_MAX
    world._shared[0] = reported_at + HELD_MAX - 1
    assert written(world.turn()) == []
    world._shared[0] += 1
    assert len(written(world.turn())) == 1


def test_what_ended_before_somebody_cancelled_it_has_completed() -> None:
    world = world_with_a_herd_on_its_way()
    asked = world.turn(ended(world), m.CancelRequested(key_of_first(world).ref, "anna"))
    (change,) = written(asked)
    assert [str(step.to) for step in change.steps] == ["completed"]
    assert not [command for command in asked if isinstance(command, c.Stop | c.Kill)]


def test_what_ended_in_time_is_not_over_its_time_though_its_report_waits() -> None:
    world = world_with_a_herd_on_its_way(task_timeout="10s")
    world.turn(ended(world))
    world._shared[0] = START + 10 * SECOND
    (change,) = written(world.turn())
    assert [str(step.to) for step in change.steps] == ["completed"]


@pytest.mark.parametrize("count", [1, HERD - 1])
def test_fewer_starts_on_their_way_hold_up_nothing(count: int) -> None:
    world = world_with_a_herd_on_its_way(count)
    assert len(written(world.turn(ended(world)))) == 1


def test_ten_thousand_starts_and_ends_are_worked_off_in_pieces_and_time_stands_still_meanwhile() -> None:
    count = 3 * AT_ONCE + 10
    world = World(max_concurrent_jobs=2 * count)
    for number in range(count):
        world.job(f"job {number}", is_heard=number == count - 1)
    world.does("main", hangs())
    world.run_to(1)
    starts = [len(command.starts) for command in world.commands if isinstance(command, c.StartRuns)]
    assert starts == [AT_ONCE, AT_ONCE, AT_ONCE, 10]
    assert len(world.script.launched) == count
    world.keep(c.Write)
    reports = m.AttemptsReported([Ended(one.key, Succeeded()) for one in world.script.launched])
    assert len(written(world.turn(reports))) == AT_ONCE
    assert world.scheduler.next_at == 0, "there is more to do, and nothing to wait for"
    rest = [len(written(world.turn())) for _ in range(4)]
    assert rest == [AT_ONCE, AT_ONCE, 10, 0]
