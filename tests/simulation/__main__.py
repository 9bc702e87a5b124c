"""`python -m tests.simulation --seeds 0..999`: simulate many seeds, and report each failed seed with the reason.

    --seeds 0..999 | 7 | @FILE    a range, one seed, or the seeds in a file (text after # is a comment)
    --nodes N [N ...], --hours N  override the values of the seed; with several N, the seeds use them in turn
    --processes N                 the number of seeds in parallel; 0: one per core
    --unchanging                  no operator pauses or updates a job, and zone data stays the same
    --history                     print the whole history
    --mutant MODULE:NAME          inject a bug into the program; succeed if a seed fails
    --life MODULE:NAME            simulate another node than the real one

For a failed seed, the command prints the options and the first violations. At the end, it prints how often each of the
rarer faults occurred. The exit status is 1 if a seed failed; with a mutant, 1 if no seed failed.

    world          the simulated nodes, their store, and the faults        mutants       bugs to inject into the program
    checker        the rules, which the checker applies to each day        proof         each mutant breaks its rule
    seed_runner    one seed, in this process or in another one             plain_node    a small node, to test the world
    parts          tests of single parts of the world and of the checker   seeds.txt     seeds that failed once
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TextIO

from itinerary.errors import ConfigError
from tests.simulation.seed_runner import Lived, Order, live

__all__ = ["main", "read_seeds"]


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Run the command and return its exit status."""
    given = _parser().parse_args(arguments)
    begun, failed, lived = time.monotonic(), 0, 0
    happened: Counter[str] = Counter()
    order = Order(given.life, given.mutant, given.nodes, given.hours, given.history, not given.unchanging)
    with closing(_lives(order, read_seeds(given.seeds), given.processes)) as lives:
        for text, is_fine, struck in lives:
            lived += 1
            happened.update(struck)
            failed += not is_fine
            out.write(text)
            if lived % given.progress == 0:
                out.write(f"{lived} seeds in {time.monotonic() - begun:.0f} s, {failed} failed\n")
            out.flush()
            if failed and given.mutant is not None:
                break
    if happened:
        out.write(f"what happened: {', '.join(f'{what} {count}' for what, count in sorted(happened.items()))}\n")
    out.write(f"{lived} seeds in {time.monotonic() - begun:.1f} s: {failed} failed\n")
    return int(failed == 0) if given.mutant is not None else int(failed > 0)


def _lives(order: Order, seeds: Iterable[int], processes: int) -> Generator[Lived]:
    """Yield the result of each seed, in order."""
    if processes == 1:
        yield from map(partial(live, order), seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count()) as pool:
        yield from pool.imap(partial(live, order), seeds)


def read_seeds(text: str) -> Iterator[int]:
    """Yield the seeds that `--seeds` names.

    Raises:
        ConfigError: The text is neither a number nor a range, and does not name a file with `@`.
    """
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulated days, with faults.")
    parser.add_argument("--seeds", default="0..99", help="0..999, 7, or @FILE")
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        metavar="N",
        help="how many nodes, instead of what the seed has drawn; of several, each seed takes the next",
    )
    parser.add_argument("--hours", type=int, help="how long, instead of a day")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="at a time; 0: as many as there are cores"
    )
    parser.add_argument("--unchanging", action="store_true", help="nobody pauses or updates a job, and zone data stays")
    parser.add_argument("--history", action="store_true", help="print all that happened")
    parser.add_argument("--mutant", metavar="MODULE:NAME", help="put a fault into the program, and see it caught")
    parser.add_argument("--life", metavar="MODULE:NAME", default="tests.simulation.world.node_factory:real_life")
    parser.add_argument("--progress", type=int, default=50, metavar="N", help="say how it goes after each N seeds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
