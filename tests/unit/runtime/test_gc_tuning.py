"""The collector of a node: it looks when nothing is due, and never at an embedding program's expense."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from itinerary.runtime.gc_tuning import collect_in_quiet, relax_collector


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def young(count: int) -> list[list[int]]:
    """So many objects that the collector has not looked at."""
    gc.collect()
    return [[number] for number in range(count)]


def test_in_quiet_what_is_new_is_looked_at_so_that_a_herd_finds_little_to_look_at() -> None:
    relax_collector()
    kept = young(20_000)
    assert gc.get_count()[0] >= len(kept)
    collect_in_quiet()
    assert gc.get_count()[0] < 1_000


def test_a_few_new_objects_are_not_worth_it() -> None:
    relax_collector()
    kept = young(1_000)
    collect_in_quiet()
    assert gc.get_count()[0] >= len(kept)


def test_the_collector_of_an_embedding_program_is_left_alone() -> None:
    gc.set_threshold(40_000, 10, 10)
    kept = young(20_000)
    collect_in_quiet()
    assert gc.get_count()[0] >= len(kept)
