"""The jobs of a simulated world: schedules from one run a second to one a day, and every policy.

A seed selects some of each. A task has a range of durations, and probabilities to fail, to hang, and to ignore stop
requests. A random generator for each attempt, seeded with the attempt's name, determines the attempt's behaviour.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Failure, Mode, OnOrphan, OnShutdown, Overlap, Recovery, RecoveryPolicy, Retry
from itinerary.model.task import JsonObject, Task
from itinerary.schedules import ZoneSource, from_json, packaged_zone
from itinerary.schedules.instants import microseconds_of, shown_instant
from tests.simulation.world.rng import one_of, spread
from tests.simulation.world.tasks import Behaviour

__all__ = [
    "ZONES",
    "SimulatedJob",
    "SimulatedTask",
    "draw_jobs",
    "draw_schedule",
    "enlarged",
    "lengthened",
    "shut_down_as",
]

_HOUR: Final = 3600
_LIMIT: Final = "api"
ZONES: Final = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")
"""The time zones of jobs that are not in UTC."""


class SimulatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task and its behaviour."""

    name: str
    overrides: Overrides = NOTHING
    takes: tuple[float, float]
    """The shortest and the longest duration, in seconds."""
    fails: float = 0.0
    hangs: float = 0.0
    is_deaf: float = 0.0
    """The probabilities that an attempt fails, hangs, or ignores stop requests."""
    ends_after: float = 1.0
    """The longest time to end after a stop request, in seconds."""
    huge: float = 0.0
    """The probability of a huge result."""
    holds_up: tuple[float, float] = (0.0, 0.0)
    """The shortest and the longest time that a huge result stops the node's loop, in seconds.

    Encoding the result first makes the task longer by the same time.
    """
    queues_for: float = 0.0
    """The longest wait in the executor's queue, in seconds. About half of the attempts do not wait."""

    def behaviour(self, dice: Random) -> Behaviour:
        """Return the behaviour of one attempt."""
        usual = Behaviour(
            takes=spread(dice, *self.takes),
            fails=dice.random() < self.fails,
            hangs=dice.random() < self.hangs,
            is_deaf=dice.random() < self.is_deaf,
            ends_after=dice.random() * self.ends_after,
            called_after=max(dice.random() - 0.5, 0.0) * 2 * self.queues_for,
        )
        if not self.huge or dice.random() >= self.huge:
            return usual
        holds_up_for = spread(dice, *self.holds_up)
        return msgspec.structs.replace(usual, takes=usual.takes + holds_up_for, holds_up_for=holds_up_for)


class SimulatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a seed."""

    name: str
    schedule: JsonObject
    overrides: Overrides
    tasks: tuple[SimulatedTask, ...]

    def definition(self) -> Definition:
        """Return the definition to register."""
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
        """Return every instant in `[start, end)` directly from the schedule, without the timeline."""
        return [microseconds_of(instant) for instant in from_json(self.schedule).between(start, end, zones)]

    def zone_names(self) -> frozenset[str]:
        """Return the time zones that the schedule needs."""
        return from_json(self.schedule).zone_names()


def draw_jobs(dice: Random, begins_at: int, runs_for: int, occurrences: int) -> tuple[SimulatedJob, ...]:
    """Return random jobs.

    Args:
        dice: The random generator.
        begins_at: The start of the day.
        runs_for: The length of the day, in microseconds.
        occurrences: The approximate number of occurrences of all jobs together.
    """
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
    """Return a random schedule that ends with the day."""
    return _schedule(dice, begins_at, runs_for) | {"end": shown_instant(begins_at + runs_for - 1_000_000)}


def lengthened(dice: Random, jobs: tuple[SimulatedJob, ...], unit: float) -> tuple[SimulatedJob, ...]:
    """Lengthen one job in some worlds, so that other nodes may declare its node dead and run the job again.

    Args:
        dice: The random generator.
        jobs: The jobs of the world.
        unit: The longest timeout, in seconds. The task takes one to four times as long.
    """
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


def enlarged(dice: Random, jobs: tuple[SimulatedJob, ...], interval: float) -> tuple[SimulatedJob, ...]:
    """Let one job return huge results at times, which stop a node's loop for up to three heartbeat intervals.

    Args:
        dice: The random generator.
        jobs: The jobs of the world.
        interval: The heartbeat interval, in seconds.
    """
    chosen = int(dice.random() * len(jobs))
    job, huge = jobs[chosen], one_of(dice, (0.1, 0.5))
    tasks = tuple(
        msgspec.structs.replace(task, huge=huge, holds_up=(interval * 0.01, interval * 3)) for task in job.tasks
    )
    return (*jobs[:chosen], msgspec.structs.replace(job, tasks=tasks), *jobs[chosen + 1 :])


def shut_down_as(dice: Random, jobs: tuple[SimulatedJob, ...]) -> tuple[SimulatedJob, ...]:
    """Select `on_shutdown` and the executor queue of each job.

    A separate random generator keeps the rest of the seed's day about the same.
    """
    drawn = []
    for job in jobs:
        queues_for = one_of(dice, (0.0, 0.0, 0.5, 5.0))
        tasks = tuple(msgspec.structs.replace(task, queues_for=queues_for) for task in job.tasks)
        overrides = msgspec.structs.replace(job.overrides, on_shutdown=one_of(dice, tuple(OnShutdown)))
        drawn.append(msgspec.structs.replace(job, tasks=tasks, overrides=overrides))
    return tuple(drawn)


def _schedule(dice: Random, begins_at: int, runs_for: int) -> dict[str, Any]:
    zone = one_of(dice, ("UTC", "UTC", *ZONES))
    kind = one_of(dice, ("burst", "burst", "every", "every", "cron", "cron", "daily", "once", "iso8601"))
    hour, minute = int(dice.random() * 24), int(dice.random() * 60)
    if kind == "burst":  # a run every 1 to 10 seconds, for a minute
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
    """Return the approximate seconds between two instants. Task durations depend on it."""
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
    # Swarm testing: some jobs never fail, some never ignore stop requests.
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
