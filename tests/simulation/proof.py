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
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TextIO

import msgspec

from itinerary.runtime.rescuer import MISSES_MAX
from itinerary.schedules.durations import SECOND
from tests.simulation.__main__ import read_seeds
from tests.simulation.checker.violations import Rule, Violation
from tests.simulation.mutants import MUTANTS
from tests.simulation.world.call_faults import CallLane
from tests.simulation.world.node_factory import real_life
from tests.simulation.world.options import Options, ScheduledFault, TroubleKind, derive
from tests.simulation.world.records import draw_desk
from tests.simulation.world.rng import dice_for
from tests.simulation.world.world import run_seed

__all__ = ["CAUGHT_BY", "SEARCHED", "Caught", "main", "regaining", "search", "thawing"]

SEARCHED: Final = 40
"""How many seeds are tried from the known one on."""


class Known(NamedTuple):
    """A seed that caught a mutant, and the rules by which it counts as caught."""

    seed: int
    rules: frozenset[Rule]
    world: Callable[[int], Options] = derive
    """What such a seed stands for: another world, if what the mutant breaks hardly ever happens in the usual one."""


def _known(seed: int, *rules: Rule, world: Callable[[int], Options] = derive) -> Known:
    return Known(seed, frozenset(rules), world)


def thawing(seed: int) -> Options:
    """A world with two nodes. One freezes, again and again, until the other judges it to be dead; what the other then
    reads or writes hangs until the first has thawed, and a takeover may be committed only then."""
    usual, dice = derive(seed, nodes=2), dice_for(seed, "thawing")
    interval = usual.settings.node_heartbeat_interval / SECOND
    troubles = list(usual.troubles)
    for lane in (CallLane.TAKEOVERS, CallLane.TAKEOVERS, CallLane.READS, CallLane.TAKEOVERS) * 3:
        at = dice.random() * usual.runs_for / SECOND * 0.8
        frozen_for = interval * (MISSES_MAX + 1 + dice.random() * 2)
        troubles.append(ScheduledFault(at, TroubleKind.FREEZE, 0, frozen_for))
        troubles.append(ScheduledFault(at + interval, TroubleKind.HANG, 1, frozen_for, lane=lane))
    return msgspec.structs.replace(
        usual,
        troubles=tuple(sorted(troubles, key=lambda trouble: trouble.at)),
        weather=msgspec.structs.replace(usual.weather, deadline=interval),
    )


def regaining(seed: int) -> Options:
    """A world with one node and a desk, whose calls about records hang, again and again, for longer than its leases
    last. The node then has its partitions again, and what it sent before may arrive only now."""
    usual, dice = derive(seed, nodes=1), dice_for(seed, "regaining")
    interval, runs_for = usual.settings.node_heartbeat_interval / SECOND, usual.runs_for / SECOND
    desk = draw_desk(dice, interval, usual.begins_at, runs_for)
    lease_for = desk.settings.lease_for / SECOND
    hangs = []
    for _ in range(30):
        at, lasts = dice.random() * runs_for * 0.8, lease_for * (1.1 + dice.random())
        hangs.append(ScheduledFault(at, TroubleKind.HANG, 0, lasts, lane=CallLane.RECORDS))
    return msgspec.structs.replace(
        usual,
        desk=desk,
        troubles=tuple(sorted([*usual.troubles, *hangs], key=lambda trouble: trouble.at)),
        weather=msgspec.structs.replace(usual.weather, deadline=lease_for / 2),
    )


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
    "late_ones_skipped": _known(4, Rule.SKIPPED),
    "overdue_started": _known(33, Rule.OVERDUE),
    "claimed_left_alone": _known(0, Rule.ORDER),
    "dead_runs_trusted": _known(121, Rule.DEAD_RUN),
    "shares_kept": _known(0, Rule.INDEXES),
    "unjudged_zones": _known(14, Rule.EXPECTED, Rule.OWED),
    "own_zone_data": _known(3, Rule.EXPECTED, Rule.OWED),
    "older_zone_data": _known(3, Rule.ZONE_DATA),
    "no_gate": _known(30, Rule.EXPECTED, Rule.OWED),
    "same_fence": _known(0, Rule.FENCE),
    "no_plan": _known(93, Rule.OWED, Rule.ONE_ROW, Rule.WATERMARK),
    "wall_clock_death": _known(21, Rule.DEAD),
    "old_judgements": _known(103, Rule.DEAD, world=thawing),
    "append_by_holder": _known(4, Rule.STALE_APPEND, world=regaining),
    "lease_fence_kept": _known(4, Rule.LEASE, Rule.STALE_APPEND),
    "no_giving_way": _known(399, Rule.ONE_PLACE),
    "shutdown_cancels": _known(2, Rule.SHUTDOWN),
    "shutdown_reruns": _known(2, Rule.SHUTDOWN),
}


class Caught(NamedTuple):
    """How a mutant was caught."""

    seed: int
    violation: Violation


def search(name: str, seeds: Iterable[int]) -> Caught | None:
    """The first seed that catches a mutant by a rule of its own, and would be content without it."""
    for seed in seeds:
        with MUTANTS[name]():
            violations = _violations(name, seed)
        broken = [violation for violation in violations if violation.rule in CAUGHT_BY[name].rules]
        if broken:
            anyway = {violation.rule for violation in _violations(name, seed)}
            for violation in broken:
                if violation.rule not in anyway:
                    return Caught(seed, violation)
    return None


def _violations(name: str, seed: int) -> tuple[Violation, ...]:
    return run_seed(CAUGHT_BY[name].world(seed), real_life).violations


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
