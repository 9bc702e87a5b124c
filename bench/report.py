"""The page that `python -m bench report` writes: tables by bench, what each shows, charts, and the targets.

It is made from results alone, so that a long run can be done in pieces: each piece is appended to a file as JSON, and
the page is made from that. Of a measure that is there twice, the last one counts. Nothing is left out because it looks
bad: what was missed, doubled or unfinished is a column, and a target that is not met says so.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from bench.harness import Result, shown
from bench.herds import MEASURES
from bench.peers import versions
from bench.pictures import STORES, Picture, herd_places, pictures, schedulers
from bench.targets import GOALS, TARGETS, Target

__all__ = ["SHOWS", "BadResults", "page", "read_results", "write_report"]

DOCS = Path(__file__).parent.parent / "docs"
CRON_PEERS = ("croniter", "croniter-rs", "cronsim")
HERDS = ("herd", "oneshot")
SHOWS: Mapping[str, str] = {
    "attack": "How late runs start while the web server is attacked, as a multiple of the lateness without an attack, "
    "measured just before; and how many runs fail.",
    "audit": "How long an audit of a whole day takes, and whether it finds what was done to the store by hand.",
    "backlog": "A node after an outage: the time until it is ready, the rate at which it recovers missed runs, and "
    "whether current runs have to wait for that.",
    "claims": "The throughput of a store. An occurrence is three durable writes, which are made in batches. In a race "
    "every process claims the same occurrences, and each of them must have exactly one winner.",
    "cost": "Whether an occurrence costs more beside many registered jobs than beside few.",
    "cron": "Cron expressions read and enumerated, beside the libraries that do so one at a time.",
    "herd": "Every scheduler has this number of recurring jobs that do nothing, all due in the same second, and enough "
    "slots. The task itself measures its lateness. An occurrence is finished when its end is durable. The "
    "measurement ends 60 seconds after the instant: a run that has not started until then counts as missed, and "
    "the rate counts finished runs only. A number after the name of a peer is its number of jobs, if it could "
    "not register more of them in reasonable time.",
    "history": "Whether a page of history, the list of active runs, and an occurrence cost more beside a long history.",
    "idle": "The cost of a node that has nothing to do.",
    "index": "The index of due runs, beside a sorted list.",
    "nodes": "The cost of several nodes: the same load on one node and on four, with one database server on one "
    "machine. A race is lost if two nodes claim the same occurrence.",
    "oneshot": "The same for jobs that run once, on PostgreSQL, beside queues that can delay.",
    "records": "Business records from their log to the queue of a record scheduler, and whether the cost of a cycle "
    "grows with the log.",
    "simulate": "The time to forecast a month.",
    "startup": "How long it takes to register jobs, and until a node that finds them is ready.",
    "pause": "How long a node that was stopped for ten seconds at 2,000 runs a second needs to be on time again.",
    "sustained": "Whether a node keeps up with 2,000 occurrences a second for minutes, and whether its memory grows.",
    "web": "How long each page of the dashboard takes and weighs beside many jobs and occurrences, and what open "
    "dashboards cost the node.",
}
"""What each bench shows, in a sentence or two."""


class BadResults(Exception):
    """A file of results that cannot be read."""


def read_results(path: Path) -> list[Result]:
    """The results that `--json` printed into a file; BadResults names the file and the line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadResults(f"{path}: cannot be read ({error}); give a file that --json was printed into") from None
    results = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            result = Result.from_json(line)
        except ValueError as error:
            raise BadResults(f"{path}:{number}: {error}; each line must be one that --json printed") from None
        if result.bench not in SHOWS:
            raise BadResults(f"{path}:{number}: there is no bench {result.bench!r}; there are {', '.join(SHOWS)}")
        results.append(result)
    if not results:
        raise BadResults(f"{path}: has no results; append some with: python -m bench NAME … --json >> {path.name}")
    return results


def write_report(results: Sequence[Result], docs: Path = DOCS) -> list[Path]:
    """Write the page and its charts, and say which files that are. Charts of an earlier report go."""
    results = latest(results)
    drawn = pictures(results)
    for old in (docs / "assets").glob("performance-*.svg"):
        old.unlink()
    written = []
    for picture in drawn:
        written.append(docs / "assets" / f"performance-{picture.name}.svg")
        written[-1].write_text(picture.svg, "utf-8")
    written.append(docs / "explanation" / "performance.md")
    written[-1].write_text(page(results, drawn), "utf-8")
    return written


def latest(results: Iterable[Result]) -> list[Result]:
    """Of each measure the last, in the order in which they first came."""
    found = {(result.bench, result.measure, result.peer, result.unit): result for result in results}
    return list(found.values())


def page(results: Sequence[Result], drawn: Sequence[Picture]) -> str:
    """The page, in Markdown."""
    parts = [_opening()]
    for word, words, targets in (("target", _TARGETS_ARE, TARGETS), ("goal", _GOALS_ARE, GOALS)):
        if rows := list(_judged(targets, results)):
            parts.append(_section(f"{word.title()}s", words, [_table((word, "wanted", "measured", "met"), rows)]))
    for bench in SHOWS:
        own = [result for result in results if result.bench == bench]
        if own:
            charts = [_chart(picture) for picture in drawn if picture.bench == bench]
            tables = list(_herd_tables(own, bench)) if bench in HERDS else [_plain_table(own)]
            parts.append(_section(f"`{bench}`", SHOWS[bench], [*charts, *tables]))
    return "\n".join(parts)


_TARGETS_ARE = (
    "The targets of [the requirements](../requirements.md), and the measurements. The targets are for two cores "
    "of a machine that does nothing else."
)
_GOALS_ARE = (
    "Goals beyond the requirements, each with the closest requirement. [Profiles](profiles.md) explains why one "
    "of them is missed."
)


def _opening() -> str:
    peers = {**{name: version(name) for name in CRON_PEERS}, **versions()}
    named = ", ".join(_spelt(name, of) for name, of in peers.items())
    return f"""# Performance

Written by `python -m bench report`: Python {platform.python_version()} on {platform.machine()} with \
{os.cpu_count()} cores, SQLite {sqlite3.sqlite_version}. Peers ran in the same run, each as its documentation
advises: {named}. [The reference](../reference/benchmarks.md) says what is measured, and how. `ratio` is how many times
better ours is; `differing`, in how many cases a peer's answer was not ours.
"""


def _spelt(name: str, of: str) -> str:
    """A peer and its version; a title that ends in the first part of it says the rest of it: `APScheduler 3.11.1`."""
    words, _, last = name.rpartition(" ")
    return f"{words} {of}" if words and of.startswith(f"{last}.") else f"{name} {of}"


def _section(heading: str, words: str, blocks: Sequence[str]) -> str:
    return "\n\n".join([f"## {heading}", words, *blocks]) + "\n"


def _chart(picture: Picture) -> str:
    return f"![{_cell(picture.says)}](../assets/performance-{picture.name}.svg)"


def _plain_table(results: Sequence[Result]) -> str:
    headings = ("measure", "ours", "peer", "theirs", "ratio", "differing")
    rows = [result.to_row()[1:] for result in results]
    used = [column for column in range(len(headings)) if column < 2 or any(row[column] for row in rows)]
    return _table([headings[column] for column in used], [[row[column] for column in used] for row in rows])


def _herd_tables(results: Sequence[Result], bench: str) -> Iterator[str]:
    """For each store and size, a row for each scheduler."""
    measures = [name for name, *_ in MEASURES]
    for store, count in herd_places(results, bench):
        rows = [
            [scheduler, *(shown(*of[measure]) if measure in of else "" for measure in measures)]
            for scheduler, of in schedulers(results, bench, store, count).items()
        ]
        heading = f"{count:,} on {STORES.get(store, store)}"
        yield _table((heading, *(measure.replace("_", " ") for measure in measures)), rows)


def _judged(targets: Sequence[Target], results: Sequence[Result]) -> Iterator[Sequence[str]]:
    for target in targets:
        value = target.measured(results)
        if value is not None:
            wanted = f"{'at least' if target.more_is_better else 'at most'} {shown(target.limit, target.unit)}"
            met = "yes" if target.is_met(value) else "**no**"
            yield f"{target.requirement}: {target.what}", wanted, shown(value, target.unit), met


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}", *lines])


def _cell(words: str) -> str:
    """A text that says in a table what it says anywhere else."""
    for character, escaped in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("[", "\\["), ("\n", " "), ("\r", " ")):
        words = words.replace(character, escaped)
    return words
