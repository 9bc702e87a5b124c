"""Routes for the maintenance of a store: nodes, audit, prune."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from itinerary.audit import AuditResult
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.scopes import Scope
from itinerary.operations.prune_entry import record_prune
from itinerary.read.loop_statistics import statistics_seen
from itinerary.read.nodes import nodes_seen
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.stores.store import EngineStore
from itinerary.web.api.lookup import cursor_of, read_cursor
from itinerary.web.api.parameters import Cursor, Key, Limit, NameText, PathParameter, QueryParameter
from itinerary.web.api.request_bodies import Instant, PruneBody, microseconds
from itinerary.web.api.responses import NodesResponse, PruneResponse, StatisticsResponse
from itinerary.web.api.routing import Sent, by_whom, changing, key_of, read_body, reading
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import json_of
from itinerary.web.heavy.bounds import AUDITED
from itinerary.web.heavy.works import AuditWork
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["CARE"]


_TAG: Final = "store"
_STATISTICS_FOR: Final = 600 * SECOND


@reading("/nodes", summary="List nodes, those that joined last first", tag=_TAG)
async def list_nodes(
    api: ApiState,
    everyone: Annotated[bool, QueryParameter("Those that have left, too.", "all")] = False,  # noqa: FBT002 - a parameter of the address
    limit: Limit = 50,
) -> NodesResponse:
    """Who is there, since when, what they hold, how their clocks have jumped."""
    snapshot = await api.server.snapshot()
    names = {number: row.name for number, row in snapshot.timeline.jobs.items()}
    return NodesResponse(tuple(await nodes_seen(snapshot.store, snapshot.now, names, limit=limit, gone=everyone)))


@reading("/nodes/{node}/statistics", summary="List what a node's loop did, newest first", tag=_TAG)
async def list_statistics(
    api: ApiState,
    node: Annotated[NameText, PathParameter("Its name, for its newest start, or the number of one start.")],
    start: Annotated[Instant | None, QueryParameter("From when on; else the last ten minutes.", "from")] = None,
    end: Annotated[Instant | None, QueryParameter("Before when; else up to now.", "to")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> StatisticsResponse:
    """One row for each `loop_interval`: iterations, durations, active runs, index, inbox and messages."""
    before = read_cursor("statistics", cursor, int)
    snapshot = await api.server.snapshot()
    until = snapshot.now + SECOND if end is None else microseconds("to", end)
    since = until - _STATISTICS_FOR if start is None else microseconds("from", start)
    if until <= since:
        raise RequestRefused(400, "Bad request", "to: is not later than from")
    if before is not None:  # without `from`, the window has moved since the previous page
        until = min(max(int(before), since + 1), until)
    found = await statistics_seen(snapshot.store, node, since=since, until=until, limit=limit)
    return StatisticsResponse(found.node, found.number, found.rows, cursor_of("statistics", found.next))


@reading("/audit", summary="Say whether everything that was due was decided, exactly once", tag=_TAG)
async def audit_window(
    request: Request,
    api: ApiState,
    start: Annotated[Instant, QueryParameter("From when on.", "from")],
    end: Annotated[Instant | None, QueryParameter("Before when; else as far as everything is decided.", "to")] = None,
) -> Response[AuditResult]:
    """What is lost, doubled or wrong in a window of at most 31 days that is past."""
    first = microseconds("from", start)
    snapshot = await api.server.snapshot()
    last = max(snapshot.status.watermark, first) if end is None else microseconds("to", end)
    if end is not None and last <= first:
        raise RequestRefused(400, "Bad request", "to: is not later than from")
    AUDITED.check_window("from", last - first, instead="use `itinerary audit`")
    return await json_of(request, AuditWork(start=first, end=None if end is None else last))


@changing("/prune", summary="Remove old history", tag=_TAG, needs=Scope.ADMIN)
async def prune_history(
    request: Request, api: ApiState, data: Sent[PruneBody | None] = None, key: Key = None
) -> PruneResponse:
    """What has not ended, what the watermark needs, and the last day before it always stay. Asked again, it removes
    what has become old meanwhile."""
    body = read_body(PruneBody, data)
    key_of(request, key, body)
    settings = api.server.configuration.settings
    rules = Retention(
        keep_for=settings.keep_for if body.keep_for is None else parse_duration(body.keep_for, minimum=0),
        keep_failed_for=settings.keep_failed_for
        if body.keep_failed_for is None
        else parse_duration(body.keep_failed_for, minimum=0),
        keep_max=settings.keep_max if body.keep_max is None else body.keep_max,
    )
    store = cast("EngineStore", await api.server.store())
    async with api.pruning():
        if not body.dry_run:
            await record_prune(store, rules, by=by_whom(request))
        step = store.count_prunable if body.dry_run else store.prune
        return await _round(step, rules, is_dry=body.dry_run)


CARE: Final = (list_nodes, list_statistics, audit_window, prune_history)


async def _round(step: Any, rules: Retention, *, is_dry: bool) -> PruneResponse:
    """Run one whole prune round: occurrences by time and by job, then nodes and their statistics."""
    occurrences = statistics = 0
    cursor: PruneCursor | None = PruneCursor()
    while cursor is not None:
        done = await step(rules, cursor)
        if cursor.node >= 0:
            statistics += done.removed
        else:
            occurrences += done.removed
        cursor = done.next
    return PruneResponse(occurrences=occurrences, statistics=statistics, is_dry=is_dry)
