"""Which charts the report has, and what of the results goes into each. A chart that has nothing to show is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.charts import Bar, Group, Span, bars, spans
from bench.harness import Result, shown

__all__ = ["OURS", "STORES", "Picture", "herd_places", "pictures", "schedulers"]

OURS = "Itinerary"
STORES: Mapping[str, str] = {"sqlite": "SQLite", "postgres": "PostgreSQL", "lmdb": "LMDB", "memory": "memory"}
_HERD = re.compile(r"(?P<store>[a-z]+)_(?P<count>\d+)_(?P<measure>[a-z]\w*)")
_SIZED = re.compile(r"(?P<store>[a-z]+)_(?P<measure>cpu_s_per_1000|lifecycle_per_s)_(?P<size>\d+[km])")


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, and what stands for it where it is not seen."""

    name: str
    bench: str
    """Under which bench it is shown."""
    says: str
    svg: str


def pictures(results: Sequence[Result]) -> list[Picture]:
    """All that there is something for."""
    drawn = (_throughput(results), _lateness(results), _cost_by_jobs(results), _cost_by_history(results))
    return [picture for picture in (*drawn, _memory(results)) if picture is not None]


def herd_places(results: Iterable[Result], bench: str) -> list[tuple[str, int]]:
    """The stores and sizes that a bench of herds was run with, in the order of the results."""
    found = (_HERD.fullmatch(result.measure) for result in results if result.bench == bench)
    return list(dict.fromkeys((match["store"], int(match["count"])) for match in found if match))


def schedulers(
    results: Iterable[Result], bench: str, store: str, count: int
) -> dict[str, dict[str, tuple[float, str]]]:
    """Of one herd: each scheduler, ours first, with its measures: the value and its unit."""
    found: dict[str, dict[str, tuple[float, str]]] = {OURS: {}}
    for result in results:
        match = _HERD.fullmatch(result.measure) if result.bench == bench else None
        if match and (match["store"], int(match["count"])) == (store, count):
            found[OURS][match["measure"]] = (result.ours, result.unit)
            if result.peer is not None:
                theirs = float("nan") if result.theirs is None else result.theirs
                found.setdefault(result.peer, {})[match["measure"]] = (theirs, result.unit)
    return found


def _largest(results: Sequence[Result]) -> list[tuple[str, str, int]]:
    """The largest herd on each store, of both benches that have herds."""
    largest: dict[tuple[str, str], int] = {}
    for bench in ("herd", "oneshot"):
        for store, count in herd_places(results, bench):
            largest[bench, store] = max(count, largest.get((bench, store), 0))
    return [(bench, store, count) for (bench, store), count in largest.items()]


def _titled(bench: str, store: str, count: int) -> str:
    kind = "recurring" if bench == "herd" else "one-shot"
    return f"{count:,} {kind} on {STORES.get(store, store)}"


def _throughput(results: Sequence[Result]) -> Picture | None:
    groups = []
    for bench, store, count in _largest(results):
        found = schedulers(results, bench, store, count)
        rows = [
            Bar(name, of["per_s"][0], shown(*of["per_s"]), name == OURS) for name, of in found.items() if "per_s" in of
        ]
        if rows:
            groups.append(Group(_titled(bench, store, count), rows))
    title = "Occurrences a second, from due to durably finished"
    says = "Bars: how many occurrences a second each scheduler finishes of a herd that is due in one second"
    return _picture("throughput", "herd", says, title, groups, bars)


def _lateness(results: Sequence[Result]) -> Picture | None:
    groups = []
    for bench, store, count in _largest(results):
        rows = []
        for name, of in schedulers(results, bench, store, count).items():
            if {"p50_ms", "p99_ms", "max_ms"} <= of.keys():
                rows.append(Span(name, (of["p50_ms"][0], of["p99_ms"][0], of["max_ms"][0]), name == OURS))
        if rows:
            groups.append(Group(_titled(bench, store, count), rows))
    title = "Start lateness, on a logarithmic scale"
    says = "Points on a logarithmic scale: the time after its instant in which half, 99 in 100 and all of a herd began"
    return _picture("lateness", "herd", says, title, groups, spans)


def _cost_by_jobs(results: Sequence[Result]) -> Picture | None:
    groups = _sized(results, "cost", "cpu_s_per_1000", "registered jobs")
    says = "Bars: CPU for a thousand occurrences beside few and beside many registered jobs"
    return _picture("cost-jobs", "cost", says, "Seconds of CPU for 1,000 occurrences", groups, bars)


def _cost_by_history(results: Sequence[Result]) -> Picture | None:
    groups = _sized(results, "history", "lifecycle_per_s", "old occurrences")
    says = "Bars: occurrences a second beside a short and beside a long history"
    return _picture("cost-history", "history", says, "Occurrences a second, by length of history", groups, bars)


def _sized(results: Iterable[Result], bench: str, measure: str, of_what: str) -> list[Group]:
    stores: dict[str, list[Bar]] = {}
    for result in results:
        match = _SIZED.fullmatch(result.measure) if result.bench == bench else None
        if match and match["measure"] == measure:
            label = f"{_spelt(match['size'])} {of_what}"
            row = Bar(label, result.ours, shown(result.ours, result.unit))
            stores.setdefault(match["store"], []).append(row)
    return [Group(STORES.get(store, store), rows) for store, rows in stores.items()]


def _spelt(size: str) -> str:
    return f"{int(size[:-1]) * {'k': 1_000, 'm': 1_000_000}[size[-1]]:,}"


def _memory(results: Sequence[Result]) -> Picture | None:
    rows = []
    for result in results:
        if result.unit != "MB" or result.peer is not None:
            continue
        label = f"{result.bench}: {result.measure.removesuffix('_mb').replace('_', ' ')}"
        rows.append(Bar(label, result.ours, shown(result.ours, result.unit)))
    groups = [Group("One node, in a process of its own", rows)] if rows else []
    says = "Bars: resident memory of a node that is idle, makes up for a backlog, or is under a sustained load"
    return _picture("memory", "idle", says, "Memory of a node", groups, bars)


def _picture(
    name: str, bench: str, says: str, title: str, groups: Sequence[Group], draw: Callable[[str, Sequence[Group]], str]
) -> Picture | None:
    return Picture(name, bench, says, draw(title, groups)) if groups else None
