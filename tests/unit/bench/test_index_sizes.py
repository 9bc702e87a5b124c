"""The bench of the index covers every size and window that the design of the index lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from bench.harness import Result
from bench.index_sizes import BUILDS, INDEXES, LOOPS, RESULTS, WINDOWS, answers, builds, label, loops, peeks, windows
from bench.targets import TARGETS

REFERENCE = Path("docs/reference/benchmarks.md").read_text("utf-8")


def small() -> Iterator[Result]:
    """Run every measure on the smallest sizes alone."""
    return chain(builds([10, 100]), windows([1_000]), answers([1_000]), peeks([1_000]), loops([1_000], seconds=31))


def documented() -> list[re.Pattern[str]]:
    """The measures of the index as the reference writes them, `<n>` for a size."""
    rows = [line for line in REFERENCE.splitlines() if line.startswith("| `index` |")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[2])]
    return [re.compile(re.sub(r"<\w+>", r"\\w+", name)) for name in names]


@pytest.mark.spec("P2", "sizes")
def test_the_bench_has_every_size_and_window_of_the_design() -> None:
    assert BUILDS == (10, 100, 1_000, 10_000, 100_000, 1_000_000)
    assert INDEXES == (1_000, 10_000, 100_000, 1_000_000)
    assert WINDOWS == {"1min": 60, "1h": 3_600, "1d": 86_400}
    assert RESULTS == (10, 100, 1_000, 10_000)
    assert LOOPS == (600_000, 1_000_000)


@pytest.mark.spec("P2", "sizes")
def test_the_bench_measures_what_the_reference_lists_and_its_answers_are_right() -> None:
    results = list(small())
    measured = {result.measure for result in results}
    assert {"build_100_from_pairs_cpu_ms", "query_1d_of_1k_us", "query_1k_runs_of_1k_us", "peek_of_1k_us"} <= measured
    assert "loop_1k_query_p99_ms" in measured
    assert not [result.measure for result in results if result.differing]
    patterns = documented()
    loops_renamed = {name.replace("loop_1k", "loop_1m") for name in measured}
    assert not [name for name in loops_renamed if not any(pattern.fullmatch(name) for pattern in patterns)]


@pytest.mark.spec("P2", "pairs")
def test_each_size_of_the_design_that_has_a_limit_is_a_target() -> None:
    limits = {target.measure: target.limit for target in TARGETS}
    for size, limit in ((10_000, 5), (100_000, 30), (1_000_000, 150)):
        assert limits[f"build_{label(size)}_from_pairs_cpu_ms"] == limit
