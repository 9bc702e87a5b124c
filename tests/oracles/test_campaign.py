"""The campaign itself: mutants that it must catch, or its silence about the engine would mean nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.oracles.campaign import Tally, check_scene, compare, schedule_of
from tests.oracles.dice import Dice
from tests.oracles.grammar import MONTHS, WEEKDAYS, parse
from tests.oracles.model import MARGIN
from tests.oracles.plan import COUNTS, batches, scenes_and_cases
from tests.oracles.scenes import Case, cases_of, scenes_of
from tests.oracles.zones import transitions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from itinerary.schedules import Schedule


def fixed_times_run_twice(case: Case) -> Case:
    return replace(case, repeat=case.repeat or "both")


def lost_times_stay_lost(case: Case) -> Case:
    return replace(case, gap=case.gap or "skip")


def wildcards_run_after_a_gap(case: Case) -> Case:
    return replace(case, gap=case.gap or "run_after")


def wildcards_run_once(case: Case) -> Case:
    return replace(case, repeat=case.repeat or "first")


def the_second_pass_is_the_first(case: Case) -> Case:
    return replace(case, repeat="first" if case.repeat == "second" else case.repeat)


def the_zone_next_door(case: Case) -> Case:
    return replace(case, key="America/Chicago")


def the_end_is_not_known(case: Case) -> Case:
    return replace(case, active_until=None)


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    "mutant",
    [
        fixed_times_run_twice,
        lost_times_stay_lost,
        wildcards_run_after_a_gap,
        wildcards_run_once,
        the_second_pass_is_the_first,
        the_zone_next_door,
        the_end_is_not_known,
    ],
)
def test_the_campaign_notices_a_schedule_with_other_rules(mutant: Callable[[Case], Case]) -> None:
    with pytest.raises(pytest.fail.Exception):
        check_with(lambda case: schedule_of(mutant(case)))


def check_with(make: Callable[[Case], Schedule]) -> None:
    for scene, cases in scenes_and_cases("America/New_York", 0, 250):
        check_scene(scene, cases, Dice("mutants"), Tally(), make)


def test_the_campaign_is_content_with_the_engine_itself() -> None:
    check_with(schedule_of)


@pytest.mark.parametrize("ours", [[1], [1, 2, 3], [2, 1], [1, 2, 2], []])
def test_a_comparison_sees_what_is_missing_added_disordered_or_doubled(ours: list[int]) -> None:
    case = next(cases_of(Dice("one"), scenes_of("UTC", 0, 1)[0]))
    with pytest.raises(pytest.fail.Exception):
        compare("between", case, ours, [1, 2])
    compare("between", case, [1, 2], [1, 2])


@pytest.mark.spec("S1", "S2")
def test_random_expressions_use_the_whole_grammar() -> None:
    of_utc = [batch for batch in batches(COUNTS.items()) if batch[0] == "UTC"]
    texts = [case.text for batch in of_utc for _, cases in scenes_and_cases(*batch) for case in cases]
    assert {len(text.split()) for text in texts} == {1, 5, 6, 7}
    names = "|".join(MONTHS + WEEKDAYS)
    forms = [r"(?i)\bl\b", r"(?i)\blw\b", r"(?i)\d+w\b", r"(?i)\b\dl\b", r"\d#\d", "(?i)[a-z]{3}#", "@", r"\t"]
    forms += [r"\*/\d", r"\d-\d+/\d", r"\d,\d", r"\*,", names, names.upper(), names.title(), f"(?i)({names})-({names})"]
    for form in forms:
        assert any(re.search(form, text) for text in texts), form
    assert 0.2 <= sum(parse(text).is_wildcard for text in texts) / len(texts) <= 0.8


def test_the_same_seed_makes_the_same_expressions() -> None:
    once, again = ([case for _, cases in scenes_and_cases("Asia/Tehran", 7, 100) for case in cases] for _ in range(2))
    assert once == again


@pytest.mark.parametrize("key", ["America/St_Johns", "Africa/Casablanca", "Asia/Tehran", "Europe/London"])
def test_transitions_lie_far_enough_apart_for_the_model(key: str) -> None:
    """Closer than its margin, "missed" and "repeated" could overlap, and the model would have to decide what that
    means."""
    found = transitions_of(key)
    assert all(later.at - earlier.at > MARGIN for earlier, later in pairwise(found))
