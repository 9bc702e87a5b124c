"""What the benches are judged by is what the requirements ask for, number by number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.harness import Result
from bench.targets import GOALS, TARGETS, Target

REQUIREMENTS = Path("docs/requirements.md").read_text("utf-8")
TITLES = ("P1", "P2", "P3", "P4", "P5", "P6")


def statement(title: str) -> str:
    """What a requirement says, with numbers as Python has them."""
    found = re.search(rf"^- {title} (.*?)(?=^- |\Z)", REQUIREMENTS, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(found[1].split()))


def asked(target: Target) -> str:
    """The number of a target as the requirement writes it: a cost that may grow by a fifth is "20 %"."""
    if target.against is not None:
        growth = target.limit if target.limit > 1 else 1 / target.limit
        return f"{(growth - 1) * 100:.0f} %"
    unit = {"/s": "", "×": " times"}.get(target.unit, f" {target.unit}")
    return f"{target.limit:g}{unit}"


@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
@pytest.mark.spec("P3")
@pytest.mark.spec("P5")
@pytest.mark.spec("P6")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.requirement} {target.measure}")
def test_a_target_is_the_number_that_its_requirement_asks_for(target: Target) -> None:
    assert asked(target) in statement(target.requirement)


@pytest.mark.parametrize("title", TITLES)
def test_every_requirement_on_speed_has_targets(title: str) -> None:
    assert any(target.requirement == title for target in TARGETS)


def test_a_peer_that_was_given_fewer_jobs_is_still_the_one_that_is_meant_and_one_with_a_longer_name_is_not() -> None:
    target = Target("P1", "as fast as it", "herd", "per_s", 2, "×", more_is_better=True, beside="Peer")
    fewer = Result("herd", "per_s", 30.0, "/s", more_is_better=True, peer="Peer (2,000)", theirs=10.0)
    other = Result("herd", "per_s", 30.0, "/s", more_is_better=True, peer="Peer 2", theirs=20.0)
    assert target.measured([other, fewer]) == 3.0
    assert target.measured([other]) is None


def test_no_goal_repeats_a_target() -> None:
    measured = {(target.measure, target.bench, target.beside, target.against) for target in TARGETS}
    assert not measured & {(goal.measure, goal.bench, goal.beside, goal.against) for goal in GOALS}
