"""A node that cannot keep up says so, with a cause that was measured; and says when it is over."""

from __future__ import annotations

import pytest

from itinerary.core.loop.overload import (
    BEHIND_MIN,
    LOOK_EVERY,
    REPEAT_AFTER,
    LoadMeasurement,
    OnTimeAgain,
    OverloadDetector,
    bottleneck,
)
from itinerary.model.overload import Bottleneck, OverloadExtent
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import hangs, works

NOW = 1_800_000_000 * SECOND
ON_TIME = LoadMeasurement(None, 0)


def late(by: int, **shares: float) -> LoadMeasurement:
    return LoadMeasurement(NOW - by * SECOND, 7, **shares)


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        (late(9), Bottleneck.UNKNOWN),
        (late(9, slots=1.0), Bottleneck.SLOTS),
        (late(9, loop=0.95), Bottleneck.CPU),
        (late(9, process=0.97), Bottleneck.CPU),
        (late(9, store=0.9), Bottleneck.STORE),
        (late(9, slots=1.0, loop=0.99), Bottleneck.CPU),
        (late(9, slots=1.0, loop=0.5, waited=0.8), Bottleneck.CPU),
        (late(9, slots=1.0, process=3.0), Bottleneck.SLOTS),
        (late(9, slots=1.0, store=0.99), Bottleneck.SLOTS),
        (late(9, slots=0.4, loop=0.4, process=0.5, store=0.5), Bottleneck.UNKNOWN),
    ],
)
def test_the_bottleneck_is_what_was_used_up_and_else_unknown(measured: LoadMeasurement, found: Bottleneck) -> None:
    assert bottleneck(measured) is found


def test_a_node_that_stays_behind_says_so_at_the_second_look_and_then_once_a_minute() -> None:
    overload, said = OverloadDetector(), []
    for look in range(25):
        now = NOW + look * LOOK_EVERY
        if (line := overload.look(now, LoadMeasurement(now - (8 + look) * SECOND, 40, slots=1.0))) is not None:
            said.append((look * LOOK_EVERY // SECOND, line))
    assert [at for at, _ in said] == [5, 65]
    assert said[0][1] == OverloadExtent(NOW - 8 * SECOND, 9 * SECOND, 40, Bottleneck.SLOTS)
    assert overload.behind == OverloadExtent(NOW - 8 * SECOND, 32 * SECOND, 40, Bottleneck.SLOTS)


def test_a_pause_that_is_made_up_for_between_two_looks_is_not_reported() -> None:
    overload = OverloadDetector()
    assert overload.look(NOW, late(10)) is None
    assert overload.look(NOW + LOOK_EVERY, ON_TIME) is None
    assert overload.look(NOW + 2 * LOOK_EVERY, LoadMeasurement(NOW + 2 * LOOK_EVERY - BEHIND_MIN + 1, 1)) is None
    assert overload.behind is None


def test_the_end_is_said_once_with_how_long_it_lasted_and_how_bad_it_was() -> None:
    overload = OverloadDetector()
    for look, by in enumerate((10, 25, 15)):
        now = NOW + look * LOOK_EVERY
        overload.look(now, LoadMeasurement(now - by * SECOND, 3))
    assert overload.look(NOW + 15 * SECOND, ON_TIME) is None, "one look may be luck"
    assert overload.look(NOW + 20 * SECOND, ON_TIME) == OnTimeAgain(30 * SECOND, 25 * SECOND)
    assert overload.behind is None
    assert overload.look(NOW + 25 * SECOND, ON_TIME) is None


def test_a_reminder_comes_again_after_the_clock_was_set_back() -> None:
    overload = OverloadDetector()
    overload.look(NOW, late(10))
    assert overload.look(NOW + LOOK_EVERY, late(20)) is not None
    earlier = NOW - 2 * REPEAT_AFTER
    assert overload.look(earlier, LoadMeasurement(earlier - 10 * SECOND, 1)) is not None


def test_a_sentence_says_how_far_since_when_and_for_lack_of_what() -> None:
    behind = OverloadExtent(NOW, 23 * SECOND, 1, Bottleneck.CPU)
    assert behind.sentence == (
        "23 s behind since 2027-01-15T08:00:00Z: it lacks CPU (bottleneck: cpu), and 1 due run has not started"
    )


def test_a_sentence_does_not_say_that_no_run_waits_where_the_node_has_not_even_claimed_them() -> None:
    behind = OverloadExtent(NOW, 23 * SECOND, 0, Bottleneck.CPU)
    assert behind.sentence.endswith("(bottleneck: cpu), and due runs are not claimed yet")


# -- what a node counts as overdue -----------------------------------------------------------------------------------


def test_what_lacks_a_slot_is_overdue_since_its_instant() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("long", "long", priority=1)
    world.job("other")
    world.does("long", hangs())
    world.run_to(9)
    assert world.scheduler.overdue(world.now) == (START, 1)
    assert world.scheduler.lacks_slots


def test_an_instant_that_the_node_has_not_even_claimed_is_overdue() -> None:
    world = World()
    world.job("tick", schedule=every("30s"))
    world.does("main", works(0.1))
    world.run_to(5)
    assert world.scheduler.overdue(START + 29 * SECOND) == (None, 0)
    assert world.scheduler.overdue(START + 45 * SECOND) == (START + 30 * SECOND, 0), "its loop has not run since"


def test_what_waits_for_a_limit_is_not_held_up_by_the_node() -> None:
    world = World(limits={"api": 1})
    world.job("long", "long", limits=("api",), priority=1)
    world.job("other", limits=("api",))
    world.does("long", hangs())
    world.run_to(9)
    assert world.scheduler.overdue(world.now) == (None, 0)
    assert not world.scheduler.lacks_slots


def test_a_node_on_time_has_nothing_overdue() -> None:
    world = World()
    world.job("tick", schedule=every("1s"))
    world.does("main", works(0.1))
    world.run_to(9.5)
    assert world.scheduler.overdue(world.now) == (None, 0)
