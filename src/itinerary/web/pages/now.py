"""The first page: running, waiting, upcoming, late and failing runs, the nodes, and the health of the loop.

Every list is bounded: it shows the first rows and the number of further ones. The latest outcomes of all jobs are read
in small steps (see `poller`).
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from itinerary.model.queries import ActiveQuery, DetailsQuery, NodesQuery, RecentQuery
from itinerary.model.rows import JobNumber, NodeNumber, OccurrenceRow
from itinerary.model.scopes import Scope
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.read.jobs import JobState
from itinerary.read.loop_statistics import LoopSummary, loop_summary
from itinerary.read.nodes import NodeSeen, NodeState, heard_of, nodes_seen
from itinerary.read.runs import RunView, is_waiting, run_seen, why_waiting
from itinerary.read.snapshot import StoreSnapshot, at, moment
from itinerary.web.live import RenderedPage
from itinerary.web.pages.health import health
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.pages.typical_duration import TypicalDuration, usual
from itinerary.web.poller import FAILED, Poller
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page

__all__ = ["NOW", "draw_now"]

_NODES_MAX: Final = 20
_LOOPS_MAX: Final = 5
_ROWS_MAX: Final = 15
_NEXT_MAX: Final = 15
_ACTIVE_MAX: Final = 2_000
_IN_A_ROW_MAX: Final = 64
"""The maximum number of consecutive failures that are counted."""


class RunningItem(msgspec.Struct, frozen=True):
    """A running occurrence."""

    run: RunView
    task: str | None
    """The running task: `2 of 3: compress`."""
    usual: TypicalDuration | None


class WaitingItem(msgspec.Struct, frozen=True):
    """A waiting occurrence, and what it waits for."""

    run: RunView
    why: str | None


class FailingItem(msgspec.Struct, frozen=True):
    """A job whose latest run failed."""

    job: str
    run: RunView
    in_a_row: int
    is_more: bool
    """True if there may be more consecutive failures than were counted."""
    since: datetime | None


class LateItem(msgspec.Struct, frozen=True):
    """An occurrence that is due and not decided."""

    job: str
    due_at: datetime
    why: str


@page("/", needs=Scope.READ)
async def now(request: Request) -> AnyResponse:
    """The first page."""
    return await shown(request, partial(draw_now, request.app.server.rounds))


NOW = (now,)


async def draw_now(rounds: Poller, snapshot: StoreSnapshot) -> RenderedPage:
    """Render the first page."""
    if not snapshot.timeline.jobs:
        return RenderedPage(title="Now", parts={"first": drawn("now/first.html", store=snapshot.store.url)})
    names = {row.number: row.name for row in await snapshot.store.read(NodesQuery())}
    rows = await snapshot.store.read(ActiveQuery(limit=_ACTIVE_MAX))
    begun = sorted((row for row in rows if row.started_at is not None), key=lambda row: row.started_at or 0)
    waiting = sorted(
        (row for row in rows if row.started_at is None and is_waiting(row, snapshot.now)), key=lambda row: row.due_at
    )
    coming = [
        (at(instant), snapshot.timeline.jobs[job].name) for instant, job in await rounds.coming(snapshot, _NEXT_MAX)
    ]
    nodes = await _nodes(snapshot)
    failing = sorted(rounds.failing, key=lambda job: -(rounds.failing[job].ended_at or 0))
    late = [
        LateItem(snapshot.timeline.jobs[one.job].name, at(one.due_at), _why(one.status))
        for one in rounds.late[:_ROWS_MAX]
    ]
    counts = (await rounds.book(snapshot)).counts
    running = await _running(snapshot, begun[:_ROWS_MAX], names)
    parts = {
        "headline": drawn(
            "now/headline.html",
            jobs=sum(counts.values()) - counts[JobState.REMOVED],
            paused=counts[JobState.PAUSED],
            quarantined=counts[JobState.QUARANTINED] + len(rounds.lacked),
            running=len(begun),
            waiting=len(waiting),
            failing=len(failing),
            late=len(rounds.late),
            silent=sum(node.state is NodeState.SILENT for node in nodes),
            died=sum(node.state is NodeState.DIED for node in nodes),
            is_alone=not any(node.state is NodeState.RUNNING for node in nodes),
            behind=[node for node in nodes if node.behind is not None],
            following=coming[0] if coming else None,
            seen_percent=int(rounds.seen_share * 20) * 5,
        ),
        "running": drawn("now/running.html", running=running, more=len(begun) - len(running)),
        "waiting": drawn(
            "now/waiting.html",
            waiting=_waiting(snapshot, waiting, names),
            more=max(len(waiting) - _ROWS_MAX, 0),
            is_cut=len(rows) >= _ACTIVE_MAX,
        ),
        "trouble-list": drawn(
            "now/failing.html",
            failing=await _failing(snapshot, failing[:_ROWS_MAX], names),
            more=max(len(failing) - _ROWS_MAX, 0),
            late=late,
            more_late=len(rounds.late) - len(late),
        ),
        "coming": drawn("now/coming.html", coming=coming),
        "health": drawn("now/health.html", charts=health(rounds, snapshot.now)),
        "nodes": drawn("now/nodes.html", nodes=nodes),
        "loops": drawn("now/loops.html", loops=await _loops(snapshot)),
    }
    return RenderedPage(title="Now", parts=parts)


async def _nodes(snapshot: StoreSnapshot) -> list[NodeSeen]:
    return await nodes_seen(snapshot.store, snapshot.now, {}, limit=_NODES_MAX)


async def _loops(snapshot: StoreSnapshot) -> list[LoopSummary]:
    """Return the last minute of loop statistics of the live nodes."""
    present = [row for row in await snapshot.store.read(NodesQuery()) if heard_of(row, snapshot.now)]
    found = [await loop_summary(snapshot.store, row, snapshot.now) for row in present[:_LOOPS_MAX]]
    return [summary for summary in found if summary is not None]


async def _running(
    snapshot: StoreSnapshot, rows: list[OccurrenceRow], names: dict[NodeNumber, str]
) -> list[RunningItem]:
    details = {one.row.ref: one for one in await snapshot.store.read(DetailsQuery(tuple(row.ref for row in rows)))}
    past = await snapshot.store.read(RecentQuery(tuple({row.job for row in rows}), _IN_A_ROW_MAX))
    found = []
    for row in rows:
        job = snapshot.timeline.jobs[row.job]
        detail = details.get(row.ref)
        task = None
        if detail is not None:
            task = _task(snapshot, row, {one.place for one in detail.attempts if one.status is TaskState.RUNNING})
        found.append(RunningItem(run_seen(row, job, names), task, usual(past.get(row.job, ()))))
    return found


def _task(snapshot: StoreSnapshot, row: OccurrenceRow, places: set[int]) -> str | None:
    """Describe which tasks are running; None if the job has only one task."""
    segment = snapshot.segment(row.job)
    tasks = [] if segment is None else sorted(segment.definition.tasks, key=lambda task: task.order)
    if len(tasks) < 2:
        return None
    running = [place for place in sorted(places) if place < len(tasks)]
    if not running:
        return f"between two of {len(tasks)} tasks"
    numbers = ", ".join(str(place + 1) for place in running)
    return f"{numbers} of {len(tasks)}: {', '.join(tasks[place].name for place in running)}"


def _waiting(snapshot: StoreSnapshot, rows: list[OccurrenceRow], names: dict[NodeNumber, str]) -> list[WaitingItem]:
    seen = [run_seen(row, snapshot.timeline.jobs[row.job], names) for row in rows]
    found = []
    for run in seen[:_ROWS_MAX]:
        line = [one for one in reversed(seen) if one.job == run.job and one.state is OccurrenceState.QUEUED]
        found.append(WaitingItem(run, why_waiting(run, line)))
    return found


async def _failing(snapshot: StoreSnapshot, jobs: list[JobNumber], names: dict[NodeNumber, str]) -> list[FailingItem]:
    past = await snapshot.store.read(RecentQuery(tuple(jobs), _IN_A_ROW_MAX))
    found = []
    for job in jobs:
        rows = [row for row in past.get(job, ()) if row.status in FAILED or row.started_at is not None]
        streak = []
        for row in rows:
            if row.status not in FAILED:
                break
            streak.append(row)
        if not streak:  # the job has just succeeded
            continue
        seen = run_seen(streak[0], snapshot.timeline.jobs[job], names)
        first = streak[-1]
        is_more = len(streak) == len(rows) == _IN_A_ROW_MAX
        found.append(FailingItem(seen.job, seen, len(streak), is_more, moment(first.started_at or first.instant)))
    return found


def _why(status: OccurrenceState | None) -> str:
    return "nobody has taken it up" if status is None else "somebody has claimed it, and not begun"
