"""The campaign at the strangest transitions that tzdata knows since 1900.

Whole days lost or lived twice, shifts of forty minutes and of eight hours, and the zones whose clocks were not at whole
minutes. The last are stepped through second by second, so there are fewer of them, in shorter windows.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.oracles.campaign import Tally, check_scene
from tests.oracles.dice import Dice, scaled
from tests.oracles.scenes import HOUR, Scene, cases_of, scene_around
from tests.oracles.zones import Transition, transitions_of

RARE = {
    ("Pacific/Apia", "2011-12-30 10:00:00"): "30 December 2011 never came",
    ("Pacific/Kwajalein", "1969-09-30 13:00:00"): "23 hours of 30 September 1969 came twice",
    ("Pacific/Kwajalein", "1993-08-21 12:00:00"): "21 August 1993 never came",
    ("Pacific/Kiritimati", "1979-10-01 10:40:00"): "forty minutes lost",
    ("Pacific/Kiritimati", "1994-12-31 10:00:00"): "the last day of 1994 never came",
    ("Antarctica/Vostok", "1994-01-31 17:00:00"): "seven hours came twice",
    ("Antarctica/Vostok", "1994-11-01 00:00:00"): "seven hours lost",
    ("America/Inuvik", "1953-01-01 00:00:00"): "eight hours came twice, over the new year",
    ("Antarctica/Troll", "2023-03-26 01:00:00"): "two hours lost",
    ("Asia/Manila", "1945-11-30 15:00:00"): "an hour came twice at midnight",
    ("Asia/Tehran", "1977-10-20 19:30:00"): "thirty minutes came twice at midnight",
}
ODD_SECONDS = {
    ("Africa/Monrovia", "1972-01-07 00:44:30"): "midnight became 00:44:30",
    ("America/St_Johns", "1935-03-30 03:30:52"): "midnight became 00:00:52",
    ("Asia/Kathmandu", "1919-12-31 18:18:44"): "eleven minutes and sixteen seconds came twice",
    ("Pacific/Apia", "1911-01-01 11:26:56"): "three minutes and four seconds came twice",
    ("Africa/Casablanca", "1913-10-26 00:30:20"): "midnight became 00:30:20",
}


def transition_at(key: str, at: str) -> Transition:
    instant = datetime.fromisoformat(at).replace(tzinfo=UTC)
    (found,) = [one for one in transitions_of(key, instant.year - 1, instant.year + 1) if one.at == instant]
    return found


@pytest.mark.spec("S1", "S2", "S8", "S13")
@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize(("key", "at"), RARE, ids=str)
def test_the_engine_agrees_with_the_model_where_days_and_hours_were_lost_or_came_twice(
    key: str, at: str, batch: int
) -> None:
    dice, tally = Dice("rare", key, at, batch), Tally()
    scene = scene_around(dice, key, transition_at(key, at))
    cases = list(cases_of(dice, scene, scaled(75)))
    check_scene(scene, cases, dice, tally)
    assert tally.tried == scaled(75)
    assert tally.fired * 4 >= tally.tried, "too few of the expressions had anything to fire"


@pytest.mark.spec("S8")
@pytest.mark.parametrize(("key", "at"), ODD_SECONDS, ids=str)
def test_the_engine_agrees_with_the_model_where_clocks_were_not_at_whole_minutes(key: str, at: str) -> None:
    dice, tally = Dice("odd", key, at), Tally()
    transition = transition_at(key, at)
    start, end = transition.at - HOUR * dice.uniform(1, 2), transition.at + HOUR * dice.uniform(1, 2)
    scene = Scene(key, transition.at, start.replace(microsecond=0), end.replace(microsecond=0), transition, step=1)
    half = scaled(50)
    cases = list(cases_of(dice, scene, half)) + list(cases_of(dice, replace(scene, with_seconds=True), half))
    check_scene(scene, cases, dice, tally)
    assert tally.tried == 2 * half
    assert tally.fired * 4 >= tally.tried, "too few of the expressions had anything to fire"


def test_the_strange_transitions_are_what_their_names_say() -> None:
    shifts = {(key, at): transition_at(key, at).shift for key, at in RARE}
    assert shifts["Pacific/Apia", "2011-12-30 10:00:00"] == timedelta(days=1)
    assert shifts["Pacific/Kwajalein", "1969-09-30 13:00:00"] == -timedelta(hours=23)
    assert shifts["Pacific/Kiritimati", "1979-10-01 10:40:00"] == timedelta(minutes=40)
    assert shifts["Antarctica/Vostok", "1994-01-31 17:00:00"] == -timedelta(hours=7)
