"""The history of a job, page by page, newest first: `/jobs/etl/history?state=failed&before=480`.

A history is read from the newest occurrence on. Rare states are searched in steps: a page may be short, and link to the
part that is not searched yet.
"""

from __future__ import annotations

from typing import Final

from itinerary.model.queries import HistoryQuery, NodesQuery
from itinerary.model.rows import JobRow
from itinerary.model.scopes import Scope
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.read.runs import active_runs, run_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web.live import RenderedPage
from itinerary.web.pages.lookup import job_called
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page

__all__ = ["ENDS", "HISTORY"]

ENDS: Final = tuple(state for state in OccurrenceState if state in FINAL)
"""The possible outcomes of an occurrence."""
_PAGE: Final = 50
_LOOKED_AT_MAX: Final = 4_000
"""The maximum number of occurrences that one page searches for a rare state: few enough to be fast."""
_DIGITS_MAX: Final = 18


@page("/jobs/{called}/history", needs=Scope.READ)
async def history_page(request: Request, called: str) -> AnyResponse:
    """What came of it. What ended before a place in the history stays as it is, so it is read once for who follows."""
    server = request.app.server
    before = _before_of(request.query_params.get("before"))
    states = _states_of(request.query_params.get("state"))
    known: list[RenderedPage] = []

    async def draw(snapshot: StoreSnapshot) -> RenderedPage:
        if not known:
            page = await _history(snapshot, job_called(server, snapshot, called), before, states)
            if before is None:
                return page
            known.append(page)
        return known[0]

    return await shown(request, draw)


HISTORY = (history_page,)


async def _history(
    snapshot: StoreSnapshot, job: JobRow, before: int | None, states: frozenset[OccurrenceState]
) -> RenderedPage:
    page = await snapshot.store.read(HistoryQuery(job.number, before, _PAGE, states, _LOOKED_AT_MAX))
    nodes = {row.number: row.name for row in await snapshot.store.read(NodesQuery())}
    runs = [run_seen(row, job, nodes) for row in page.rows]
    active = [] if before is not None else await active_runs(snapshot, job, limit=_PAGE, states=states)
    part = drawn(
        "job/pages.html",
        job=job.name,
        runs=[*active, *runs],
        states=ENDS,
        chosen=next(iter(states), None),
        before=before,
        following=page.next,
        is_short=page.next is not None and len(runs) < _PAGE,
    )
    return RenderedPage(title=f"History of {job.name}", parts={"history": part})


def _before_of(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise RequestRefused(400, "Bad request", "before: give the number that the page before has named")
    return int(text)


def _states_of(text: str | None) -> frozenset[OccurrenceState]:
    if not text:
        return frozenset()
    found = next((state for state in ENDS if state == text), None)
    if found is None:
        raise RequestRefused(400, "Bad request", f"state: give one of {', '.join(ENDS)}")
    return frozenset({found})
