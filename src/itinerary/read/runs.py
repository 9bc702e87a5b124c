"""The runs of a job, and one run in full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from itinerary.core.recovery.pause import held_row
from itinerary.errors import ItineraryError, NotFoundError
from itinerary.model.codec import from_json
from itinerary.model.config import EffectiveConfig, FrozenConfig
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import OverrideLevel
from itinerary.model.queries import PAGE_MAX, ActiveQuery, Detail, DetailsQuery, HistoryQuery, NodesQuery
from itinerary.model.report_builder import task_times
from itinerary.model.rows import AttemptRow, JobNumber, JobRow, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.run_request import RunRequestInfo, read_adjusted, read_asked
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.read.run_lookup import RunReference
from itinerary.read.snapshot import StoreSnapshot, moment, seconds

__all__ = [
    "AdjustmentSeen",
    "AttemptSeen",
    "HistoryPage",
    "RunDetail",
    "RunView",
    "SettingSeen",
    "StepSeen",
    "TaskSeen",
    "WindowSeen",
    "active_runs",
    "history_page",
    "is_waiting",
    "run_detail",
    "run_seen",
    "settings_seen",
    "why_waiting",
]

_CALLS_MAX: Final = 50
"""The limit of store pages for one page here: for a rare state, each store page scans ten thousand occurrences."""


class WindowSeen(msgspec.Struct, frozen=True):
    """The collapsed range of a row: many instants in one row."""

    start: datetime | None
    end: datetime | None
    count: int


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run in one row."""

    id: UUID
    number: Ref
    """The number in the store, for the fastest lookup."""
    run: str
    job: str
    kind: Kind
    is_recovery: bool
    version: int
    instant: datetime | None
    state: OccurrenceState
    started_at: datetime | None
    ended_at: datetime | None
    late_seconds: float | None
    """Start lateness in seconds; None if the run never started, or its instant is not the reason of its start."""
    took_seconds: float | None
    node: str | None
    reason: str | None
    window: WindowSeen | None


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a job's runs, newest first."""

    job: str
    active: tuple[RunView, ...]
    """Runs that have not ended; on the first page only."""
    runs: tuple[RunView, ...]
    next: int | None
    """The argument `--before` of the next page; None if this is the last page."""


class StepSeen(msgspec.Struct, frozen=True):
    """A line of the audit trail."""

    at: datetime | None
    before: OccurrenceState | None
    after: OccurrenceState
    node: str | None
    why: str | None


class AttemptSeen(msgspec.Struct, frozen=True):
    """An attempt of a task."""

    number: int
    status: TaskState
    started_at: datetime | None
    ended_at: datetime | None
    took_seconds: float | None
    error: str | None
    output: str | None


class TaskSeen(msgspec.Struct, frozen=True):
    """A task of an occurrence."""

    name: str
    status: TaskState
    retries: int
    cancelled_by: str | None
    reason: str | None
    result: msgspec.Raw | None
    attempts: tuple[AttemptSeen, ...]
    place: int
    """The position in the job, which identifies the task in the store."""
    started_at: datetime | None = None
    """The start of the first attempt."""
    ended_at: datetime | None = None
    """The end of the last attempt; None while the task runs, and if no node recorded the end."""
    took_seconds: float | None = None
    """The duration from start to end, with the waits between attempts."""


class SettingSeen(msgspec.Struct, frozen=True):
    """A configuration value and its source."""

    key: str
    value: str
    source: OverrideLevel
    declared_in: str | None = None
    """The file or program whose defaults set the value, if known; None for a value that no defaults set."""

    @property
    def set_by(self) -> str:
        """The source of the value in words: `job`, `defaults of /srv/jobs.toml`."""
        if self.source is not OverrideLevel.SETTINGS:
            return str(self.source)
        return "defaults" if self.declared_in is None else f"defaults of {self.declared_in}"


def settings_seen(config: EffectiveConfig, declared_in: str | None) -> list[SettingSeen]:
    """Return the values of a configuration. `declared_in` is the file or program whose defaults are part of it."""
    return [SettingSeen(*row, declared_in if row.source is OverrideLevel.SETTINGS else None) for row in config.rows()]


class AdjustmentSeen(msgspec.Struct, frozen=True):
    """Values that a user set on a run before it started."""

    at: datetime | None
    by: str
    reason: str | None
    values: dict[str, Any]

    @property
    def words(self) -> str:
        """The values in one line: `priority=9, retry.max_retries=3`."""
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run in full."""

    run: RunView
    due_at: datetime | None
    priority: int
    cancelled_by: str | None
    asked: RunRequestInfo | None
    """The request for the run; None if no user requested it."""
    adjusted: tuple[AdjustmentSeen, ...]
    """The values that were set before the start, with user and reason."""
    trail: tuple[StepSeen, ...]
    tasks: tuple[TaskSeen, ...]
    configuration: tuple[SettingSeen, ...]
    """The configuration at the start."""


async def history_page(
    snapshot: StoreSnapshot,
    job: JobRow,
    *,
    limit: int,
    before: int | None = None,
    states: frozenset[OccurrenceState] = frozenset(),
) -> HistoryPage:
    """Return a page of a job's history.

    Args:
        ground: The snapshot of the store.
        job: The job.
        limit: The maximum number of runs.
        before: `next` of the previous page; None for the first page.
        states: Only runs in these states; empty: all.
    """
    names = await _node_names(snapshot)
    rows: list[OccurrenceRow] = []
    following = before
    for _ in range(_CALLS_MAX):
        page = await snapshot.store.read(HistoryQuery(job.number, following, min(limit - len(rows), PAGE_MAX), states))
        rows += page.rows
        following = page.next
        if following is None or len(rows) >= limit:
            break
    active = [] if before is not None else await active_runs(snapshot, job, limit=limit, states=states)
    runs = tuple(run_seen(row, job, names) for row in rows)
    return HistoryPage(job=job.name, active=tuple(active), runs=runs, next=following)


async def active_runs(
    snapshot: StoreSnapshot, job: JobRow, *, limit: int, states: frozenset[OccurrenceState] = frozenset()
) -> list[RunView]:
    """Return the due and unfinished runs of a job, newest first; with `states`, also runs claimed for later."""
    names = await _node_names(snapshot)
    found = await snapshot.store.read(ActiveQuery(job.number, limit=limit))
    rows = sorted(found, key=lambda row: (row.due_at, row.ref), reverse=True)
    if states:
        shown = [row for row in rows if row.status in states]
    else:
        shown = [row for row in rows if row.started_at is not None or is_waiting(row, snapshot.now)]
    return [_with_hold(run_seen(row, job, names), row, snapshot) for row in shown]


def _with_hold(seen: RunView, row: OccurrenceRow, snapshot: StoreSnapshot) -> RunView:
    """Return a run with the pause that holds it as its reason, if one does."""
    pause = held_row(snapshot.timeline, row, snapshot.now)
    return seen if pause is None else msgspec.structs.replace(seen, reason=f"held: its job is {pause}")


def is_waiting(row: OccurrenceRow, now: int) -> bool:
    """True if an unstarted occurrence should have started: it is due or queued."""
    return row.due_at <= now or row.status is not OccurrenceState.PRERUN


def run_seen(row: OccurrenceRow, job: JobRow, nodes: Mapping[NodeNumber, str]) -> RunView:
    """Return a row as a run."""
    run = RunReference(job.name, row.key, row.ref)
    window = row.window
    return RunView(
        id=run.id,
        number=row.ref,
        run=run.run_id,
        job=job.name,
        kind=row.kind,
        is_recovery=row.is_recovery,
        version=row.version,
        instant=moment(row.instant),
        state=row.status,
        started_at=moment(row.started_at),
        ended_at=moment(row.ended_at),
        late_seconds=seconds(row.instant, row.started_at) if row.kind is Kind.SCHEDULED else None,
        took_seconds=seconds(row.started_at, row.ended_at),
        node=None if row.owner is None else nodes.get(row.owner, f"node {row.owner}"),
        reason=row.reason,
        window=None if window is None else WindowSeen(moment(window.start), moment(window.end), window.count),
    )


async def run_detail(snapshot: StoreSnapshot, run: RunReference) -> RunDetail:
    """Return a run in full. Raises NotFoundError if it is no longer kept."""
    found = await snapshot.store.read(DetailsQuery((run.ref,)))
    if not found:
        raise NotFoundError(f"occurrence {run} is no longer kept: its history has been pruned")
    names = await _node_names(snapshot)
    detail, job = found[0], snapshot.timeline.jobs[found[0].row.job]
    return RunDetail(
        run=run_seen(detail.row, job, names),
        due_at=moment(detail.row.due_at),
        priority=detail.row.priority,
        cancelled_by=detail.row.cancelled_by,
        asked=read_asked(detail.row.details),
        adjusted=tuple(
            AdjustmentSeen(moment(one.at), one.by, one.reason, one.values) for one in read_adjusted(detail.row.details)
        ),
        trail=tuple(
            StepSeen(
                moment(line.at),
                line.before,
                line.after,
                None if line.node is None else names.get(line.node, f"node {line.node}"),
                line.why,
            )
            for line in detail.transitions
        ),
        tasks=tuple(_tasks(detail, snapshot)),
        configuration=tuple(_configuration(detail, snapshot)),
    )


def _tasks(detail: Detail, snapshot: StoreSnapshot) -> list[TaskSeen]:
    """Return the tasks with their attempts. A task without a row yet gets its name from the job."""
    attempts: defaultdict[int, list[AttemptRow]] = defaultdict(list)
    for attempt in detail.attempts:
        attempts[attempt.place].append(attempt)
    tasks = {task.place: task for task in detail.tasks}
    declared = _declared(snapshot, detail.row.job, detail.row.version)
    for place in sorted(attempts.keys() - tasks.keys()):
        name = declared[place] if place < len(declared) else f"task {place}"
        tasks[place] = TaskRow(detail.row.ref, place, name, attempts[place][-1].status)
    return [_task(task, attempts[place], detail.row.started_at) for place, task in sorted(tasks.items())]


def _task(row: TaskRow, attempts: Sequence[AttemptRow], occurrence_started_at: int | None) -> TaskSeen:
    start, end = task_times(row.status, attempts, occurrence_started_at)
    return TaskSeen(
        row.name,
        row.status,
        row.retries,
        row.cancelled_by,
        row.reason,
        None if row.result is None else msgspec.Raw(row.result.encode()),
        tuple(_attempt(attempt) for attempt in sorted(attempts, key=lambda attempt: attempt.number)),
        row.place,
        moment(start),
        moment(end),
        seconds(start, end),
    )


def _declared(snapshot: StoreSnapshot, job: JobNumber, version: int) -> list[str]:
    try:
        tasks = snapshot.timeline.definition(job, version).tasks
    except ItineraryError:
        return []
    return [task.name for task in sorted(tasks, key=lambda task: task.order)]


def _attempt(row: AttemptRow) -> AttemptSeen:
    took = seconds(row.started_at, row.ended_at)
    return AttemptSeen(
        row.number, row.status, moment(row.started_at), moment(row.ended_at), took, row.error, row.output
    )


def _configuration(detail: Detail, snapshot: StoreSnapshot) -> list[SettingSeen]:
    if detail.config is None:
        return []
    try:
        config = from_json(FrozenConfig, detail.config).job
    except ItineraryError:  # written by another release
        return []
    return settings_seen(config, snapshot.source(detail.row.job, detail.row.version))


async def _node_names(snapshot: StoreSnapshot) -> dict[NodeNumber, str]:
    return {row.number: row.name for row in await snapshot.store.read(NodesQuery())}


def why_waiting(row: RunView, line: Sequence[RunView]) -> str | None:
    """Return why a due run does not run, in words; None if it runs. `line` has its queue, newest first."""
    match row.state:
        case OccurrenceState.RUNNING | OccurrenceState.CONTAINER_CREATING | OccurrenceState.TERMINATING:
            return None
        case OccurrenceState.QUEUED:
            why = "" if row.reason is None else f": {row.reason}"
            return f"it stands in line for its job's turn, at place {len(line) - line.index(row)}{why}"
        case OccurrenceState.PRERUN:
            return row.reason or "it is due, and no node has taken it up"
        case _:
            return row.reason
