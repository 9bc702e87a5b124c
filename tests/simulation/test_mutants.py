"""The checker is proved able to fail: each fault that is put into the store is caught, by the rule that it breaks.

With the real node. The whole search is `make mutants` (see `proof`); here it begins at seeds that are known to catch.
"""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.proof import CAUGHT_BY, SEARCHED, search

pytestmark = pytest.mark.spec("U6", "mutants")


def test_it_is_known_of_every_fault_which_rule_it_breaks() -> None:
    assert CAUGHT_BY.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_fault_in_the_store_is_caught_by_the_rule_that_it_breaks(name: str) -> None:
    first, rules, _ = CAUGHT_BY[name]
    caught = search(name, range(first, first + SEARCHED))
    assert caught is not None, f"{SEARCHED} seeds from {first} on break none of {sorted(rules)} with {name}"
