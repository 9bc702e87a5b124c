"""Who goes first: the same answer everywhere, even shares, and as little moved as can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from itinerary.core.recovery.membership import Members, Numbers, is_mine
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.schedules.durations import SECOND

EPOCH = 1_774_699_200 * SECOND
NODES = [NodeNumber(number) for number in (3, 17, 18, 19, 4_000_001)]


def occurrences(jobs: int, instants: int) -> tuple[Numbers, Numbers]:
    numbers = np.repeat(np.arange(1, jobs + 1), instants)
    return numbers, np.tile(EPOCH + np.arange(instants) * SECOND, jobs)


def shares(nodes: list[NodeNumber], jobs: Numbers, instants: Numbers) -> NDArray[np.bool_]:
    """A row for each node: what it takes for its own."""
    return np.array(
        [
            is_mine(Members({other: frozenset() for other in nodes if other != node}), node, jobs, instants)
            for node in nodes
        ]
    )


@pytest.mark.spec("N3", "shared")
@given(st.sets(st.integers(1, 2**62), min_size=1, max_size=8), st.integers(1, 50), st.integers(1, 50))
def test_each_occurrence_is_exactly_one_nodes(numbers: set[int], jobs: int, instants: int) -> None:
    nodes = [NodeNumber(number) for number in sorted(numbers)]
    assert (shares(nodes, *occurrences(jobs, instants)).sum(axis=0) == 1).all()


@pytest.mark.spec("N3", "shared")
@pytest.mark.parametrize(("jobs", "instants"), [(10_000, 1), (1, 10_000), (100, 100)])
def test_the_load_is_shared_evenly_whether_jobs_are_many_or_one(jobs: int, instants: int) -> None:
    counts = shares(NODES, *occurrences(jobs, instants)).sum(axis=1)
    assert counts.sum() == 10_000
    assert 1_800 <= counts.min() <= counts.max() <= 2_200


@pytest.mark.spec("N3", "shared")
@pytest.mark.parametrize("gone", NODES)
def test_when_a_node_goes_its_share_is_spread_and_nothing_else_moves(gone: NodeNumber) -> None:
    due = occurrences(100, 100)
    before, left = shares(NODES, *due), [node for node in NODES if node != gone]
    after = dict(zip(left, shares(left, *due), strict=True))
    of_the_gone = before[NODES.index(gone)]
    for node in left:
        kept = before[NODES.index(node)]
        assert (after[node] & ~of_the_gone == kept).all()
        assert 400 <= (after[node] & of_the_gone).sum() <= 600


@pytest.mark.spec("N3", "without the code")
def test_who_lacks_the_code_of_a_job_does_not_keep_others_from_it() -> None:
    me, other = NODES[:2]
    jobs, instants = occurrences(10, 100)
    mine = is_mine(Members({other: frozenset({JobNumber(1), JobNumber(7)})}), me, jobs, instants)
    assert mine[(jobs == 1) | (jobs == 7)].all()
    assert 300 <= mine[(jobs != 1) & (jobs != 7)].sum() <= 500
