"""The command line of the benches."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import (
    audit,
    backlog,
    claims,
    cost,
    cron,
    herd,
    history,
    idle,
    index,
    nodes,
    oneshot,
    records,
    simulate,
    startup,
    sustained,
    web,
)
from bench.harness import Result

BENCHES: dict[str, tuple[str, Callable[..., Iterator[Result]]]] = {
    "audit": ("a day of 500,000 occurrences, audited, and then with one of them deleted and one doubled", audit.run),
    "backlog": ("a node that starts with 100,000 occurrences to be made up for", backlog.run),
    "cron": ("10,000 cron expressions, compiled and enumerated", cron.run),
    "claims": ("occurrences claimed, started and finished, and raced for, on each store", claims.run),
    "cost": ("what an occurrence costs beside 1,000 and 100,000 registered jobs", cost.run),
    "herd": ("many occurrences due in the same second, from due to durably finished", herd.run),
    "history": ("a page of history and what is active, beside 1,000 and 5,000,000 rows", history.run),
    "idle": ("a node with 100,000 jobs of which none is due", idle.run),
    "index": ("the scheduled run index, built and asked", index.run),
    "nodes": ("one load on one node and on four, on one PostgreSQL", nodes.run),
    "oneshot": ("many one-shot occurrences due in the same second on PostgreSQL", oneshot.run),
    "records": ("records from the log to the queue, and a cycle beside 10,000 and 1,000,000 of them", records.run),
    "simulate": ("1,000 jobs over 30 days, foreseen, with an outage and two clock changes", simulate.run),
    "sustained": ("2,000 occurrences a second for five minutes", sustained.run),
    "web": ("each page beside 100,000 jobs and 5,000,000 occurrences, and fifty open dashboards", web.run),
    "startup": ("jobs registered, and a node that is ready to run them", startup.run),
}
HEADINGS = ("bench", "measure", "ours", "peer", "theirs", "ratio", "differing")
REPORT = Path(__file__).parent.parent / "docs/explanation/performance.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed, measured beside the peers in one run.")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="benches to run, `list` to list them, `report` for docs"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="smaller samples of the peers")
    options = parser.parse_args(arguments)
    match options.names:
        case ["list"]:
            for name, (what, _) in BENCHES.items():
                print(f"{name:12}{what}")
            return 0
        case ["report"]:
            results = list(_run(list(BENCHES), quick=options.quick))
            REPORT.write_text(_report(results), "utf-8")
            print(f"wrote {REPORT.name}")
            return 0
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}, and list and report")
    if options.json:
        for result in _run(options.names, quick=options.quick):
            print(result.to_json(), flush=True)
        return 0
    print(_table(HEADINGS))
    for result in _run(options.names, quick=options.quick):
        print(_table(result.to_row()), flush=True)
    return 0


def _run(names: Sequence[str], *, quick: bool) -> Iterator[Result]:
    for name in names:
        yield from BENCHES[name][1](quick=quick)


def _table(cells: Sequence[str]) -> str:
    return f"{cells[0]:8}{cells[1]:32}{cells[2]:>14}  {cells[3]:14}{cells[4]:>16}{cells[5]:>10}{cells[6]:>11}".rstrip()


def _report(results: Sequence[Result]) -> str:
    rows = "\n".join(f"| {' | '.join(result.to_row())} |" for result in results)
    return f"""# Performance

Written by `python -m bench report`, Python {platform.python_version()} on {platform.machine()}. Times are medians, and
peers ran in the same run. `ratio` is how many times better ours is; `differing`, in how many cases
a peer's answer was not ours.

| {" | ".join(HEADINGS)} |
|{"---|" * len(HEADINGS)}
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
