"""Apps of some jobs, and a stage for them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from itinerary import Itinerary, cron, every
from itinerary.forecast.outcome_columns import RunOutcomes
from itinerary.forecast.simulator import ForecastRuns, ForecastSimulator
from itinerary.schedules.durations import SECOND

__all__ = ["START", "played_whole", "random_app", "runs_of", "stage_of"]

START = 1_800_000_000 * SECOND
"""A whole hour."""


async def work() -> None: ...


def stage_of(app: Itinerary, said: Mapping[str, int] | None = None, start: int = START) -> ForecastSimulator:
    """A stage for an app's jobs."""
    stage, _ = asyncio.run(app.stage(start, said or {}))
    return stage


def runs_of(stage: ForecastSimulator, seconds: int) -> ForecastRuns:
    """What is due in so many seconds."""
    expected = stage.plans.timeline.expected(START, START + seconds * SECOND)
    order = np.lexsort((expected.jobs, expected.instants))
    return ForecastRuns(expected.jobs[order], expected.instants[order])


def played_whole(stage: ForecastSimulator, runs: ForecastRuns) -> RunOutcomes:
    """What the core makes of all runs, none of them left out and nothing remembered."""
    outcomes, first = RunOutcomes.empty(len(runs)), 0
    while first < len(runs):
        performance = stage.play(runs, first)
        places = slice(first, first + performance.size)
        RunOutcomes.of(performance, 0).write(outcomes, places, 0)
        first += performance.size
    return outcomes


def random_app(seed: int) -> tuple[Itinerary, dict[str, int]]:
    """Some jobs that get in each other's way in every way that there is, and how long they take."""
    dice = random.Random(seed)  # noqa: S311 - nothing here is a secret
    app = Itinerary(max_concurrent_jobs=dice.choice([1, 2, 3, 5, 8, 50]), limits={"api": 2})
    said: dict[str, int] = {}
    for number in range(dice.randrange(2, 14)):
        jitter = dice.choice(["0s", "0s", "20s"])
        schedules = [every(f"{dice.randrange(1, 30)}s"), every(f"{dice.randrange(1, 10)}m", jitter=jitter)]
        options: dict[str, Any] = {"overlap": dice.choice(["skip", "queue", "allow", "replace"])}
        if dice.random() < 0.2:
            options["limits"] = ["api"]
        if dice.random() < 0.1:
            options["max_active"] = 1
        if dice.random() < 0.2:
            options["priority"] = dice.randrange(5)
        if dice.random() < 0.2:
            options |= {"task_timeout": "10s", "retry": {"max_retries": 2, "retry_interval": "5s"}}
        schedule = dice.choice([*schedules, cron("* * * * *"), cron("*/5 * * * *")])
        app.job(f"job {number:02}", schedule, **options).task(work)
        said[f"job {number:02}"] = int(dice.choice([0.2, 1, 3, 10, 30, 45]) * SECOND)
    return app, said
