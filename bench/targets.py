"""What is asked for, each with the measure that says whether it is met.

The targets are those of the requirements (P1 to P6), number by number; the goals go beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness import Result
from bench.pictures import STORES

__all__ = ["GOALS", "TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for of one measure; or, with `against`, of what it is times another; or of the ratio to peers."""

    requirement: str
    what: str
    bench: str
    measure: str
    limit: float
    unit: str
    more_is_better: bool = False
    against: str | None = None
    beside: str | None = None
    """The ratio to this peer, however many jobs it was given; `best` is the one that comes nearest."""

    def measured(self, results: Sequence[Result]) -> float | None:
        """What the results say, or None if they say nothing."""
        if self.beside is not None:
            ratios = [result.ratio for result in self._of(results) if self._is_beside(result.peer)]
            return min((ratio for ratio in ratios if ratio is not None), default=None)
        value = self._value(results, self.measure)
        if value is None or self.against is None:
            return value
        other = self._value(results, self.against)
        return value / other if other else None

    def is_met(self, value: float) -> bool:
        """Whether this is enough; what is no number is not."""
        return value >= self.limit if self.more_is_better else value <= self.limit

    def _is_beside(self, peer: str | None) -> bool:
        return peer is not None and (self.beside in ("best", peer) or peer.startswith(f"{self.beside} ("))

    def _of(self, results: Sequence[Result]) -> list[Result]:
        return [result for result in results if (result.bench, result.measure) == (self.bench, self.measure)]

    def _value(self, results: Sequence[Result], measure: str) -> float | None:
        found = (result.ours for result in results if (result.bench, result.measure) == (self.bench, measure))
        return next(found, None)


_BOTH = ("sqlite", "postgres")


def _both(
    requirement: str, what: str, bench: str, measure: str, limit: float, unit: str, beside: str | None = None
) -> tuple[Target, ...]:
    more_is_better = unit in ("/s", "×")
    return tuple(
        Target(
            requirement,
            f"{what} on {STORES[store]}",
            bench,
            measure.format(store),
            limit,
            unit,
            more_is_better,
            beside=beside,
        )
        for store in _BOTH
    )


TARGETS = (
    Target("P1", "10,000 cron expressions compiled", "cron", "compile_ms", 300, "ms"),
    Target("P1", "their instants in an hour", "cron", "1h_ms", 3, "ms"),
    Target("P1", "as fast as croniter", "cron", "1h_ms", 100, "×", more_is_better=True, beside="croniter"),
    Target("P1", "their instants in a day", "cron", "24h_ms", 60, "ms"),
    Target("P2", "index of 1,000,000 runs built", "index", "build_1m_ms", 50, "ms"),
    Target("P2", "index of 100,000 runs built", "index", "build_100k_ms", 5, "ms"),
    Target("P2", "index of 10,000 runs built", "index", "build_10k_ms", 0.6, "ms"),
    Target("P2", "1,000,000 runs from plain pairs, in CPU time", "index", "build_1m_from_pairs_cpu_ms", 150, "ms"),
    Target("P2", "100,000 runs from plain pairs, in CPU time", "index", "build_100k_from_pairs_cpu_ms", 30, "ms"),
    Target("P2", "10,000 runs from plain pairs, in CPU time", "index", "build_10k_from_pairs_cpu_ms", 5, "ms"),
    Target("P2", "a query of 100 runs", "index", "query_100_us", 20, "µs"),
    Target("P2", "peek", "index", "peek_us", 1, "µs"),
    Target("P2", "memory of a run", "index", "bytes_per_run", 16, "bytes"),
    Target("P2", "p99 of a query while rebuilding", "index", "query_p99_ms_while_rebuilding", 1, "ms"),
    *_both("P3", "throughput", "herd", "{}_10000_per_s", 8_000, "/s"),
    *_both("P3", "best recurring peer", "herd", "{}_10000_per_s", 10, "×", "best"),
    *_both("P4", "p99 start lateness of 10,000", "herd", "{}_10000_p99_ms", 250, "ms"),
    Target("P4", "p99 start lateness of 100 on SQLite", "herd", "sqlite_100_p99_ms", 10, "ms"),
    Target("P4", "p99 start lateness of 100 on PostgreSQL", "herd", "postgres_100_p99_ms", 25, "ms"),
    Target("P5", "100,000 jobs registered", "startup", "register_100k_s", 5, "s"),
    Target("P5", "ready with 100,000 jobs", "startup", "ready_100k_s", 3, "s"),
    Target("P5", "idle CPU with 100,000 jobs", "idle", "cpu_percent_100k", 2, "%"),
    Target("P5", "idle memory with 100,000 jobs", "idle", "rss_mb_100k", 300, "MB"),
    *(
        Target(
            "P6",
            f"CPU of an occurrence beside 100,000 jobs, as a multiple of that beside 1,000, on {STORES[store]}",
            "cost",
            f"{store}_cpu_s_per_1000_100k",
            1.2,
            "×",
            against=f"{store}_cpu_s_per_1000_1k",
        )
        for store in _BOTH
    ),
    *(
        Target(
            "P6",
            f"throughput beside a history of 5,000,000, as a multiple of that beside 1,000, on {STORES[store]}",
            "history",
            f"{store}_lifecycle_per_s_5m",
            1 / 1.2,
            "×",
            more_is_better=True,
            against=f"{store}_lifecycle_per_s_1k",
        )
        for store in (*_BOTH, "lmdb")
    ),
)
"""In the order of the requirements."""

GOALS = (
    *_both("P3", "as fast as APScheduler 4", "herd", "{}_10000_per_s", 100, "×", "APScheduler 4"),
    *_both("P3", "own CPU of 1,000 occurrences", "herd", "{}_10000_cpu_s_per_1000", 0.15, "s"),
    *_both("P3", "missed of 10,000", "herd", "{}_10000_missed", 0, "jobs"),
    *_both("P3", "doubled of 10,000", "herd", "{}_10000_doubled", 0, "jobs"),
    Target(
        "P3",
        "one-shot, as fast as pgqueuer in batches of 100",
        "oneshot",
        "postgres_10000_per_s",
        1,
        "×",
        more_is_better=True,
        beside="pgqueuer",
    ),
    Target("P3", "four nodes, as fast as one", "nodes", "four_nodes_share", 0.8, "×", more_is_better=True),
    Target("P3", "claims of four nodes that are lost races", "nodes", "lost_races_percent", 5, "%"),
    *_both("P4", "p99 start lateness of 2,000 a second for five minutes", "sustained", "{}_p99_ms", 100, "ms"),
    Target("P5", "10,000 jobs registered", "startup", "register_10k_s", 0.5, "s"),
)
"""What is measured against a number of its own, which no requirement has."""
