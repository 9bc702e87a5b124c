"""The jobs of a simulated world: schedules from bursts of a run each second to one a day, and every policy there is.

A seed chooses some of each. How a task behaves is part of its job: how long it takes, and how often it fails, hangs, or
does not listen; what one attempt does is then read off dice that bear that attempt's name.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.job import JsonObject, Task
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Failure, Mode, OnOrphan, Overlap, Recovery, RecoveryPolicy, Retry
from itinerary.schedules import ZoneSource, from_json, packaged_zone
from itinerary.schedules.instants import microseconds_of, shown_instant
from itinerary.simulate.dice import one_of, spread
from itinerary.simulate.tasks import Behaviour

__all__ = ["ZONES", "SimulatedJob", "SimulatedTask", "draw_jobs", "draw_schedule", "lengthened"]

_HOUR: Final = 3600
_LIMIT: Final = "api"
ZONES: Final = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")
"""Where jobs are that are not in UTC."""


class SimulatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task, and how it behaves."""

    name: str
    overrides: Overrides = NOTHING
    takes: tuple[float, float]
    """Seconds, from the least to the most."""
    fails: float = 0.0
    hangs: float = 0.0
    is_deaf: float = 0.0
    """Probabilities."""
    ends_after: float = 1.0
    """Seconds that it takes at most to end when it is asked to."""

    def behaviour(self, dice: Random) -> Behaviour:
        """What one attempt does."""
        return Behaviour(
            takes=spread(dice, *self.takes),
            fails=dice.random() < self.fails,
            hangs=dice.random() < self.hangs,
            is_deaf=dice.random() < self.is_deaf,
            ends_after=dice.random() * self.ends_after,
        )


class SimulatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a seed has drawn it."""

    name: str
    schedule: JsonObject
    overrides: Overrides
    tasks: tuple[SimulatedTask, ...]

    def definition(self) -> Definition:
        """The job as it is registered."""
        identity = job_id(self.name)
        return Definition(
            schedule=self.schedule,
            overrides=self.overrides,
            tasks=tuple(
                Task(
                    id=task_id(identity, task.name),
                    name=task.name,
                    order=order,
                    definition={"python": "simulated:task"},
                    overrides=task.overrides,
                )
                for order, task in enumerate(self.tasks)
            ),
        )

    def instants(self, start: int, end: int, zones: ZoneSource = packaged_zone) -> list[int]:
        """Every instant in `[start, end)`, straight from the schedule: what is owed, by a path of its own."""
        return [microseconds_of(instant) for instant in from_json(self.schedule).between(start, end, zones)]

    def zone_names(self) -> frozenset[str]:
        """The time zones that it needs."""
        return from_json(self.schedule).zone_names()


def draw_jobs(dice: Random, begins_at: int, runs_for: int, occurrences: int) -> tuple[SimulatedJob, ...]:
    """Jobs that have about so many occurrences together, in so many microseconds."""
    jobs: list[SimulatedJob] = []
    left = occurrences
    while left > 0 and len(jobs) < 12:
        schedule = draw_schedule(dice, begins_at, runs_for)
        job = _job(dice, f"job-{len(jobs)}", schedule, _period(schedule))
        count = len(job.instants(begins_at, begins_at + runs_for))
        if count > occurrences:
            continue
        jobs.append(job)
        left -= max(count, 1)
    return tuple(jobs)


def draw_schedule(dice: Random, begins_at: int, runs_for: int) -> dict[str, Any]:
    """A schedule that ends with the day."""
    return _schedule(dice, begins_at, runs_for) | {"end": shown_instant(begins_at + runs_for - 1_000_000)}


def lengthened(dice: Random, jobs: tuple[SimulatedJob, ...], unit: float) -> tuple[SimulatedJob, ...]:
    """In some worlds a job runs for so long that it outlives its node in the eyes of others, and is run again: each of
    its tasks takes so many times the `unit`, which are the seconds of the longest timeout."""
    if dice.random() < 0.6:
        return jobs
    chosen = int(dice.random() * len(jobs))
    job = jobs[chosen]
    tasks = tuple(
        msgspec.structs.replace(task, takes=(unit, unit * 4), hangs=0.0, overrides=NOTHING) for task in job.tasks[:1]
    )
    overrides = msgspec.structs.replace(
        job.overrides, on_orphan=OnOrphan.RERUN, task_timeout="1d", execution_timeout="2d"
    )
    longer = msgspec.structs.replace(job, tasks=tasks, overrides=overrides)
    return (*jobs[:chosen], longer, *jobs[chosen + 1 :])


def _schedule(dice: Random, begins_at: int, runs_for: int) -> dict[str, Any]:
    zone = one_of(dice, ("UTC", "UTC", *ZONES))
    kind = one_of(dice, ("burst", "burst", "every", "every", "cron", "cron", "daily", "once", "iso8601"))
    hour, minute = int(dice.random() * 24), int(dice.random() * 60)
    if kind == "burst":  # a run each second or so, for a minute
        step = one_of(dice, (1, 2, 5, 10))
        return {"cron": f"*/{step} {minute} {hour} * * *", "tz": zone}
    if kind == "every":
        return {"every": one_of(dice, ("10m", "15m", "20m", "30m", "1h", "2h", "97m"))}
    if kind == "cron":
        morning = hour % 12
        expressions = (f"{minute} * * * *", f"*/20 {morning}-{morning + 6} * * *", f"{minute % 30}-59/30 */2 * * *")
        return {"cron": one_of(dice, expressions), "tz": zone}
    if kind == "daily":
        return {"cron": f"{minute} {hour} * * *", "tz": zone}
    moment = shown_instant(begins_at + round(dice.random() * runs_for))
    if kind == "once":
        return {"once": moment}
    return {"iso8601": f"R/{moment}/PT{one_of(dice, (25, 50, 90))}M"}


def _period(schedule: JsonObject) -> float:
    """About how many seconds lie between two instants: what the duration of tasks is drawn from."""
    fields = str(schedule.get("cron", "")).split()
    return float(fields[0].removeprefix("*/")) if len(fields) == 6 else 1200.0


def _job(dice: Random, name: str, schedule: dict[str, Any], period: float) -> SimulatedJob:
    overlap = one_of(dice, tuple(Overlap))
    overrides = Overrides(
        overlap=overlap,
        max_queued=one_of(dice, (None, None, 1, 3)) if overlap is Overlap.QUEUE else None,
        max_active=one_of(dice, (None, None, None, 1, 2)),
        limits=(_LIMIT,) if dice.random() < 0.35 else None,
        mode=one_of(dice, tuple(Mode)),
        failure=one_of(dice, tuple(Failure)),
        on_orphan=one_of(dice, tuple(OnOrphan)),
        recovery=RecoveryPolicy(one_of(dice, tuple(Recovery))),
        retry=_retry(dice, period),
        task_timeout=one_of(dice, (None, f"{max(2, round(period * 3))}s")),
        execution_timeout=one_of(dice, (None, "20m", "2h")),
        priority=int(dice.random() * 3),
    )
    # A swarm: some jobs never fail, some tasks always listen.
    fails, hangs, deaf = one_of(dice, (0.0, 0.1, 0.5)), one_of(dice, (0.0, 0.0, 0.1)), one_of(dice, (0.0, 0.0, 0.5))
    tasks = []
    for place in range(one_of(dice, (1, 1, 2, 3))):
        least = period * one_of(dice, (0.01, 0.2))
        tasks.append(
            SimulatedTask(
                name=f"task-{place}",
                takes=(least, period * one_of(dice, (0.5, 1.5, 3.0))),
                fails=fails,
                hangs=hangs,
                is_deaf=deaf,
                ends_after=one_of(dice, (0.01, 5.0)),
                overrides=Overrides(failure=Failure.CONTINUE) if dice.random() < 0.2 else NOTHING,
            )
        )
    return SimulatedJob(name=name, schedule=schedule, overrides=overrides, tasks=tuple(tasks))


def _retry(dice: Random, period: float) -> Retry:
    retries = one_of(dice, (0, 0, 1, 3))
    return Retry(
        max_retries=retries,
        retry_interval=f"{max(1, round(period * spread(dice, 0.05, 1.0)))}s",
        backoff_factor=one_of(dice, (1.0, 2.0)),
    )
