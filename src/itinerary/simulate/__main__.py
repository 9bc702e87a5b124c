"""`python -m itinerary.simulate --seeds 0..999`: live through many seeds, and say which of them failed, and why.

    --seeds 0..999 | 7 | @FILE    which: a range, one, or those in a file (what follows a # is why they are kept)
    --nodes N, --hours N          instead of what the seed has drawn
    --history                     print all that happened
    --mutant MODULE:NAME          with a fault put into the program; succeeds when it is caught
    --life MODULE:NAME            with another node than the real one

A failing seed is printed with its options and its first violations. Exit status 1 if one failed; of a mutant, if none
did.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from itinerary.errors import ConfigError
from itinerary.schedules.durations import SECOND
from itinerary.simulate.machines import NewLife
from itinerary.simulate.options import DAY, Options, derive
from itinerary.simulate.world import Outcome, run_seed

__all__ = ["main", "read_seeds"]

_SHOWN = 5
"""Violations that are printed of a failing seed."""


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command. Returns its exit status."""
    given = _parser().parse_args(arguments)
    new_life: NewLife = _named(given.life)
    mutant: Callable[[], AbstractContextManager[None]] = nullcontext if given.mutant is None else _named(given.mutant)
    begun, failed, lived = time.monotonic(), 0, 0
    for seed in read_seeds(given.seeds):
        options = derive(seed, nodes=given.nodes, runs_for=DAY if given.hours is None else given.hours * 3600 * SECOND)
        with mutant():
            outcome = run_seed(options, new_life)
        lived += 1
        if given.history:
            out.write("\n".join(outcome.history) + "\n")
        if not outcome.is_fine:
            failed += 1
            _complain(options, outcome, out)
            if given.mutant is not None:
                break
        elif lived % given.progress == 0:
            out.write(f"{lived} seeds in {time.monotonic() - begun:.0f} s, {failed} failed\n")
            out.flush()
    out.write(f"{lived} seeds in {time.monotonic() - begun:.1f} s: {failed} failed\n")
    return int(failed == 0) if given.mutant is not None else int(failed > 0)


def _complain(options: Options, outcome: Outcome, out: TextIO) -> None:
    out.write(f"{options}\nseed {outcome.seed} failed: {outcome.count} violations\n")
    out.writelines(f"  {violation}\n" for violation in outcome.violations[:_SHOWN])
    out.flush()


def read_seeds(text: str) -> Iterator[int]:
    """The seeds that somebody asked for."""
    if text.startswith("@"):
        for line in Path(text[1:]).read_text().splitlines():
            if number := line.partition("#")[0].strip():
                yield int(number)
        return
    first, dots, last = text.partition("..")
    try:
        yield from range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise ConfigError(f"seeds {text!r}: write one (7), a range (0..999), or a file (@seeds.txt)") from None


def _named(name: str) -> Any:
    """Something by its name, `package.module:thing`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m itinerary.simulate", description="Simulated days, with faults.")
    parser.add_argument("--seeds", default="0..99", help="0..999, 7, or @FILE")
    parser.add_argument("--nodes", type=int, help="how many nodes, instead of what the seed has drawn")
    parser.add_argument("--hours", type=int, help="how long, instead of a day")
    parser.add_argument("--history", action="store_true", help="print all that happened")
    parser.add_argument("--mutant", metavar="MODULE:NAME", help="put a fault into the program, and see it caught")
    parser.add_argument("--life", metavar="MODULE:NAME", default="itinerary.simulate.binding:real_life")
    parser.add_argument("--progress", type=int, default=50, metavar="N", help="say how it goes after each N seeds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
