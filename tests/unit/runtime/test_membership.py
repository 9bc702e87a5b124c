"""Who is counted on: who was heard of lately, has not left, and says what it lacks."""

from __future__ import annotations

import pytest

from itinerary.core.recovery.membership import Members
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.runtime.clock_jumps import ClockJumps
from itinerary.runtime.membership import LACKS_MAX, Membership, told_about
from itinerary.runtime.store_outages import StoreAbsences
from itinerary.schedules.durations import SECOND

NOW = 1_000_000 * SECOND
ME, OTHER = NodeNumber(1), NodeNumber(2)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return NOW + self.at

    def elapsed(self) -> int:
        return self.at


class Scene:
    def __init__(self) -> None:
        self.clock = Clock()
        self.roll = Membership(ME, 5 * SECOND, self.clock)

    def handle(
        self, counter: int, *, about: str = "{}", age: int = 0, left_at: int | None = None, shares: bool = True
    ) -> Members | None:
        now = self.clock.now()
        rows = (
            NodeRow(ME, "me", "me", "{}", NOW, 1, now),
            NodeRow(OTHER, "other", "other", about, NOW, counter, now - age * SECOND, left_at),
        )
        return self.roll.handle(HeartbeatReply(now, 1, NOW, rows, ()), shares=shares)

    def later(self, seconds: int) -> None:
        self.clock.at += seconds * SECOND


KNOWS_ALL = Members({OTHER: frozenset()})
NOBODY = Members({})


@pytest.mark.spec("N3", "shared")
def test_who_is_heard_of_is_counted_on_until_two_heartbeats_are_missing() -> None:
    scene = Scene()
    assert scene.handle(1) == KNOWS_ALL
    scene.later(5)
    assert scene.handle(2) is None, "nothing has changed"
    scene.later(9)
    assert scene.handle(2) is None, "it may be late"
    scene.later(1)
    assert scene.handle(2) == NOBODY
    assert scene.handle(3) == KNOWS_ALL, "it is back"


def test_who_has_left_is_not_counted_on() -> None:
    scene = Scene()
    scene.handle(1)
    assert scene.handle(1, left_at=NOW) == NOBODY


def test_one_that_was_silent_for_long_before_this_node_came_is_not_counted_on() -> None:
    scene = Scene()
    assert scene.handle(7, age=3_600) is None
    assert scene.handle(8) == KNOWS_ALL


@pytest.mark.spec("N3", "without the code")
def test_what_a_node_lacks_is_told_and_heard() -> None:
    scene = Scene()
    about = told_about(
        '{"host": "a"}', frozenset({JobNumber(5), JobNumber(3)}), ClockJumps(), StoreAbsences(), 5 * SECOND
    )
    assert about == '{"host":"a","heartbeat_interval":5000000,"lacks":[3,5]}'
    assert scene.handle(1, about=about) == Members({OTHER: frozenset({JobNumber(3), JobNumber(5)})})
    assert scene.handle(2) == KNOWS_ALL


def test_one_that_lacks_too_much_to_say_is_not_counted_on_and_counts_on_nobody() -> None:
    scene = Scene()
    scene.handle(1)
    too_many = frozenset(JobNumber(number) for number in range(LACKS_MAX + 1))
    assert scene.handle(2, about=told_about("{}", too_many, ClockJumps(), StoreAbsences(), 5 * SECOND)) == NOBODY
    assert scene.handle(3) == KNOWS_ALL
    assert scene.handle(4, shares=False) == NOBODY


@pytest.mark.parametrize("about", ["", "nonsense", '{"lacks": "all"}', "[]"])
def test_one_that_speaks_another_language_is_not_counted_on(about: str) -> None:
    assert Scene().handle(1, about=about) is None
