"""`python -m itinerary.simulate --seeds 0..999`: live through many seeds, and say which of them failed, and why.

    --seeds 0..999 | 7 | @FILE    which: a range, one, or those in a file (what follows a # is why they are kept)
    --nodes N [N ...], --hours N  instead of what the seed has drawn; of several, each seed takes the next
    --processes N                 so many seeds at a time; 0: as many as there are cores
    --unchanging                  nobody pauses or updates a job, and zone data stays as it is
    --history                     print all that happened
    --mutant MODULE:NAME          with a fault put into the program; succeeds when it is caught
    --life MODULE:NAME            with another node than the real one

A failing seed is printed with its options and its first violations. In the end it says how often which of the rarer
faults has struck. Exit status 1 if one failed; of a mutant, if none
did.
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
from itinerary.simulate.seed_runner import Lived, Order, live

__all__ = ["main", "read_seeds"]


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command. Returns its exit status."""
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
    """Each seed, in order."""
    if processes == 1:
        yield from map(partial(live, order), seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count()) as pool:
        yield from pool.imap(partial(live, order), seeds)


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m itinerary.simulate", description="Simulated days, with faults.")
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
    parser.add_argument("--life", metavar="MODULE:NAME", default="itinerary.simulate.node_factory:real_life")
    parser.add_argument("--progress", type=int, default=50, metavar="N", help="say how it goes after each N seeds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
