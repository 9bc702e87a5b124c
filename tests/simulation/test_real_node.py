"""Days of the real node, with faults: nothing is lost, nothing doubled, and one seed is one history."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary.schedules.durations import SECOND
from tests.simulation.__main__ import read_seeds
from tests.simulation.proof import thawing
from tests.simulation.world.node_factory import real_life
from tests.simulation.world.options import derive
from tests.simulation.world.world import run_seed

DAY = 86_400 * SECOND
SEEDS, BLOCK = 100, 5
"""How many are lived through with every change, in blocks of a few seconds each; `make simulate` does more."""
KEPT = tuple(read_seeds(f"@{Path(__file__).with_name('seeds.txt')}"))
"""Seeds that failed once."""

KEPT_WITH_NODES = (
    (412, 4),  # work that another node had rescued and a third had taken over was taken from that one
    (786, 3),  # ran for fifteen hours, as it should, and the world did not wait for it (the simulation's error)
    (100_013, 4),  # frozen between a start's commit and its answer, and began when it thawed (the checker's error)
    (100_350, 1),  # completed, with a task that its execution timeout had cancelled before its node died
    (700_881, 2),  # all nodes shut down as the world healed, and stayed down for a day (the simulation's error)
)
"""The same, with as many nodes as they failed with."""


def complaints(seed: int, nodes: int | None = None) -> list[str]:
    """What the checker minds about a day."""
    outcome = run_seed(derive(seed, nodes=nodes, runs_for=DAY), real_life)
    return [f"seed {seed}: {violation}" for violation in outcome.violations]


@pytest.mark.spec("U6", "simulation")
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_days_of_the_real_node_leave_nothing_that_the_checker_minds(first: int) -> None:
    found = [line for seed in range(first, first + BLOCK) for line in complaints(seed)]
    assert found == [], "\n".join(found)


@pytest.mark.spec("U6", "simulation")
@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    found = complaints(seed)
    assert found == [], "\n".join(found)


@pytest.mark.spec("U6", "simulation")
@pytest.mark.parametrize(("seed", "nodes"), KEPT_WITH_NODES)
def test_a_seed_that_failed_with_so_many_nodes_does_not_fail_again(seed: int, nodes: int) -> None:
    found = complaints(seed, nodes)
    assert found == [], "\n".join(found)


@pytest.mark.spec("N2", "an old judgement")
def test_a_node_that_thaws_in_the_middle_of_its_rescue_keeps_its_work() -> None:
    outcomes = [run_seed(thawing(seed), real_life) for seed in (46, 117, 135)]
    assert [violation for outcome in outcomes for violation in outcome.violations] == []
    assert sum(outcome.happened.get("rescue called off", 0) for outcome in outcomes) > 0


@pytest.mark.spec("U6", "simulation")
def test_one_seed_of_the_real_node_is_one_history_to_the_byte() -> None:
    first, second = (run_seed(derive(7, runs_for=DAY), real_life) for _ in range(2))
    assert first.history == second.history
    assert len(first.history) > 500
