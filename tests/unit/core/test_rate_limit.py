"""The pace at which a backlog is released (R3)."""

from __future__ import annotations

import pytest

from itinerary.core.recovery.rate_limit import RecoveryRate, kept_free
from itinerary.schedules.durations import SECOND


def begun(pace: RecoveryRate, start: int, seconds: int, looks: int = 100) -> int:
    """How many are begun in so many seconds, by one who looks so many times a second and takes all."""
    total = 0
    for look in range(seconds * looks):
        ready = pace.ready(start + look * SECOND // looks)
        pace.use(ready)
        total += ready
    return total


@pytest.mark.spec("R3", "a set pace")
@pytest.mark.parametrize("per_second", [1, 3, 10, 100, 1_234])
def test_so_many_are_begun_in_a_second_however_often_one_looks(per_second: int) -> None:
    for looks in (1, 7, 100):
        count = begun(RecoveryRate(per_second), 5 * SECOND, 100, looks)
        assert 98 * per_second <= count <= 101 * per_second, looks


@pytest.mark.spec("R3", "a set pace")
def test_what_was_not_used_is_kept_for_a_second_and_no_longer() -> None:
    pace = RecoveryRate(50)
    assert pace.ready(0) == 5, "a tenth of a second's worth"
    assert pace.ready(3_600 * SECOND) == 50


@pytest.mark.spec("N6", "what runs")
def test_a_clock_that_is_set_back_does_not_hold_it_up() -> None:
    pace = RecoveryRate(50)
    pace.use(pace.ready(3_600 * SECOND))
    assert pace.ready(10 * SECOND) == 5
    assert pace.next_at == 10 * SECOND + SECOND // 10


@pytest.mark.spec("R3", "slots")
def test_a_fifth_of_the_slots_is_left_to_others() -> None:
    assert [kept_free(slots) for slots in (1, 4, 5, 50)] == [0, 0, 1, 10]
