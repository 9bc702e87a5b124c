"""The command line of the benches."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import (
    attack,
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
    pause,
    records,
    simulate,
    startup,
    sustained,
    web,
)
from bench.harness import Result
from bench.report import BadResults, read_results, write_report

BENCHES: dict[str, tuple[str, Callable[..., Iterator[Result]]]] = {
    "attack": ("start lateness while the web server is attacked, beside the usual, and runs that fail", attack.run),
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
    "pause": ("2,000 runs a second, and the node is stopped for ten seconds", pause.run),
    "records": ("records from the log to the queue, and a cycle beside 10,000 and 1,000,000 of them", records.run),
    "simulate": ("1,000 jobs over 30 days, foreseen, with an outage and two clock changes", simulate.run),
    "sustained": ("2,000 occurrences a second for five minutes", sustained.run),
    "web": ("each page beside 100,000 jobs and 5,000,000 occurrences, and fifty open dashboards", web.run),
    "startup": ("jobs registered, and a node that is ready to run them", startup.run),
}
HEADINGS = ("bench", "measure", "ours", "peer", "theirs", "ratio", "differing")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed, measured beside the peers in one run.")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="benches to run, `list` to list them, `report` for docs"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="smaller samples of the peers")
    parser.add_argument(
        "--from",
        dest="saved",
        type=Path,
        metavar="FILE",
        help="report: on results that --json printed, instead of a run",
    )
    options = parser.parse_args(arguments)
    if options.saved is not None and options.names != ["report"]:
        parser.error("--from is for report; a bench makes its results itself")
    match options.names:
        case ["list"]:
            for name, (what, _) in BENCHES.items():
                print(f"{name:12}{what}")
            return 0
        case ["report"]:
            return _report(options.saved, quick=options.quick)
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


def _report(saved: Path | None, *, quick: bool) -> int:
    """Write the page, from a file or from a run of everything."""
    try:
        results = list(_run(list(BENCHES), quick=quick)) if saved is None else read_results(saved)
    except BadResults as error:
        print(error, file=sys.stderr)
        return 1
    for path in write_report(results):
        print(f"wrote {path.name}")
    return 0


def _table(cells: Sequence[str]) -> str:
    return f"{cells[0]:8}{cells[1]:32}{cells[2]:>14}  {cells[3]:14}{cells[4]:>16}{cells[5]:>10}{cells[6]:>11}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
