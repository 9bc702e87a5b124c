"""The contract tests of records can fail: each fault in the leases is caught, by more than one test, on every store.

Each mutant of `tests.simulation.mutants` is put into the ledger, and the contract tests that are about its rule must
complain. Without the mutant the same tests pass: `test_records` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from itinerary.stores.engine import Engine
from tests.contracts.stores import test_records as records
from tests.simulation.mutants import LEASE_MUTANTS

pytestmark = pytest.mark.spec("U6", "mutants")

Check = Callable[[Engine], None]

_CAUGHT_BY: Final[dict[str, tuple[Check, ...]]] = {
    "append_by_holder": (
        records.test_an_append_under_an_earlier_lease_of_the_same_node_is_refused,
        records.test_an_append_is_refused_though_its_node_has_the_partition_again_after_another_node,
        records.test_an_append_under_a_fence_that_was_never_given_is_refused,
    ),
    "lease_fence_kept": (
        records.test_a_lease_is_one_nodes_until_it_runs_out_or_is_given_back,
        records.test_an_append_under_an_earlier_lease_of_the_same_node_is_refused,
        records.test_an_append_is_refused_though_its_node_has_the_partition_again_after_another_node,
        records.test_each_takeover_of_an_expired_lease_raises_its_fence,
        records.test_a_lease_that_was_given_back_has_a_higher_fence_for_its_next_holder,
        records.test_partitions_that_are_taken_together_each_raise_their_own_fence,
    ),
}
_PAIRS: Final = [(name, check) for name, checks in _CAUGHT_BY.items() for check in checks]


def test_every_fault_of_a_lease_is_caught_by_more_than_one_test() -> None:
    assert _CAUGHT_BY.keys() == LEASE_MUTANTS.keys()
    assert all(len(checks) > 1 for checks in _CAUGHT_BY.values())


@pytest.mark.parametrize(("name", "check"), _PAIRS, ids=[f"{name}-{check.__name__}" for name, check in _PAIRS])
def test_a_fault_of_a_lease_is_caught_on_every_store(name: str, check: Check, engine: Engine) -> None:
    with LEASE_MUTANTS[name](), pytest.raises(AssertionError):
        check(engine)
