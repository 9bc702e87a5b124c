"""What a seed stands for: the same every time, all kinds of trouble over many seeds, and within bounds."""

from __future__ import annotations

from collections import Counter

import pytest

from itinerary.model.policies import Failure, OnOrphan, OnShutdown, Overlap, Recovery
from tests.simulation.world.call_faults import CallFates, Fortune, Weather
from tests.simulation.world.options import DAY, TroubleKind, derive
from tests.simulation.world.rng import dice_for, many_of, one_of, spread

pytestmark = pytest.mark.spec("U6", "simulation")
SEEDS = range(60)


def test_a_seed_stands_for_the_same_things_each_time() -> None:
    assert [str(derive(seed)) for seed in range(5)] == [str(derive(seed)) for seed in range(5)]
    assert str(derive(1)) != str(derive(2))


def test_the_options_can_be_read() -> None:
    shown = str(derive(3))
    assert shown.startswith("seed 3: ")
    assert "job-0" in shown
    assert "weather" in shown


def test_every_kind_of_trouble_and_policy_comes_up_and_none_comes_up_everywhere() -> None:
    options = [derive(seed) for seed in SEEDS]
    troubles = Counter(kind for option in options for kind in {trouble.kind for trouble in option.troubles})
    assert set(troubles) == set(TroubleKind)
    assert max(troubles.values()) < len(SEEDS)
    for rate in ("slow", "refused", "lost", "late", "repeated"):
        assert 0 < sum(getattr(option.weather, rate) > 0 for option in options) < len(SEEDS)
    assert 0 < sum(bool(option.upgrades) for option in options) < len(SEEDS)
    assert all(upgrade.at < DAY / 1_000_000 for option in options for upgrade in option.upgrades)
    jobs = [job.overrides for option in options for job in option.jobs]
    assert {job.overlap for job in jobs} == set(Overlap)
    assert {job.failure for job in jobs} == set(Failure)
    assert {job.on_orphan for job in jobs} == set(OnOrphan)
    assert {job.on_shutdown for job in jobs} == set(OnShutdown)
    assert {job.recovery.strategy for job in jobs} == set(Recovery)


def test_a_day_holds_some_hundred_occurrences_at_most() -> None:
    for seed in SEEDS:
        option = derive(seed)
        count = sum(len(job.instants(option.begins_at, option.begins_at + DAY)) for job in option.jobs)
        assert 1 <= count <= 400, option


def test_dice_for_one_purpose_do_not_disturb_those_for_another() -> None:
    first, second = dice_for(1, "order"), dice_for(1, "fates")
    undisturbed = dice_for(1, "fates").random()
    first.random()
    assert second.random() == undisturbed
    assert dice_for(1, "order").random() != undisturbed


def test_throws() -> None:
    dice = dice_for(1, "throws")
    assert {one_of(dice, (1, 2, 3)) for _ in range(100)} == {1, 2, 3}
    assert {many_of(dice, (1, 2)) for _ in range(100)} == {(), (1,), (2,), (1, 2)}
    spreads = [spread(dice, 1, 100) for _ in range(1_000)]
    assert all(1 <= value <= 100 for value in spreads)
    assert 400 < sum(value < 10 for value in spreads) < 600


def test_fates_come_as_often_as_the_weather_says() -> None:
    weather = Weather(refused=0.1, lost=0.2, late=0.1, repeated=0.1)
    fates = CallFates(weather, dice_for(1, "fates"))
    seen = Counter(fates.throw().fortune for _ in range(10_000))
    assert 4_800 < seen[Fortune.FINE] < 5_200
    assert 1_900 < seen[Fortune.LOST] < 2_100
    assert all(900 < seen[rare] < 1_100 for rare in (Fortune.REFUSED, Fortune.LATE, Fortune.REPEATED))
    calm = CallFates(Weather(), dice_for(1, "calm"))
    assert {calm.throw().fortune for _ in range(1_000)} == {Fortune.FINE}
    assert all(calm.throw().arrives_after <= 0.002 for _ in range(1_000))
