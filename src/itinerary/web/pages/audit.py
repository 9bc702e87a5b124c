"""The audit page: was every due occurrence decided exactly once, and what did users change? (U6, Q2)

    /audit                     the form, and the changes by users
    /audit?from=…&to=…         the audit of a window: its progress, or its result
    /audit?before=120          changes before a revision

The default window is the last 24 hours up to the watermark. The page then redirects to an address that contains the
window, so that it can be bookmarked and shared.
"""

from __future__ import annotations

from typing import Final

from itinerary.audit import DECIDED_WITHIN, done
from itinerary.errors import ConfigError, ItineraryError
from itinerary.model.scopes import Scope
from itinerary.model.text import shown as quoted
from itinerary.read.snapshot import StoreSnapshot, at, moment
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant
from itinerary.web.actions.form import instant_typed
from itinerary.web.guard import caller_of
from itinerary.web.heavy.bounds import AUDITED
from itinerary.web.http_responses import Redirect
from itinerary.web.live import RenderedPage
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page
from itinerary.web.server_state import ServerState

__all__ = ["AUDIT_PAGES"]

_DAY: Final = 86_400 * SECOND
_CHANGES: Final = 50
_LISTED_MAX: Final = 200
_DIGITS_MAX: Final = 15
_EVENTS: Final = "text/event-stream"


@page("/audit", needs=Scope.READ)
async def audit(request: Request) -> AnyResponse:
    """The page."""
    server: ServerState = request.app.server
    said = request.query_params
    if unknown := sorted(set(said) - {"from", "to", "before", "seen"}):
        raise RequestRefused(400, "Bad request", f"{quoted(unknown[0])} is nothing that this page can be asked for")
    before, window, why = _before(said.get("before")), None, None
    if "from" in said or "to" in said:
        try:
            window = await _window(server, said.get("from", ""), said.get("to", ""))
            if not (said.get("from") and said.get("to")):
                start, end = (shown_instant(instant) for instant in window)
                return Redirect("/audit", query_params={"from": start, "to": end})
            if _EVENTS not in request.headers.get("accept", ""):
                server.audits.ask(window, caller_of(request).name)
        except (ItineraryError, RequestRefused) as error:
            why, window = str(error), None

    async def draw(snapshot: StoreSnapshot) -> RenderedPage:
        changes, following = await server.trail.changes(snapshot, before=before, limit=_CHANGES)
        parts = {
            "window": drawn("audit/window.html", start=said.get("from", ""), end=said.get("to", ""), why=why),
            **({} if window is None else {"result": _result(server, window, snapshot)}),
            "changes": drawn("audit/changes.html", changes=changes, following=following, before=before),
            "asked": drawn("audit/asked.html", asked=await server.trail.asked(snapshot)),
        }
        return RenderedPage(title="Audit", parts=parts, status=200 if why is None else 400)

    return await shown(request, draw)


AUDIT_PAGES = (audit,)


def _result(server: ServerState, window: tuple[int, int], snapshot: StoreSnapshot) -> str:
    seen = server.audits.seen(window)
    found = None if seen is None else seen.found
    findings = () if found is None else found.findings
    watermark = snapshot.status.watermark
    is_behind = snapshot.now - watermark > DECIDED_WITHIN and window[1] >= watermark // SECOND * SECOND
    return drawn(
        "audit/result.html",
        seen=seen,
        start=at(window[0]),
        end=at(window[1]),
        listed=[(finding, moment(finding.instant)) for finding in findings[:_LISTED_MAX]],
        more=max(len(findings) - _LISTED_MAX, 0),
        outcomes=() if found is None else tuple(done(found)),
        undecided_since=at(watermark) if is_behind else None,
    )


async def _window(server: ServerState, since: str, until: str) -> tuple[int, int]:
    """Return the window of the audit. Raises ConfigError."""
    decided = (await server.view()).status.watermark // SECOND * SECOND
    end = instant_typed("To", until) if until else decided
    start = instant_typed("From", since) if since else end - _DAY
    if end > decided:
        raise ConfigError(
            f"{shown_instant(end)} is later than {shown_instant(decided)}, up to where everything is decided; "
            "audit an earlier window, or leave the end out"
        )
    if end <= start:
        raise ConfigError("the window ends before it starts, or is empty; give a later end")
    AUDITED.check_window("from", end - start, instead="use `itinerary audit`")
    return start, end


def _before(said: str | None) -> int | None:
    if said is None:
        return None
    if not (said.isascii() and said.isdigit() and len(said) <= _DIGITS_MAX):
        raise RequestRefused(400, "Bad request", f"before: {quoted(said)} is not a revision")
    return int(said)
