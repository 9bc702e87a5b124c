"""The checker is proved able to fail: each fault that is put into the store is caught, and soon.

With the plain node, so that this says something about the checker and nothing about the node. Faults that need what the
plain node does not do are caught with the real one.
"""

from __future__ import annotations

import pytest

from itinerary.simulate.options import derive
from itinerary.simulate.violations import Rule
from itinerary.simulate.world import run_seed
from tests.simulation.mutants import MUTANTS
from tests.simulation.plain_node import plain_life

pytestmark = pytest.mark.spec("U6", "mutants")

SEEDS_MAX = 12
CAUGHT_BY = {
    "no_unique_key": Rule.ONE_ROW,
    "non_atomic_claim": Rule.ONE_ROW,
    "no_fence": Rule.GATED,
    "slots_outside": Rule.OVERLAP,
    "no_update_ids": Rule.STALE,
    "ungated_launches": Rule.GATED,
    "late_ends": Rule.PROMPT,
    "line_not_woken": Rule.INDEXES,
    "node_clock": Rule.WATERMARK,
    "shares_kept": Rule.SETTLED,
}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_fault_in_the_store_is_caught_within_a_few_seeds(name: str) -> None:
    seen: set[Rule] = set()
    for seed in range(SEEDS_MAX):
        with MUTANTS[name]():
            outcome = run_seed(derive(seed, nodes=2), plain_life)
        seen |= {violation.rule for violation in outcome.violations}
        if CAUGHT_BY[name] in seen:
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not catch {name} by {CAUGHT_BY[name]!r}; they caught {seen or 'nothing'}")
