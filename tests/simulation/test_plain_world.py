"""The world itself, with the plain node in it: repeatable to the byte, and content with what is as it should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from itinerary.schedules.durations import SECOND
from tests.simulation.checker.violations import Rule
from tests.simulation.plain_node import PlainNode, plain_life
from tests.simulation.world.options import TroubleKind, derive
from tests.simulation.world.world import SeedOutcome, run_seed

ROOT = Path(__file__).parents[2]
HOURS = 3_600 * SECOND
_ELSEWHERE = """
import hashlib
from tests.simulation.world.options import derive
from tests.simulation.world.world import run_seed
from tests.simulation.plain_node import plain_life
for seed in (2, 5):
    history = run_seed(derive(seed, nodes=1, runs_for=6 * 3_600_000_000, is_changing=False), plain_life).history
    print(hashlib.sha256("\\n".join(history).encode()).hexdigest())
"""


def lived(seed: int, hours: int = 6) -> SeedOutcome:
    return run_seed(derive(seed, nodes=1, runs_for=hours * HOURS, is_changing=False), plain_life)


@pytest.mark.spec("U6", "simulation")
def test_one_seed_is_one_history_to_the_byte() -> None:
    first, second = lived(5), lived(5)
    assert first.history == second.history
    assert len(first.history) > 500
    assert lived(2).history != first.history


@pytest.mark.spec("U6", "simulation")
def test_a_history_does_not_depend_on_the_process_that_lives_through_it() -> None:
    digests = [
        subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-c", _ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert len(digests[0].split()) == 2


@pytest.mark.spec("U6", "checker")
@pytest.mark.parametrize("seed", range(12))
def test_a_plain_node_lives_through_a_day_without_a_violation(seed: int) -> None:
    options = derive(seed, nodes=1, is_changing=False)
    outcome = run_seed(options, plain_life)
    assert outcome.violations == (), f"{options}"
    assert outcome.runs > 0


def test_seeds_have_crashes_freezes_outages_and_lost_answers_in_them() -> None:
    missing = {*map(str, TroubleKind), "boots", "fails (lost)", "arrives after all", "is lost with its process", "died"}
    for seed in range(1, 31):  # the very first is a long one
        history = "\n".join(lived(seed).history)
        missing = {trouble for trouble in missing if f" {trouble}" not in history}
        if not missing:
            return
    pytest.fail(f"30 seeds had no {missing} in them")


RARER = {
    "unanswered",
    "arrived after all",
    "hang",
    "full disk",
    "write refused",
    "hold up",
    "huge result",
    "sigterm",
    "sigterm in a start",
    "batch handled",
}


@pytest.mark.spec("U6", "simulation")
def test_each_of_the_rarer_faults_really_strikes_within_sixty_seeds() -> None:
    missing, seed = set(RARER), 0
    while missing and seed < 60:
        missing -= lived(seed := seed + 1, hours=12).happened.keys()
    assert not missing, f"{seed} seeds, and these never happened: {sorted(missing)}"


@pytest.mark.spec("U6", "simulation")
def test_what_a_seed_stands_for_says_which_of_the_rarer_faults_are_in_it() -> None:
    shown = "\n".join(str(derive(seed)) for seed in range(60))
    for kind in (TroubleKind.HANG, TroubleKind.FULL, TroubleKind.HOLD_UP, TroubleKind.SIGTERM):
        assert f" {kind} node " in shown
    assert " calls of its next start, and again " in shown
    assert "  desk: " in shown
    assert any(derive(seed).weather.unanswered for seed in range(60))
    assert any(task.huge for seed in range(60) for job in derive(seed).jobs for task in job.tasks)


class Forgetful(PlainNode):
    """One that never comes to claim anything."""

    async def _claim(self, now: int) -> None:
        """Nothing."""

    async def _sweep(self, now: int) -> None:
        """Nothing."""


@pytest.mark.spec("U6", "checker")
def test_a_node_that_forgets_its_jobs_is_found_out() -> None:
    outcome = run_seed(derive(5, nodes=1, runs_for=6 * HOURS, is_changing=False), Forgetful)
    assert {violation.rule for violation in outcome.violations} == {Rule.OWED}
    assert "is lost: nothing was decided about it" in str(outcome.violations[0])


class Broken(PlainNode):
    """One with a bug."""

    async def _sweep(self, now: int) -> None:
        raise ZeroDivisionError


def test_a_node_that_fails_by_a_bug_is_found_out() -> None:
    outcome = run_seed(derive(5, nodes=1, runs_for=6 * HOURS, is_changing=False), Broken)
    assert Rule.QUIET in {violation.rule for violation in outcome.violations}
    assert any("ZeroDivisionError" in str(violation) for violation in outcome.violations)
