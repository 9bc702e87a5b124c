"""The jobs page: all jobs by name, fifty on a page, with their status, latest outcomes, and next run.

    /jobs?name=etl*&state=paused&after=etl-lisbon

A name with a `*`, `?` or `[` is a pattern for the whole name; any other text matches anywhere in the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec

from itinerary.errors import ItineraryError
from itinerary.model.queries import ActiveQuery, RecentQuery
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow
from itinerary.model.scopes import Scope
from itinerary.model.states import OccurrenceState
from itinerary.read.jobs import JobReader, JobState
from itinerary.read.runs import RunView, run_seen
from itinerary.read.snapshot import StoreSnapshot, moment
from itinerary.web.job_index import JobIndex
from itinerary.web.live import RenderedPage
from itinerary.web.pages.query_params import asked_text
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.poller import Poller
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page

__all__ = ["JOBS"]

PAGE: Final = 50
_OUTCOMES: Final = 20
_ACTIVE_MAX: Final = 5_000
_FAILING: Final = "failing"
_HERE: Final = frozenset(set(JobState) - {JobState.REMOVED})


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job on the page."""

    job: str
    state: str
    why: str | None
    is_failing: bool
    schedule: str | None
    running: int
    waiting: int
    last: RunView | None
    outcomes: tuple[OccurrenceState, ...]
    """The outcomes, oldest first."""
    next_at: datetime | None


class StateFilter(msgspec.Struct, frozen=True):
    """A state filter, and the number of jobs in that state."""

    state: str
    count: int
    url: str
    is_chosen: bool


@page("/jobs", needs=Scope.READ)
async def jobs(request: Request) -> AnyResponse:
    """The list."""
    name, after = asked_text(request, "name"), asked_text(request, "after")
    state = asked_text(request, "state")
    if state not in {"", _FAILING, *JobState}:
        allowed = ", ".join([*JobState, _FAILING])
        raise RequestRefused(400, "Bad request", f"state: {state[:50]!r} is none of {allowed}")
    return await shown(request, partial(_draw, request.app.server.rounds, name, state, after))


JOBS = (jobs,)


async def _draw(rounds: Poller, name: str, state: str, after: str, snapshot: StoreSnapshot) -> RenderedPage:
    book = await rounds.book(snapshot)
    found = book.search(name)
    rows, has_more = _page(rounds, book, found, state, after)
    lines = await _lines(rounds, snapshot, rows)
    onward = None if not has_more else _url(name, state, rows[-1].name)
    part = drawn(
        "jobs/list.html",
        lines=lines,
        onward=onward,
        first=_url(name, state) if after else None,
        is_filtered=bool(name or state),
        has_any=bool(snapshot.timeline.jobs),
    )
    choices = _choices(rounds, book, name, state)
    return RenderedPage(
        title="Jobs", parts={"search": drawn("jobs/search.html", name=name, state=state, choices=choices), "jobs": part}
    )


def _url(name: str, state: str, after: str = "") -> str:
    asked = {key: value for key, value in (("name", name), ("state", state), ("after", after)) if value}
    return f"/jobs?{urlencode(asked)}" if asked else "/jobs"


def _page(rounds: Poller, book: JobIndex, found: Sequence[JobRow], state: str, after: str) -> tuple[list[JobRow], bool]:
    """Return the rows of the page, and whether more follow.

    Few jobs are failing, finished or without their code: for those states, only the few are searched.
    """
    few: Collection[JobNumber] | None = None
    match state:
        case "":
            return book.page(found, _HERE, after, PAGE)
        case "failing":
            few = rounds.failing
        case JobState.FINISHED:
            over = [row for row in found if row.number in rounds.finished]
            return book.page(over, {JobState.ACTIVE}, after, PAGE)
        case JobState.QUARANTINED:
            few = rounds.lacked | book.of_state(JobState.QUARANTINED)
        case JobState.ACTIVE:
            rest = [row for row in found if row.number not in rounds.finished and row.number not in rounds.lacked]
            return book.page(rest, {JobState.ACTIVE}, after, PAGE)
        case _:
            return book.page(found, {JobState(state)}, after, PAGE)
    return book.page([row for row in found if row.number in few], _HERE, after, PAGE)


def _choices(rounds: Poller, book: JobIndex, name: str, chosen: str) -> list[StateFilter]:
    """Return the filters with counts over all jobs, whatever the search is."""
    counts: Counter[str] = Counter({str(state): count for state, count in book.counts.items()})
    over = sum(book.state(job) is JobState.ACTIVE for job in rounds.finished if job in book.known)
    lacking = sum(book.state(job) is JobState.ACTIVE for job in rounds.lacked if job in book.known)
    counts[JobState.ACTIVE] -= over + lacking
    counts[JobState.FINISHED], counts[_FAILING] = over, len(rounds.failing)
    counts[JobState.QUARANTINED] += lacking
    everything = sum(count for state, count in counts.items() if state not in {_FAILING, JobState.REMOVED})
    order = [JobState.ACTIVE, _FAILING, *(state for state in JobState if state is not JobState.ACTIVE)]
    return [
        StateFilter("all", everything, _url(name, ""), not chosen),
        *(
            StateFilter(str(state), counts[state], _url(name, str(state)), chosen == state)
            for state in order
            if counts[state] or chosen == state
        ),
    ]


async def _lines(rounds: Poller, snapshot: StoreSnapshot, rows: Sequence[JobRow]) -> list[JobLine]:
    active = await snapshot.store.read(ActiveQuery(limit=_ACTIVE_MAX))
    reader = JobReader(snapshot, rounds.lacked, active)
    past = await snapshot.store.read(RecentQuery(tuple(row.number for row in rows), _OUTCOMES))
    return [_line(rounds, snapshot, reader, row, past.get(row.number, ())) for row in rows]


def _line(
    rounds: Poller, snapshot: StoreSnapshot, reader: JobReader, row: JobRow, past: Sequence[OccurrenceRow]
) -> JobLine:
    state, why, following = reader.state(row)
    running, waiting = reader.under_way(row.number)
    return JobLine(
        job=row.name,
        state=str(state),
        why=why,
        is_failing=row.number in rounds.failing,
        schedule=_words(snapshot, row.number),
        running=running,
        waiting=waiting,
        last=run_seen(past[0], row, {}) if past else None,
        outcomes=tuple(one.status for one in reversed(past)),
        next_at=moment(following),
    )


def _words(snapshot: StoreSnapshot, job: JobNumber) -> str | None:
    try:
        segment = snapshot.segment(job)
        return None if segment is None else str(segment.schedule)
    except ItineraryError:
        return None
