"""Lost races are read off a node's log."""

from __future__ import annotations

from bench.nodes import _races


def test_every_race_that_a_node_says_it_lost_is_taken_down() -> None:
    lost: list[int] = []
    log = _races(lost)
    log.debug("occurrences.lost_to_others", count=3)
    log.bind(node="n1").debug("occurrences.lost_to_others", count=4)
    log.info("nodes.sharing", others=[])
    assert lost == [3, 4]
