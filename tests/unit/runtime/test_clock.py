"""What time it is at the store: a lower bound, doubted when it steps, and believed again when three agree."""

from __future__ import annotations

import pytest

from itinerary.runtime.clock import StoreClock, boot_time
from itinerary.schedules.durations import SECOND

MINUTE = 60 * SECOND


class Machine:
    """A node's own clock, which the test moves."""

    def __init__(self) -> None:
        self.time = 5 * SECOND

    def __call__(self) -> int:
        return self.time


def known(store_now: int = 1_000 * SECOND) -> tuple[Machine, StoreClock]:
    """A clock that has been set."""
    machine = Machine()
    clock = StoreClock(machine)
    clock.observe(store_now)
    return machine, clock


@pytest.mark.spec("N6", "a lower bound")
def test_the_best_of_the_last_answers_is_believed_and_never_more_than_they_say() -> None:
    machine, clock = known()
    clock.observe(1_000 * SECOND + 300)
    assert clock.now() == 1_000 * SECOND + 300
    clock.observe(1_000 * SECOND + 100)
    assert clock.now() == 1_000 * SECOND + 300, "that answer took longer"
    machine.time += SECOND
    assert clock.now() == 1_001 * SECOND + 300
    for _ in range(12):
        clock.observe(1_001 * SECOND)
    assert clock.now() == 1_001 * SECOND, "by now all of them are older than this"


@pytest.mark.spec("N6", "doubt")
@pytest.mark.parametrize("by", [MINUTE, -MINUTE])
def test_a_step_is_doubted_until_three_measurements_agree(by: int) -> None:
    _, clock = known()
    assert clock.observe(1_000 * SECOND + by) == 0
    assert clock.is_in_doubt
    assert clock.now() == 1_000 * SECOND
    assert clock.observe(1_000 * SECOND + by + 5) == 0
    assert clock.is_in_doubt
    assert clock.observe(1_000 * SECOND + by + 3) == by + 5
    assert not clock.is_in_doubt
    assert clock.now() == 1_000 * SECOND + by + 5


@pytest.mark.spec("N6", "doubt")
def test_one_that_agrees_with_what_is_known_dispels_the_doubt() -> None:
    _, clock = known()
    clock.observe(2_000 * SECOND)
    clock.observe(2_000 * SECOND)
    assert clock.observe(1_000 * SECOND + 1) == 0
    assert not clock.is_in_doubt
    clock.observe(2_000 * SECOND)
    clock.observe(2_000 * SECOND)
    assert clock.is_in_doubt, "three in a row"


@pytest.mark.spec("N6", "doubt")
def test_three_that_disagree_with_each_other_decide_nothing() -> None:
    _, clock = known()
    for store_now in (2_000, 3_000, 4_000, 5_000):
        assert clock.observe(store_now * SECOND) == 0
    assert clock.is_in_doubt
    assert clock.now() == 1_000 * SECOND


@pytest.mark.spec("N6", "slow answers")
def test_answers_that_are_held_up_for_long_are_neither_doubted_nor_believed() -> None:
    machine, clock = known()
    for _ in range(20):
        asked_at = machine.time
        machine.time += 30 * SECOND
        assert clock.observe(clock.now() - 30 * SECOND, asked_at) == 0
        assert not clock.is_in_doubt
    assert clock.now() == 1_600 * SECOND


@pytest.mark.spec("N6", "slow answers")
def test_an_answer_that_cannot_be_explained_by_its_delay_is_doubted() -> None:
    machine, clock = known()
    asked_at = machine.time
    machine.time += 10 * SECOND
    clock.observe(clock.now() - 13 * SECOND, asked_at)
    assert clock.is_in_doubt


@pytest.mark.spec("N6", "a lower bound")
def test_a_small_step_forward_is_followed_at_once() -> None:
    machine, clock = known()
    asked_at = machine.time
    machine.time += 20 * SECOND
    clock.observe(clock.now() + SECOND, asked_at)
    assert clock.now() == 1_021 * SECOND
    assert not clock.is_in_doubt


def test_the_machines_clock_goes_forward() -> None:
    before = boot_time()
    assert boot_time() >= before > 0


@pytest.mark.spec("N6", "the node's own clock")
def test_a_machine_whose_clock_goes_back_stands_still_for_a_moment_and_goes_on() -> None:
    machine, clock = known()
    machine.time += MINUTE
    assert clock.now() == 1_060 * SECOND
    machine.time -= 10 * MINUTE
    assert clock.now() == 1_060 * SECOND
    machine.time += MINUTE
    assert (clock.now(), clock.elapsed()) == (1_120 * SECOND, 125 * SECOND)
    clock.observe(1_120 * SECOND)
    assert not clock.is_in_doubt
    assert [clock.went_back_by(), clock.went_back_by()] == [10 * MINUTE, 0], "it is told once"
