"""The result of a forecast: load, overlaps, waits, clock changes, outages. Instants are text, durations are seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec
import numpy as np
from msgspec.structs import replace

from itinerary.core.recovery.strategies import MissingInstants, RecoveryTerms, recovered
from itinerary.forecast.dst_changes import ClockChange, nights_in
from itinerary.forecast.forecast import ForecastColumns, Outage
from itinerary.forecast.outcome_columns import CODES, NEVER, STATES, Numbers
from itinerary.forecast.simulator import ForecastSimulator
from itinerary.forecast.task_durations import TaskDurations
from itinerary.model.policies import Overlap, Recovery
from itinerary.model.rows import JobNumber
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = [
    "Forecast",
    "ForecastOccurrence",
    "Load",
    "OutageTold",
    "Overlaps",
    "Recovered",
    "Waits",
    "occurrences",
    "told",
]

_MINUTE: Final = 60 * SECOND
_CHART_PARTS: Final = 48
"""The number of parts of the chart; with indentation, it fits any terminal."""
_P95: Final = 95


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load of the node."""

    peak: int
    """The largest number of active runs in one minute."""
    peak_at: str
    at_once: int
    """The largest number of active runs at one instant."""
    p95: float
    """The number of active runs that 95 % of the minutes do not exceed."""
    busiest_minute: str
    """The minute with the most starts."""
    starts_in_it: int
    slots: int
    chart: tuple[int, ...]
    """The largest number of active runs in a minute, for each of sixty equal parts of the window."""


class Overlaps(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is due while it still runs."""

    job: str
    overlap: Overlap
    count: int
    """The number of such instants."""
    of: int
    what: str


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose runs wait for a slot of the node, or for a share of a limit."""

    job: str
    count: int
    longest_s: float
    longest_at: str


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a recovery strategy after an outage: for one job, or for all."""

    strategy: Recovery
    runs: int
    missed: int
    compressed: int = 0
    """The number of instants that a run of another instant covers."""
    job: str = ""


class OutageTold(msgspec.Struct, frozen=True, kw_only=True):
    """An outage in the report."""

    start: str
    end: str
    due: int
    orphaned: int
    """The number of runs that the outage interrupts."""
    if_all_were: tuple[Recovered, ...]
    """The result of each strategy, if all jobs had it."""
    as_configured: tuple[Recovered, ...]
    """The result with the configured strategies, job by job."""
    made_up_at: str
    """The end of recovery."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast, as `--json` prints it."""

    start: str
    end: str
    jobs: int
    occurrences: int
    states: dict[str, int]
    load: Load
    overlaps: tuple[Overlaps, ...]
    waits: tuple[Waits, ...]
    nights: tuple[ClockChange, ...]
    outages: tuple[OutageTold, ...]
    assumed: int
    """The number of jobs of unknown duration."""
    assumed_s: float
    """The assumed duration of each of their tasks."""
    gaps: tuple[str, ...]


class ForecastOccurrence(msgspec.Struct, frozen=True):
    """A forecast occurrence."""

    job: str
    instant: int
    state: OccurrenceState
    started_at: int | None
    ended_at: int
    is_recovery: bool


def occurrences(stage: ForecastSimulator, found: ForecastColumns) -> list[ForecastOccurrence]:
    """Return the forecast occurrences, one by one."""
    names = {number: row.name for number, row in stage.plans.timeline.jobs.items()}
    columns = (found.jobs, found.instants, found.outcomes.states, found.outcomes.starts, found.outcomes.ends)
    rows = zip(*(column.tolist() for column in columns), found.is_recovery.tolist(), strict=True)
    return [
        ForecastOccurrence(names[job], instant, STATES[state], None if start == NEVER else start, end, is_recovery)
        for job, instant, state, start, end, is_recovery in rows
    ]


def told(stage: ForecastSimulator, found: ForecastColumns, outages: Sequence[Outage], takes: TaskDurations) -> Forecast:
    """Return the report of a forecast."""
    timeline = stage.plans.timeline
    states, counts = np.unique(found.outcomes.states, return_counts=True)
    assumed = sum(takes.source(stage.plan(number)) == "assumed" for number in timeline.jobs)
    return Forecast(
        start=shown_instant(found.start),
        end=shown_instant(found.end),
        jobs=len(timeline.jobs),
        occurrences=len(found),
        states={STATES[state]: count for state, count in zip(states.tolist(), counts.tolist(), strict=True)},
        load=_load(stage, found),
        overlaps=_overlaps(stage, found),
        waits=_waits(stage, found),
        nights=nights_in(timeline, found.start, found.end),
        outages=tuple(
            _outage(stage, found, outage, made_up_at)
            for outage, made_up_at in zip(sorted(outages), found.made_up_at, strict=True)
        ),
        assumed=assumed,
        assumed_s=takes.default / SECOND,
        gaps=tuple(f"{timeline.jobs[gap.job].name}: {gap.reason}" for gap in found.gaps),
    )


# -- load ------------------------------------------------------------------------------------------------------------


def _load(stage: ForecastSimulator, found: ForecastColumns) -> Load:
    begun = found.outcomes.starts != NEVER
    first = found.start // _MINUTE
    starts = found.outcomes.starts[begun] // _MINUTE - first
    ends = np.maximum((found.outcomes.ends[begun] - 1) // _MINUTE - first, starts)
    minutes = max(-(-found.end // _MINUTE) - first, int(ends.max(initial=0)) + 1)
    changes = np.bincount(starts, minlength=minutes + 1) - np.bincount(ends + 1, minlength=minutes + 1)
    under_way = np.cumsum(changes)[:minutes]
    beginning = np.bincount(starts, minlength=minutes)
    peak, busiest = int(under_way.argmax()), int(beginning.argmax())
    parts = np.array_split(under_way, min(_CHART_PARTS, minutes))
    return Load(
        peak=int(under_way[peak]),
        peak_at=shown_instant((first + peak) * _MINUTE),
        at_once=_at_once(found.outcomes.starts[begun], found.outcomes.ends[begun]),
        p95=float(np.percentile(under_way, _P95)),
        busiest_minute=shown_instant((first + busiest) * _MINUTE),
        starts_in_it=int(beginning[busiest]),
        slots=stage.settings.max_concurrent_jobs,
        chart=tuple(int(part.max()) for part in parts),
    )


def _at_once(starts: Numbers, ends: Numbers) -> int:
    """Return the largest number of active runs at one instant. Ends count before starts."""
    begins = np.sort(starts)
    under_way = np.arange(1, len(begins) + 1) - np.searchsorted(np.sort(ends), begins, "right")
    return int(under_way.max(initial=0))


# -- overlaps and waits ----------------------------------------------------------------------------------------------


def _by_job(found: ForecastColumns) -> list[tuple[JobNumber, Numbers]]:
    order = np.lexsort((found.instants, found.jobs))
    bounds = np.flatnonzero(np.diff(found.jobs[order])) + 1
    return [(JobNumber(int(found.jobs[rows[0]])), rows) for rows in np.split(order, bounds) if len(rows)]


def _after_itself(found: ForecastColumns, rows: Numbers) -> Numbers:
    """Return which runs of a job are due while an earlier one is active."""
    starts, ends = found.outcomes.starts[rows], found.outcomes.ends[rows]
    reached = np.maximum.accumulate(np.where(starts == NEVER, 0, ends))
    return rows[1:][(found.instants[rows][1:] < reached[:-1]) & ~found.is_recovery[rows][1:]]


def _overlaps(stage: ForecastSimulator, found: ForecastColumns) -> tuple[Overlaps, ...]:
    told_of = []
    for job, rows in _by_job(found):
        touching = _after_itself(found, rows)
        if not len(touching):
            continue
        plan = stage.plan(job)
        overlap = plan.start_config.config.job.overlap
        states = found.outcomes.states[touching]
        skipped = int((states == CODES[OccurrenceState.SKIPPED]).sum())
        match overlap:
            case Overlap.SKIP:
                what = f"{skipped} skipped"
            case Overlap.ALLOW:
                what = "run side by side"
            case Overlap.QUEUE:
                waits = (found.outcomes.starts[touching] - found.instants[touching]).max(initial=0) / SECOND
                what = f"wait in line, the longest {waits:,.0f} s" + (f"; {skipped} skipped" if skipped else "")
            case Overlap.REPLACE:
                ended = int((found.outcomes.states[rows] == CODES[OccurrenceState.CANCELLED]).sum())
                what = f"{ended} ended by the next"
            case _:
                assert_never(overlap)
        told_of.append(Overlaps(job=plan.name, overlap=overlap, count=len(touching), of=len(rows), what=what))
    return tuple(sorted(told_of, key=lambda one: (-one.count, one.job)))


def _waits(stage: ForecastSimulator, found: ForecastColumns) -> tuple[Waits, ...]:
    told_of = []
    for job, rows in _by_job(found):
        behind_itself = set(_after_itself(found, rows).tolist())
        plan = stage.plan(job)
        due = found.instants[rows]
        if plan.jitters:
            due = np.array([plan.due_at(instant) for instant in due.tolist()])
        waits = np.where(found.is_recovery[rows], 0, found.outcomes.starts[rows] - due)
        waiting = [place for place in np.flatnonzero(waits > 0).tolist() if int(rows[place]) not in behind_itself]
        if waiting:
            longest = max(waiting, key=lambda place: waits[place])
            told_of.append(
                Waits(
                    job=plan.name,
                    count=len(waiting),
                    longest_s=float(waits[longest]) / SECOND,
                    longest_at=shown_instant(int(found.instants[rows[longest]])),
                )
            )
    return tuple(sorted(told_of, key=lambda one: (-one.longest_s, one.job)))


# -- outages ---------------------------------------------------------------------------------------------------------


def _outage(stage: ForecastSimulator, found: ForecastColumns, outage: Outage, made_up_at: int) -> OutageTold:
    timeline = stage.plans.timeline
    expected = timeline.expected(outage.start, outage.end)
    totals = {strategy: Recovered(strategy=strategy, runs=0, missed=0) for strategy in Recovery}
    configured = []
    for job in np.unique(expected.jobs).tolist():
        instants = expected.instants[(expected.jobs == job) & expected.is_to_run]
        plan = stage.plan(JobNumber(job))
        recovery = plan.start_config.config.job.recovery
        for strategy in Recovery:
            policy = RecoveryTerms(
                plan.version,
                timeline.schedule(JobNumber(job), plan.version),
                replace(recovery, strategy=strategy),
                overlap=plan.start_config.config.job.overlap,
            )
            one = _recovered(stage, JobNumber(job), instants, policy, outage.end)
            total = totals[strategy]
            totals[strategy] = replace(
                total,
                runs=total.runs + one.runs,
                missed=total.missed + one.missed,
                compressed=total.compressed + one.compressed,
            )
            if strategy is recovery.strategy and len(instants):
                configured.append(replace(one, job=plan.name))
    orphaned = (found.outcomes.states == CODES[OccurrenceState.ORPHANED]) & (found.outcomes.ends == outage.start)
    return OutageTold(
        start=shown_instant(outage.start),
        end=shown_instant(outage.end),
        due=int(expected.is_to_run.sum()),
        orphaned=int(orphaned.sum()),
        if_all_were=tuple(totals.values()),
        as_configured=tuple(sorted(configured, key=lambda one: (-one.runs, -one.missed, one.job))),
        made_up_at=shown_instant(made_up_at),
    )


def _recovered(
    stage: ForecastSimulator, job: JobNumber, instants: Numbers, policy: RecoveryTerms, end: int
) -> Recovered:
    """Count what the sweep writes for instants of a job. Instants within the grace period simply run late."""
    late = int((instants >= end - stage.grace_period).sum())
    older = instants[: len(instants) - late]
    missing = MissingInstants(older, np.arange(len(older)), np.full(len(older), policy.version))
    runs = missed = compressed = 0
    for row in recovered(stage.plans.timeline.jobs[job], missing, {policy.version: policy}, end):
        count = 1 if row.window is None else row.window.count
        if row.status is OccurrenceState.MISSED:
            missed += count
        else:
            runs += 1
            compressed += count - 1
    return Recovered(strategy=policy.recovery.strategy, runs=runs + late, missed=missed, compressed=compressed)
