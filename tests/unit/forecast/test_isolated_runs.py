"""Runs that are played one at a time, once, or not at all come to what the core makes of all of them (U5)."""

from __future__ import annotations

import numpy as np
import pytest

from itinerary import Itinerary, cron, every
from itinerary.forecast.isolated_runs import IsolatedRuns
from itinerary.forecast.outcome_columns import NEVER, STATES
from itinerary.schedules.durations import SECOND
from tests.unit.forecast.scenes import START, played_whole, random_app, runs_of, stage_of, work

pytestmark = pytest.mark.spec("U5", "the real core")


@pytest.mark.parametrize("seed", range(20, 28))
def test_what_is_left_out_or_remembered_goes_as_if_it_were_played(seed: int) -> None:
    app, said = random_app(seed)
    stage = stage_of(app, said)
    runs = runs_of(stage, 600)
    found, whole = IsolatedRuns(stage, runs).decide(), played_whole(stage, runs)
    for name, ours, cores in zip(("starts", "ends", "states"), found, whole, strict=True):
        assert np.array_equal(ours, cores), f"{name} differ, first of run {int(np.flatnonzero(ours != cores)[0])}"


def test_a_job_that_takes_longer_than_its_period_is_skipped_every_other_time() -> None:
    app = Itinerary()
    app.job("slow", every("3s"), overlap="skip").task(work)
    stage = stage_of(app, {"slow": 5 * SECOND})
    outcomes = IsolatedRuns(stage, runs_of(stage, 30)).decide()
    assert [str(STATES[state]) for state in outcomes.states] == ["completed", "skipped"] * 5
    assert stage.played == 3, "once alone, and two of them together; the others are remembered"


def test_what_has_no_slot_waits_for_one_and_the_next_hour_is_not_played_again() -> None:
    app = Itinerary(max_concurrent_jobs=2)
    for number in range(5):
        app.job(f"job {number}", cron("0 * * * *")).task(work)
    stage = stage_of(app)
    runs = runs_of(stage, 24 * 3600)
    outcomes = IsolatedRuns(stage, runs).decide()
    waits = (outcomes.starts - runs.instants).reshape(24, 5) // SECOND
    assert (np.sort(waits) == [0, 0, 1, 1, 2]).all()
    assert stage.played == 1 + 5, "one alone, like which the others are, and one hour"


def test_a_long_run_beside_a_crowd_only_takes_up_a_slot() -> None:
    app = Itinerary(max_concurrent_jobs=3)
    app.job("long", cron("0 0 * * *"), task_timeout="24h", execution_timeout="24h").task(work)
    for number in range(4):
        app.job(f"job {number}", cron("30 * * * *")).task(work)
    stage = stage_of(app, {"long": 20 * 3600 * SECOND}, START)
    runs = runs_of(stage, 2 * 86_400)
    outcomes = IsolatedRuns(stage, runs).decide()
    assert np.array_equal(outcomes.starts, played_whole(stage, runs).starts)
    assert stage.played < 60 + len(runs)
    assert not (outcomes.starts == NEVER).any()
