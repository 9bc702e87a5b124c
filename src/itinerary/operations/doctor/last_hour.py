"""Checks of the last hour: failed runs, orphaned runs, and undelivered alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from itinerary.config.alerts import reachable
from itinerary.config.configuration import Configuration
from itinerary.model.queries import EventsQuery, RecentQuery
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.observe.incidents import ALERTS_STREAM, Alert, Incidents
from itinerary.observe.webhooks import receiver_of
from itinerary.operations.doctor.findings import CheckResult, Severity
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["SINCE", "alerts", "failures", "orphans", "recent_runs", "undelivered"]

SINCE: Final = 3_600 * SECOND
"""The period that the doctor checks, in microseconds."""
_JOBS_AT_ONCE: Final = 1_000
_ROWS_MAX: Final = 100_000
_RUNS_MAX: Final = 50
"""The number of last runs that are read for each job; fewer if there are very many jobs."""
_NAMED_MAX: Final = 5
_OWED_FOR: Final = 60 * SECOND
"""How long the delivery of an alert may take."""
_PAGE: Final = 1_000
_FAILED: Final = frozenset({OccurrenceState.FAILED, OccurrenceState.FAILED_STALE})
_DECISIVE: Final = _FAILED | {OccurrenceState.ORPHANED, OccurrenceState.COMPLETED}


async def recent_runs(snapshot: StoreSnapshot) -> dict[JobNumber, list[OccurrenceRow]]:
    """Return the runs of each job that ended within the last hour, newest first."""
    jobs = [row.number for row in snapshot.named()]
    limit = max(1, min(_RUNS_MAX, _ROWS_MAX // max(len(jobs), 1)))
    found: dict[JobNumber, list[OccurrenceRow]] = {}
    for first in range(0, len(jobs), _JOBS_AT_ONCE):
        page = await snapshot.store.read(RecentQuery(tuple(jobs[first : first + _JOBS_AT_ONCE]), limit))
        for job, rows in page.items():
            if ended := [row for row in rows if (row.ended_at or 0) >= snapshot.now - SINCE]:
                found[job] = ended
    return found


def failures(snapshot: StoreSnapshot, runs: Mapping[JobNumber, Sequence[OccurrenceRow]]) -> list[CheckResult]:
    """Find jobs that failed within the last hour, and note whether they have succeeded since."""
    still, over = _split(runs, _FAILED)
    found = []
    if still:
        words = f"failed in the last hour, and has not succeeded since: {_counted(snapshot, still)}"
        found.append(CheckResult("failures", Severity.WRONG, words, _explain(snapshot, still)))
    if over:
        words = f"failed in the last hour, and has succeeded since: {_counted(snapshot, over)}"
        found.append(CheckResult("failures", Severity.DOUBTFUL, words, _history(snapshot, over)))
    return found or [CheckResult("failures", Severity.WELL, "no run failed in the last hour")]


def orphans(snapshot: StoreSnapshot, runs: Mapping[JobNumber, Sequence[OccurrenceRow]]) -> list[CheckResult]:
    """Find jobs that lost a run with its node within the last hour."""
    still, over = _split(runs, frozenset({OccurrenceState.ORPHANED}))
    found = []
    for lost, level, since in (
        (still, Severity.WRONG, "has not succeeded"),
        (over, Severity.DOUBTFUL, "has succeeded"),
    ):
        if lost:
            words = f"lost a run with its node in the last hour, and {since} since: {_counted(snapshot, lost)}"
            advice = '`itinerary replay RUN` runs it again; a job with `on_orphan = "rerun"` does so by itself'
            found.append(CheckResult("orphans", level, words, advice))
    return found or [CheckResult("orphans", Severity.WELL, "no run was lost with its node in the last hour")]


async def alerts(snapshot: StoreSnapshot, configuration: Configuration) -> list[CheckResult]:
    """Check that every receiver is reachable and has every alert."""
    if not configuration.alert_urls:
        return [CheckResult("alerts", Severity.WELL, "no receiver is set (alert_urls), so none is sent")]
    found = await undelivered(snapshot, configuration)
    for tested in await reachable(configuration):
        if tested.why is not None:
            advice = "correct alert_urls, allow_hosts or the secret; `itinerary alert --test` tries it"
            found.append(CheckResult("alerts", Severity.WRONG, tested.sentence, advice))
    return found or [CheckResult("alerts", Severity.WELL, "every receiver can be reached, and has every alert")]


async def undelivered(snapshot: StoreSnapshot, configuration: Configuration) -> list[CheckResult]:
    """Find alerts that a receiver has not received, and alerts that were given up within a day."""
    receivers = [receiver_of(url).name for url in configuration.alert_urls]
    log = Incidents()
    while True:
        page = await snapshot.store.read(EventsQuery(ALERTS_STREAM, log.sequence, limit=_PAGE))
        log.take(page, receivers)
        if len(page) < _PAGE:
            break
    owed = {
        alert.alert: alert
        for receiver in receivers
        for alert in log.owed_to(receiver)
        if snapshot.now - alert.at_microseconds > _OWED_FOR
    }
    given_up = [alert for alert in log.given_up if snapshot.now - alert.at_microseconds < 24 * SINCE]
    found = []
    if owed:
        words = f"{_many(owed.values())} not arrived, the oldest for {_since(snapshot, owed.values())}"
        advice = "`itinerary alert --test` says why; a node with alert_urls tries again for a day"
        found.append(CheckResult("alerts", Severity.WRONG, words, advice))
    if given_up:
        words = f"{_many(given_up)} not arrived, and will not be sent again"
        found.append(CheckResult("alerts", Severity.WRONG, words, "`itinerary alert --test` says why"))
    return found


def _many(owed: Iterable[Alert]) -> str:
    jobs = [alert.job for alert in owed]
    names = ", ".join(sorted(set(jobs))[:_NAMED_MAX])
    return f"1 alert (of {names}) has" if len(jobs) == 1 else f"{len(jobs):,} alerts (of {names}) have"


def _since(snapshot: StoreSnapshot, owed: Iterable[Alert]) -> str:
    return format_duration((snapshot.now - min(alert.at_microseconds for alert in owed)) // SECOND * SECOND)


def _split(
    runs: Mapping[JobNumber, Sequence[OccurrenceRow]], states: frozenset[OccurrenceState]
) -> tuple[Counter[JobNumber], Counter[JobNumber]]:
    """Count the runs that ended in these states, by job: jobs without a later success, and jobs with one."""
    still: Counter[JobNumber] = Counter()
    over: Counter[JobNumber] = Counter()
    for job, rows in runs.items():
        if not (count := sum(row.status in states for row in rows)):
            continue
        newest = next(row for row in rows if row.status in _DECISIVE)
        (over if newest.status is OccurrenceState.COMPLETED else still)[job] = count
    return still, over


def _counted(snapshot: StoreSnapshot, jobs: Counter[JobNumber]) -> str:
    most = jobs.most_common()
    names = ", ".join(f"{snapshot.timeline.jobs[job].name} ({count:,})" for job, count in most[:_NAMED_MAX])
    return f"{names} and {len(most) - _NAMED_MAX:,} more jobs" if len(most) > _NAMED_MAX else names


def _explain(snapshot: StoreSnapshot, jobs: Counter[JobNumber]) -> str:
    return f"`itinerary explain {_most_counted(snapshot, jobs)}` says why, and what to do"


def _history(snapshot: StoreSnapshot, jobs: Counter[JobNumber]) -> str:
    """Return advice for a job that has succeeded since: `explain` would show its last run, not the failed one."""
    return f"`itinerary history {_most_counted(snapshot, jobs)}` shows the runs that failed, and why"


def _most_counted(snapshot: StoreSnapshot, jobs: Counter[JobNumber]) -> str:
    return snapshot.timeline.jobs[jobs.most_common(1)[0][0]].name
