"""The command that lives through many seeds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from tests.simulation.__main__ import main, read_seeds

PLAIN = ["--life", "tests.simulation.plain_node:plain_life", "--nodes", "1", "--hours", "2", "--unchanging"]


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    return main([*PLAIN, *arguments], out), out.getvalue()


@pytest.mark.spec("U6", "simulation")
def test_seeds_that_are_fine_are_counted() -> None:
    status, said = run("--seeds", "0..2", "--progress", "1")
    assert status == 0
    assert "3 seeds in" in said.splitlines()[-1]
    assert said.splitlines()[-1].endswith("0 failed")
    assert len([line for line in said.splitlines() if not line.startswith("what happened: ")]) == 4
    assert "what happened: arrived after all " in said


@pytest.mark.spec("U6", "mutants")
def test_a_mutant_that_is_caught_is_a_success_and_its_seed_is_printed_with_its_options() -> None:
    status, said = run("--seeds", "0..9", "--mutant", "tests.simulation.mutants:no_unique_key")
    assert status == 0
    assert "seed 0: 1 nodes" in said
    assert "one row for each key" in said


@pytest.mark.spec("U6", "mutants")
def test_a_mutant_that_is_not_caught_is_a_failure() -> None:
    assert run("--seeds", "0", "--mutant", "contextlib:nullcontext")[0] == 1


def test_a_history_can_be_read() -> None:
    said = run("--seeds", "5", "--history")[1]
    assert "00:00:00.000000  a/1    boots" in said
    assert "occurrences: OccurrenceRow(" in said


@pytest.mark.parametrize(("seed", "booting"), [("4", {"a", "b", "c"}), ("5", {"a", "b", "c", "d"})])
def test_of_several_numbers_of_nodes_each_seed_takes_the_next(seed: str, booting: set[str]) -> None:
    said = run(
        "--nodes", "3", "4", "--life", "tests.simulation.world.node_factory:real_life", "--seeds", seed, "--history"
    )[1]
    assert {line.split()[1].split("/")[0] for line in said.splitlines() if line.endswith("boots")} == booting


def test_seeds_are_one_a_range_or_those_of_a_file(tmp_path: Path) -> None:
    assert list(read_seeds("7")) == [7]
    assert list(read_seeds("3..5")) == [3, 4, 5]
    kept = tmp_path / "seeds.txt"
    kept.write_text("# kept\n4  # why\n\n11\n")
    assert list(read_seeds(f"@{kept}")) == [4, 11]
    with pytest.raises(ConfigError, match="write one"):
        list(read_seeds("all"))
