"""The proof that the checker can fail: each mutant, on the real node, breaks the rule that its fault is about.

    python -m tests.simulation.proof                      every mutant from its known seed on, as `make test` does it
    python -m tests.simulation.proof --seeds 0..999       every mutant from the beginning
    python -m tests.simulation.proof no_fence late_ends   some of them

A seed counts when it breaks one of the rules of its mutant, and does not break that rule without the mutant. What a
seed stands for shifts with every change to the program, so nobody depends on one: `CAUGHT_BY` says where to begin to
look, and the search goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TextIO

from itinerary.simulate.__main__ import read_seeds
from itinerary.simulate.binding import real_life
from itinerary.simulate.options import derive
from itinerary.simulate.violations import Rule, Violation
from itinerary.simulate.world import run_seed
from tests.simulation.mutants import MUTANTS

__all__ = ["CAUGHT_BY", "SEARCHED", "Caught", "main", "search"]

SEARCHED: Final = 40
"""How many seeds are tried from the known one on."""


class Known(NamedTuple):
    """A seed that caught a mutant, and the rules by which it counts as caught."""

    seed: int
    rules: frozenset[Rule]


def _known(seed: int, *rules: Rule) -> Known:
    return Known(seed, frozenset(rules))


CAUGHT_BY: Final = {
    "no_unique_key": _known(0, Rule.ONE_ROW),
    "non_atomic_claim": _known(2, Rule.ONE_ROW),
    "no_fence": _known(2, Rule.STALE),
    "unread_rows": _known(5, Rule.STALE, Rule.FINAL, Rule.ONE_START),
    "unread_slots": _known(6, Rule.OVERLAP, Rule.BESIDE),
    "slots_outside": _known(56, Rule.OVERLAP, Rule.BESIDE),
    "slots_by_name": _known(18, Rule.OVERLAP, Rule.BESIDE),
    "no_update_ids": _known(2, Rule.STALE),
    "ungated_launches": _known(0, Rule.GATED),
    "late_ends": _known(0, Rule.PROMPT),
    "line_not_woken": _known(0, Rule.LINE),
    "early_watermark": _known(0, Rule.WATERMARK),
    "node_clock": _known(0, Rule.EARLY),
    "late_ones_skipped": _known(2, Rule.SKIPPED),
    "shares_kept": _known(0, Rule.INDEXES),
    "unjudged_zones": _known(14, Rule.EXPECTED, Rule.OWED),
    "own_zone_data": _known(2, Rule.EXPECTED, Rule.OWED),
    "older_zone_data": _known(3, Rule.ZONE_DATA),
    "no_gate": _known(30, Rule.EXPECTED, Rule.OWED),
    "same_fence": _known(0, Rule.FENCE),
    "no_plan": _known(93, Rule.OWED, Rule.ONE_ROW, Rule.WATERMARK),
    "wall_clock_death": _known(10, Rule.DEAD),
    "no_giving_way": _known(399, Rule.ONE_PLACE),
}


class Caught(NamedTuple):
    """How a mutant was caught."""

    seed: int
    violation: Violation


def search(name: str, seeds: Iterable[int]) -> Caught | None:
    """The first seed that catches a mutant by a rule of its own, and would be content without it."""
    for seed in seeds:
        with MUTANTS[name]():
            violations = _violations(seed)
        broken = [violation for violation in violations if violation.rule in CAUGHT_BY[name].rules]
        if broken:
            anyway = {violation.rule for violation in _violations(seed)}
            for violation in broken:
                if violation.rule not in anyway:
                    return Caught(seed, violation)
    return None


def _violations(seed: int) -> tuple[Violation, ...]:
    return run_seed(derive(seed), real_life).violations


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command. Returns its exit status: 1 if a mutant got away."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.proof", description="Is each mutant caught?")
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="some of them, instead of all")
    parser.add_argument("--seeds", help="0..999: these, instead of some from the known one on")
    given = parser.parse_args(arguments)
    escaped = 0
    for name in given.names or MUTANTS:
        first, begun = CAUGHT_BY[name].seed, time.monotonic()
        caught = search(name, range(first, first + SEARCHED) if given.seeds is None else read_seeds(given.seeds))
        escaped += caught is None
        told = "ESCAPES" if caught is None else f"seed {caught.seed}: {caught.violation}"
        out.write(f"{name:<18} {time.monotonic() - begun:6.1f} s  {told}\n")
        out.flush()
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main())
