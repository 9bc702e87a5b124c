"""A page with its frame, or, for followers, its live changes.

    GET /jobs/etl                                   the whole page
    GET /jobs/etl   Accept: text/event-stream       its changes from then on

Both come from one `draw`. The frame contains what depends on the user (name, scope, form token). The parts are the same
for all users, so they are rendered once (see `live`).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup

from itinerary.errors import StoreError
from itinerary.model.scopes import Scope
from itinerary.node.thread import installed_version
from itinerary.web.actions.flash import take_notice
from itinerary.web.guard import caller_of
from itinerary.web.http_responses import EVENTS_TYPE, Response, Stream
from itinerary.web.live import Draw, RenderedPage, hash_of
from itinerary.web.pages.templates import drawn
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse
from itinerary.web.stream_admission import joined, while_admitted

__all__ = ["framed", "page_key", "shown"]

_SEEN: Final = "seen"
_NAVIGATION: Final = (
    ("/", "Now"),
    ("/timeline", "Timeline"),
    ("/jobs", "Jobs"),
    ("/records", "Records"),
    ("/audit", "Audit"),
)


async def shown(request: Request, draw: Draw) -> AnyResponse:
    """Return the response for a page, or the stream of its changes."""
    hub, key = request.app.hub, page_key(request)
    if EVENTS_TYPE in request.headers.get("accept", ""):
        seen = dict(item.partition(":")[::2] for item in request.query_params.get(_SEEN, "").split(",") if item)
        messages = while_admitted(request, hub.follow(key, draw, seen))
        return Stream(joined(await anext(messages), messages))
    try:
        found = await hub.page(key, draw)
    except StoreError as error:
        found = _away(error)
    return framed(request, found)


def framed(request: Request, page: RenderedPage) -> Response[str]:
    """Return a page with its frame."""
    caller, hub = caller_of(request), request.app.hub
    parts = {name: (hash_of(html), Markup(html)) for name, html in page.parts.items()}  # noqa: S704 - drawn by templates
    body = drawn(
        "frame.html",
        title=page.title,
        parts=parts,
        navigation=_NAVIGATION,
        path=request.path,
        caller=caller,
        may_operate=caller.may(Scope.OPERATE),
        node=hub.server.node.name,
        store=hub.server.configuration.store.partition(":")[0],
        trouble=hub.server.trouble,
        version=installed_version(),
        notice=take_notice(request),
    )
    return Response(str(body), media_type="text/html", status_code=page.status)


def page_key(request: Request) -> str:
    """Return the key of a page: its path, and its query parameters."""
    asked = [(name, value) for name, value in parse_qsl(request.query, keep_blank_values=True) if name != _SEEN]
    return f"{request.path}?{urlencode(sorted(asked))}"


def _away(error: StoreError) -> RenderedPage:
    """Return the page for a store outage, if no earlier rendering is kept."""
    return RenderedPage(
        title="The store cannot be reached", parts={"away": drawn("away.html", why=str(error))}, status=503
    )
