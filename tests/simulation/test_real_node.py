"""Days of the real node, with faults: nothing is lost, nothing doubled, and one seed is one history."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary.schedules.durations import SECOND
from itinerary.simulate.__main__ import read_seeds
from itinerary.simulate.binding import real_life
from itinerary.simulate.options import derive
from itinerary.simulate.world import run_seed

DAY = 86_400 * SECOND
KEPT = tuple(read_seeds(f"@{Path(__file__).with_name('seeds.txt')}"))
"""Seeds that failed once."""


@pytest.mark.spec("U6", "simulation")
@pytest.mark.parametrize("seed", [*range(12), *KEPT])
def test_a_day_of_the_real_node_leaves_nothing_that_the_checker_minds(seed: int) -> None:
    outcome = run_seed(derive(seed, runs_for=DAY), real_life)
    assert outcome.is_fine, "\n".join(map(str, outcome.violations))


@pytest.mark.spec("U6", "simulation")
def test_one_seed_of_the_real_node_is_one_history_to_the_byte() -> None:
    first, second = (run_seed(derive(7, runs_for=DAY), real_life) for _ in range(2))
    assert first.history == second.history
    assert len(first.history) > 500
