"""Routes that read jobs: the list, one job, its history, its explanation, and upcoming runs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Final

from msgspec import Meta

from itinerary.explain import Explanation, explain
from itinerary.model.rows import JobRow
from itinerary.model.states import OccurrenceState
from itinerary.read.job_detail import job_detail
from itinerary.read.jobs import JobReader, JobState
from itinerary.read.runs import history_page
from itinerary.read.upcoming import UpcomingRuns
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.schedules.instants import Moment
from itinerary.web.api.lookup import cursor_of, read_cursor
from itinerary.web.api.parameters import Cursor, JobName, Limit, NameText, QueryParameter
from itinerary.web.api.responses import JobResponse, JobsPage, JobSummaryResponse, RunsPage
from itinerary.web.api.routing import reading
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import json_of
from itinerary.web.heavy.works import UpcomingWork
from itinerary.web.http_responses import Response
from itinerary.web.requests import Request

__all__ = ["JOBS"]

_TAG: Final = "jobs"
_LOOKED_AT_MAX: Final = 20_000
"""The maximum number of jobs that are read for one page."""
_JUDGED_MAX: Final = 2_000
"""The maximum number of jobs whose state is computed for one page, which is slower."""
_PARTS_MAX: Final = 500

Pattern = Annotated[NameText | None, QueryParameter("Only names that fit: `etl`, `report*`.")]


@reading("/jobs", summary="List jobs, in the order of their names", tag=_TAG)
async def list_jobs(
    api: ApiState,
    pattern: Pattern = None,
    states: Annotated[
        list[JobState] | None,
        QueryParameter("Only jobs that stand so; may be given several times.", "state"),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobsPage:
    """How each stands and why, what came of it last, and when it runs next."""
    after = read_cursor("jobs", cursor, str)
    snapshot = await api.server.snapshot()
    reader = await JobReader.at(snapshot)
    wanted = frozenset(states or ())
    found: list[JobRow] = []
    last: str | None = None
    judged = 0
    for looked_at, row in enumerate(api.names.after(snapshot, None if after is None else str(after))):
        if len(found) == limit or looked_at == _LOOKED_AT_MAX or judged == _JUDGED_MAX:
            return JobsPage(
                tuple([JobSummaryResponse.of(await reader.seen(one)) for one in found]), cursor_of("jobs", last)
            )
        last = row.name
        if pattern is not None and not fnmatchcase(row.name, pattern):
            continue
        if JobState.REMOVED not in wanted and snapshot.is_removed(row.number):
            continue
        judged += bool(wanted)
        if not wanted or reader.state(row)[0] in wanted:
            found.append(row)
    return JobsPage(tuple([JobSummaryResponse.of(await reader.seen(one)) for one in found]), None)


@reading("/jobs/{job}", summary="Look at one job", tag=_TAG)
async def show_job(api: ApiState, job: JobName, limit: Limit = 5) -> JobResponse:
    """What is in force, where each value of its configuration came from, its last changes, and what waits."""
    snapshot, row = await api.job(job)
    return JobResponse.of(await job_detail(snapshot, row, limit=limit))


@reading("/jobs/{job}/history", summary="List a job's occurrences, those that ended last first", tag=_TAG)
async def list_history(
    api: ApiState,
    job: JobName,
    states: Annotated[
        list[OccurrenceState] | None,
        QueryParameter("Only these; may be repeated.", "state"),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> RunsPage:
    """What has not ended comes with the first page."""
    before = read_cursor("history", cursor, int)
    snapshot, row = await api.job(job)
    page = await history_page(
        snapshot, row, limit=limit, before=None if before is None else int(before), states=frozenset(states or ())
    )
    return RunsPage(page.job, page.active, page.runs, cursor_of("history", page.next))


@reading("/jobs/{job}/explain", summary="Say why a job ran, ran late, or did not", tag=_TAG)
async def explain_job(
    api: ApiState,
    job: JobName,
    time: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        QueryParameter(
            "Which instant: `2026-03-01T05:00` by its zone's clock, or with an offset; else the last.", "at"
        ),
    ] = None,
) -> Explanation:
    """The verdict in a sentence, and the facts that it rests on."""
    snapshot, row = await api.job(job)
    when = None if time is None else Moment.of(time, "at")
    return await explain(snapshot.store, row.name, when, snapshot.timeline)


@reading("/upcoming", summary="List what is due in the next hours", tag=_TAG)
async def list_upcoming(
    request: Request,
    api: ApiState,
    pattern: Pattern = None,
    span: Annotated[str, Meta(max_length=60), QueryParameter("For how long from now on: `6h`, `2d`.", "for")] = "6h",
    parts: Annotated[
        int,
        Meta(ge=1, le=_PARTS_MAX),
        QueryParameter("In how many parts the time is divided, to count in each."),
    ] = 60,
    limit: Limit = 20,
) -> Response[UpcomingRuns]:
    """Those that are due first, one by one; the others in one sum. At most 31 days, and a million instants."""
    found = parse_duration(span, minimum=60 * SECOND)
    api.server.heavy.bounds.check_window("for", found, instead="use `itinerary upcoming`")
    return await json_of(request, UpcomingWork(span=found, parts=parts, pattern=pattern, limit=limit))


JOBS: Final = (list_jobs, show_job, list_history, explain_job, list_upcoming)
