"""The page of an occurrence: its outcome and reason, its states, its tasks, and their output.

    /runs/1234                       the page
    /runs/1234/output/0/2            the whole output of the first task's second attempt, as a plain text file
    /runs/etl:1767225600, /runs/<uuid>      redirect to it

While the occurrence is active, the page is rendered each second. After its end only its replays can change, which are
looked up now and then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from itinerary.errors import ItineraryError, NotFoundError
from itinerary.explain import Explanation, explain_occurrence
from itinerary.model.queries import DetailsQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.scopes import Scope
from itinerary.model.states import FINAL
from itinerary.read.run_lookup import RunReference
from itinerary.read.runs import RunDetail, run_detail
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.web.heavy.ask import named_by_number
from itinerary.web.http_responses import Redirect, Response
from itinerary.web.live import RenderedPage
from itinerary.web.pages.attempts import attempts_of, said_by, waterfall
from itinerary.web.pages.filters import run_url
from itinerary.web.pages.local_time import on_the_wall
from itinerary.web.pages.lookup import number_called, row_of
from itinerary.web.pages.related import related_to
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.state_history import trail_drawn
from itinerary.web.pages.templates import drawn
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page
from itinerary.web.server_state import ServerState

__all__ = ["OCCURRENCE"]

_FRESH_FOR: Final = 10 * SECOND
"""How long the page of an ended occurrence stays valid."""
_FACTS_MAX: Final = 40


@page("/runs/{called}", needs=Scope.READ)
async def occurrence_page(request: Request, called: str) -> AnyResponse:
    """One occurrence."""
    server: ServerState = request.app.server
    if not (called.isascii() and called.isdigit()):
        named = await named_by_number(request, called)
        return Redirect(run_url(await number_called(server, await server.snapshot(), named)))
    return await shown(request, _Page(called).draw)


@page("/runs/{called}/output/{place:int}/{number:int}", needs=Scope.READ)
async def output_file(request: Request, called: str, place: int, number: int) -> Response[bytes]:
    """What one attempt wrote, all that is kept of it. It comes from a task, so nothing may take it for a page."""
    snapshot = await request.app.server.snapshot()
    row = await row_of(snapshot, called)
    found = await snapshot.store.read(DetailsQuery((row.ref,)))
    attempts = found[0].attempts if found else ()
    output = next((one.output for one in attempts if (one.place, one.number) == (place, number)), None)
    if output is None:
        raise NotFoundError(
            f"attempt {number} of task {place} of occurrence {row.ref} has no output, or it is no longer kept"
        )
    name = f"run-{row.ref}-task-{place}-attempt-{number}.txt"
    return Response(
        output.encode(errors="replace"),
        media_type="text/plain",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"},
    )


OCCURRENCE = (occurrence_page, output_file)


class _Page:
    """The page of one occurrence, rendered while it has followers."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._known: tuple[OccurrenceRow, int, RenderedPage] | None = None

    async def draw(self, snapshot: StoreSnapshot) -> RenderedPage:
        row = await row_of(snapshot, self._called)
        if self._known is not None:
            before, since, page = self._known
            if row == before and row.status in FINAL and snapshot.now - since < _FRESH_FOR:
                return page
        page = await _occurrence(snapshot, row)
        self._known = (row, snapshot.now, page)
        return page


async def _occurrence(snapshot: StoreSnapshot, row: OccurrenceRow) -> RenderedPage:
    job = snapshot.timeline.jobs[row.job]
    detail = await run_detail(snapshot, RunReference(job.name, row.key, row.ref))
    zone = snapshot.zone_of_job(row.job)
    is_over = row.status in FINAL
    attempts = attempts_of(detail, snapshot.now)
    said = said_by(attempts)
    related = await related_to(snapshot, row, detail)
    parts = {
        "outcome": drawn(
            "run/outcome.html",
            detail=detail,
            zone=zone,
            wall=on_the_wall(snapshot, detail.run.instant, zone),
            is_over=is_over,
            is_due_later=detail.due_at != detail.run.instant and detail.run.kind == "scheduled",
            related=related,
        ),
        "explanation": await _explained(snapshot, row),
        "states": trail_drawn(detail, snapshot.now),
        "tasks": waterfall(detail, attempts, snapshot.now),
        "output": drawn("run/output.html", said=said, number=row.ref),
        "related": drawn("run/related.html", related=related),
        "configuration": drawn("configuration.html", settings=detail.configuration),
    }
    return RenderedPage(title=_title(detail), parts=parts)


def _title(detail: RunDetail) -> str:
    """Return the run id. A requested run shares that of its instant, so its kind is appended."""
    return detail.run.run if detail.run.kind == "scheduled" else f"{detail.run.run}, {detail.run.kind}"


async def _explained(snapshot: StoreSnapshot, row: OccurrenceRow) -> str:
    try:
        found = await explain_occurrence(snapshot.store, snapshot.timeline, snapshot.status, row)
    except ItineraryError as error:
        return drawn("run/unexplained.html", why=str(error))
    facts = [(fact, _moment(fact.at)) for fact in found.facts[:_FACTS_MAX]]
    return drawn(
        "run/explanation.html", found=found, facts=facts, more=max(len(found.facts) - _FACTS_MAX, 0), fate=_fate(found)
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _fate(found: Explanation) -> str:
    return str(found.fate).replace("_", " ")
