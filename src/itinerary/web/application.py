"""The ASGI application: all routes, the headers of every response, the handling of errors.

    uvicorn ──► Envelope ──► Application ──► guard ──► a page, or the API
                  │
                  ├─ adds the security headers to every response, errors included
                  └─ counts every rejection by its status

Programs receive rejections and errors as problem details; people receive a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from itinerary.connections.refusals import Refusals
from itinerary.errors import (
    IdempotencyKeyReusedError,
    ItineraryError,
    NotFoundError,
    PermissionDeniedError,
    StaleVersion,
    StoreError,
)
from itinerary.web.access import Admission, security_headers
from itinerary.web.app_state import AppState
from itinerary.web.guard import HEADERS_TO_ADD, REFUSED_WITH, add_headers, guard
from itinerary.web.http_responses import Redirect, Response
from itinerary.web.live import LivePages, RenderedPage, TooMany
from itinerary.web.pages.rendering import framed, page_key
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import PROBLEM_TYPE, RequestRefused
from itinerary.web.requests import ASGIApp, Message, Receive, Request, Scope, Send
from itinerary.web.routes import AnyResponse, Route, RouteTable
from itinerary.web.stream_limits import STREAMS_MAX, OpenStreams

if TYPE_CHECKING:
    from itinerary.web.api.state import ApiState

__all__ = ["API", "application"]

API: Final = "/api/"
_STATUSES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    PermissionDeniedError: (403, "Not permitted"),
    NotFoundError: (404, "Not found"),
    StaleVersion: (409, "Changed meanwhile"),
    IdempotencyKeyReusedError: (422, "Key used"),
}
_REFUSED_FROM: Final = 400
"""Responses with this status or above are rejections."""
_HOST: Final = re.compile(rb"[\w!$&'()*+,;=\-.~:\[\]@%]*", re.ASCII)
"""The characters that the Host header may have (RFC 3986)."""


def application(
    hub: LivePages,
    admission: Admission,
    log: Any,
    routes: Iterable[Route],
    *,
    api: ApiState | None = None,
    refusals: Refusals | None = None,
    streams_max: int = STREAMS_MAX,
) -> ASGIApp:
    """Build the application.

    Args:
        hub: The live pages.
        admission: Identifies the callers.
        log: The log of the node.
        routes: All routes.
        api: The state of the API; None: `routes` has no route of the API.
        refusals: Counts and logs rejections; None: only logs them, to `log`.
        streams_max: The maximum number of concurrent streams and live pages.
    """
    refusals = Refusals("web", log, lambda _server, _status: None) if refusals is None else refusals
    streams = OpenStreams(refusals, streams_max)
    state = AppState(hub, admission, log, refusals=refusals, streams=streams, api=api)
    return Envelope(Application(RouteTable(routes), state), admission, refusals)


class Application:
    """The ASGI application: finds the route of a request, admits the caller, and sends the response."""

    def __init__(self, table: RouteTable, state: AppState) -> None:
        self._table, self._state = table, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request. An error of a stream that has begun ends its connection."""
        request = Request(scope, receive, self._state)
        try:
            response = await self._respond(request)
        except Exception as error:  # noqa: BLE001 - every error becomes a response here, and our own bugs are logged
            response = _failed(request, error)
        await response.send(receive, send)

    async def _respond(self, request: Request) -> AnyResponse:
        if not all(_HOST.fullmatch(value) for name, value in request.scope["headers"] if name == b"host"):
            raise RequestRefused(400, "Bad request", "Invalid host header")
        route, values = self._table.find(request)
        await guard(request, route.needs)
        return await route.respond(request, **values)


class Envelope:
    """ASGI middleware around every response."""

    def __init__(self, inner: ASGIApp, admission: Admission, refusals: Refusals) -> None:
        self._inner, self._admission, self._refusals = inner, admission, refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and add the headers of every response."""
        assert scope["type"] == "http", "uvicorn is set to serve HTTP and nothing else"
        scope["scheme"] = self._admission.public_scheme(list(scope["headers"]), scope["scheme"])
        waiting: list[tuple[str, str]] = []
        state: dict[str, Any] = {**(scope.get("state") or {}), HEADERS_TO_ADD: waiting}
        scope["state"] = state

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                there = {name.lower() for name, _ in headers}
                ours = [
                    (name.lower().encode(), value.encode("latin-1"))
                    for name, value in security_headers(scope["scheme"])
                ]
                headers += [(name, value) for name, value in ours if name not in there]
                headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in waiting]
                message["headers"] = headers
                status: int = state[REFUSED_WITH] if REFUSED_WITH in state else message["status"]
                if status >= _REFUSED_FROM:
                    self._refusals.count(status)
            await send(message)

        await self._inner(scope, receive, sending)


def _failed(request: Request, error: Exception) -> AnyResponse:
    """Return the response for an error."""
    refused = _refusal(request, error)
    add_headers(request, refused.headers)
    if request.path.startswith(API) or "text/html" not in request.headers.get("accept", ""):
        return Response(refused.problem(request.path), status_code=refused.status, media_type=PROBLEM_TYPE)
    if refused.status == 401:
        return Redirect("/login", query_params={"next": page_key(request)})
    try:
        part = drawn("problem.html", title=refused.title, detail=refused.detail)
        return framed(request, RenderedPage(title=refused.title, parts={"problem": part}, status=refused.status))
    except (
        KeyError,
        AssertionError,
    ):  # rejected before the caller was known, so a page frame cannot be rendered
        plain = drawn("plain.html", title=refused.title, detail=refused.detail)
        return Response(str(plain), status_code=refused.status, media_type="text/html")


def _refusal(request: Request, error: Exception) -> RequestRefused:
    match error:
        case RequestRefused():
            return error
        case TooMany():
            return RequestRefused(503, "Too many", str(error))
        case PermissionDeniedError() | NotFoundError() | IdempotencyKeyReusedError() | StaleVersion():
            status, title = next(told for kind, told in _STATUSES.items() if isinstance(error, kind))
            return RequestRefused(status, title, str(error))
        case StoreError():
            request.app.server.failed(error)
            return RequestRefused(503, "The store cannot be reached", str(error))
        case ItineraryError():
            return RequestRefused(400, "Not done", str(error))
        case _:
            request.app.log.error("web.failed", path=request.path, exc_info=error)
            return RequestRefused(500, "Our mistake", "this should not have happened; the node's log has more about it")
