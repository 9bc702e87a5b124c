"""The clocks of a simulated world: only what a node believes can be wrong."""

from __future__ import annotations

from tests.simulation.world.clock import NodeClock, SimulatedStoreClock, microseconds

EPOCH = 1_774_699_200_000_000


class Loop:
    """A time that the test sets."""

    def __init__(self) -> None:
        self.at = 0.0

    def time(self) -> float:
        return self.at


def test_the_store_keeps_step_with_the_loop_to_the_microsecond() -> None:
    loop = Loop()
    clock = SimulatedStoreClock(loop.time, EPOCH)
    for micros in (0, 1, 999_999, 86_399_999_999, 86_400_000_001):
        loop.at = micros / 1_000_000
        assert clock() == EPOCH + micros
        assert microseconds(clock.loop_time_of(clock())) == micros


def test_a_node_may_be_ahead_behind_and_drift() -> None:
    loop = Loop()
    clock = NodeClock(SimulatedStoreClock(loop.time, EPOCH), loop.time, ahead=-500, drift=20)
    loop.at = 10.0
    assert clock.now() == EPOCH + 10_000_000 - 500 + 200


def test_a_jump_moves_the_machine_and_not_the_store() -> None:
    loop = Loop()
    store = SimulatedStoreClock(loop.time, EPOCH)
    clock = NodeClock(store, loop.time)
    loop.at = 5.0
    clock.jump(-3_600_000_000)
    assert clock.now() == store() - 3_600_000_000
    assert clock.elapsed() == 5_000_000 - 3_600_000_000
    assert store() == EPOCH + 5_000_000
    clock.jump(3_600_000_000)
    assert clock.now() == store()
