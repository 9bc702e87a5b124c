"""The page of a job: status, upcoming and past runs, changes, and definition.

A single read of the last hundred history rows serves the table, the duration chart and the calendar of the year.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from itinerary.core.timeline.history import JobPaused, JobRemoved, JobStopped
from itinerary.errors import ItineraryError
from itinerary.model.ids import job_id
from itinerary.model.queries import ActiveQuery, HistoryQuery, NodesQuery
from itinerary.model.rows import JobRow
from itinerary.model.scopes import Scope
from itinerary.read.job_detail import TaskDeclared, job_detail
from itinerary.read.jobs import JobState
from itinerary.read.runs import RunView, run_seen
from itinerary.read.snapshot import StoreSnapshot, at, moment
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of
from itinerary.web.charts.durations import Bar, durations, percentiles
from itinerary.web.daily_counts import DailyCounts
from itinerary.web.live import RenderedPage
from itinerary.web.pages.filters import run_url, span
from itinerary.web.pages.history import ENDS
from itinerary.web.pages.local_time import on_the_wall
from itinerary.web.pages.lookup import job_called
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.pages.versions import VersionChanges
from itinerary.web.pages.year import year_drawn
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page
from itinerary.web.server_state import ServerState

__all__ = ["JOB"]

_FRESH_FOR: Final = 10 * SECOND
"""How long a page stays valid if nothing happens to its job: nodes may join and leave."""
_NEXT: Final = 8
_ACTIVE_MAX: Final = 1_000
_CHARTED: Final = 100
_LISTED: Final = 15
"""The number of latest runs in the table of the page."""
_TASKS_MAX: Final = 50
_ACTIONS: Final[Mapping[JobState, tuple[str, ...]]] = {
    JobState.ACTIVE: ("trigger", "pause", "skip", "backfill", "stop", "remove"),
    JobState.LATER: ("trigger", "pause", "skip", "stop", "remove"),
    JobState.FINISHED: ("trigger", "backfill", "remove"),
    JobState.PAUSED: ("resume", "trigger", "backfill", "stop", "remove"),
    JobState.STOPPED: ("start", "trigger", "backfill", "remove"),
    JobState.QUARANTINED: ("pause", "stop", "remove"),
    JobState.REMOVED: (),
}
_WORDS: Final = {"trigger": "Trigger now", "skip": "Skip next"}


@page("/jobs/{called}", needs=Scope.READ)
async def job_page(request: Request, called: str) -> AnyResponse:
    """One job."""
    app = request.app
    return await shown(request, _Page(app.server, called, app.daily_counts, app.version_changes).draw)


JOB = (job_page,)


class _Known(msgspec.Struct, frozen=True):
    """A rendered page, and the conditions under which it stays valid."""

    mark: object
    until: int
    page: RenderedPage


class _Page:
    """The page of one job. Rendered again for followers only if something has happened."""

    def __init__(self, server: ServerState, called: str, counting: DailyCounts, changes: VersionChanges) -> None:
        self._server, self._called, self._counting, self._changes = server, called, counting, changes
        self._known: _Known | None = None

    async def draw(self, snapshot: StoreSnapshot) -> RenderedPage:
        job = job_called(self._server, snapshot, self._called)
        mark = await _mark(snapshot, job)
        known = self._known
        if known is not None and known.mark == mark and snapshot.now < known.until:
            return known.page
        page, until = await _job(snapshot, job, self._counting, self._changes)
        self._known = _Known(mark, until, page)
        return page


async def _mark(snapshot: StoreSnapshot, job: JobRow) -> object:
    """Return a value that changes with every event of a job: an entry, an end, a step of an active occurrence."""
    newest = await snapshot.store.read(HistoryQuery(job.number, limit=1))
    active = await snapshot.store.read(ActiveQuery(job.number, limit=_ACTIVE_MAX))
    steps = [(row.ref, row.status, row.sequence, row.fence, row.due_at <= snapshot.now) for row in active]
    return snapshot.timeline.revision, [row.place for row in newest.rows], steps


class _StatusShown(msgspec.Struct, frozen=True):
    """A decision about the whole job: a pause, a stop or a removal."""

    by: str
    since: datetime
    reason: str | None = None
    until: datetime | None = None


# -- the page --------------------------------------------------------------------------------------------------------


async def _job(
    snapshot: StoreSnapshot, job: JobRow, counting: DailyCounts, changes: VersionChanges
) -> tuple[RenderedPage, int]:
    """Render the page. Returns it with the time until which it stays valid if nothing happens."""
    detail = await job_detail(snapshot, job, limit=_NEXT, counted_max=_ACTIVE_MAX)
    newest = await snapshot.store.read(HistoryQuery(job.number, limit=_CHARTED))
    nodes = {row.number: row.name for row in await snapshot.store.read(NodesQuery())}
    runs = [run_seen(row, job, nodes) for row in newest.rows]
    zone = detail.seen.timezone
    year = await counting.year(snapshot, job.number, zone, newest)
    last_changes, more_changes = changes.last(snapshot, job)
    parts = {
        "status": drawn(
            "job/status.html",
            job=detail,
            status=_status(snapshot, job),
            actions=[(what, _WORDS.get(what, what.capitalize())) for what in _ACTIONS[detail.seen.state]],
            identity=job_id(job.name),
            counted_max=_ACTIVE_MAX,
        ),
        "next": drawn(
            "job/next.html",
            zone=zone,
            instants=[(instant, on_the_wall(snapshot, instant, zone)) for instant in detail.next_runs],
            state=detail.seen.state,
        ),
        "active": drawn("job/active.html", job=detail),
        "year": year_drawn(job.name, zone, year),
        "recent": _recent(runs),
        "history": drawn("job/history.html", job=job.name, runs=runs[:_LISTED], states=ENDS),
        "changes": drawn("job/changes.html", changes=last_changes, more=more_changes),
        "configuration": drawn("configuration.html", settings=detail.configuration),
        "tasks": drawn(
            "job/tasks.html",
            job=detail,
            tasks=[(task, _runs_what(task)) for task in detail.tasks[:_TASKS_MAX]],
            more=max(len(detail.tasks) - _TASKS_MAX, 0),
        ),
    }
    is_whole = year.is_whole and all(change.meant is not None for change in last_changes if change.is_compared)
    until = [snapshot.now + _FRESH_FOR, *(microseconds_of(instant) for instant in detail.next_runs[:1])]
    return RenderedPage(title=job.name, parts=parts), min(until) if is_whole else snapshot.now


def _status(snapshot: StoreSnapshot, job: JobRow) -> _StatusShown | None:
    """Return the user who paused, stopped or removed the job, when and why; None if no user did."""
    try:
        segment = snapshot.segment(job.number)
    except ItineraryError:  # the state of the job shows the error
        return None
    match None if segment is None else segment.status:
        case JobPaused() as paused:
            return _StatusShown(paused.by, at(paused.since), paused.reason, moment(paused.until))
        case JobStopped() | JobRemoved() as other:
            return _StatusShown(other.by, at(other.since), other.reason)
        case _:
            return None


def _runs_what(task: TaskDeclared) -> str:
    """Format what a task runs, one line for each key."""
    said: dict[str, Any] = task.runs
    values = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in said.items()
    }
    return "\n".join(f"{key}: {value}" for key, value in values.items())


def _recent(runs: Sequence[RunView]) -> str:
    """Render the chart of the latest runs: durations and outcomes."""
    found = percentiles([run.took_seconds for run in runs if run.took_seconds is not None])
    bars = [Bar(run.took_seconds, run.state, _told(run), run_url(run.number)) for run in reversed(runs)]
    words = ("", "") if found is None else (span(found.middle), span(found.high))
    chart = durations(bars, found, words, f"How long the last {len(runs)} took", _CHARTED)
    states = [(state, sum(run.state is state for run in runs)) for state in ENDS]
    return drawn("job/recent.html", count=len(runs), found=found, chart=chart, states=[one for one in states if one[1]])


def _told(run: RunView) -> str:
    when = "" if run.instant is None else f"{run.instant:%Y-%m-%d %H:%M:%S} UTC: "
    took = "" if run.took_seconds is None else f", took {span(run.took_seconds)}"
    return f"{when}{run.state.replace('_', ' ')}{took}"


assert set(_ACTIONS) == set(JobState), "every state has its actions"
