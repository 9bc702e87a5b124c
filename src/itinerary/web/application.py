"""The ASGI application: all routes, the headers of every response, the handling of errors.

    uvicorn ──► Envelope ──► litestar ──► guard ──► a page, or the API
                  │
                  ├─ adds the security headers to every response, errors included
                  └─ counts every rejection by its status

Programs receive rejections and errors as problem details; people receive a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.response import Redirect
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send

from itinerary.connections.refusals import Refusals
from itinerary.errors import (
    IdempotencyKeyReusedError,
    ItineraryError,
    NotFoundError,
    PermissionDeniedError,
    StaleVersion,
    StoreError,
)
from itinerary.web.access import Admission, Slowdown, security_headers
from itinerary.web.litestar_guard import HEADERS_TO_ADD, REFUSED_WITH, add_headers, guard
from itinerary.web.live import LivePages, RenderedPage, TooMany
from itinerary.web.pages.rendering import framed, page_key
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import PROBLEM_TYPE, RequestRefused
from itinerary.web.stream_limits import STREAMS_MAX, OpenStreams

__all__ = ["API", "BODY_MAX", "application"]

API: Final = "/api/"
BODY_MAX: Final = 1_000_000
"""The maximum size of a request body, in bytes (Q4)."""
_STATUSES: Final[Mapping[type[Exception], tuple[int, str]]] = {
    PermissionDeniedError: (403, "Not permitted"),
    NotFoundError: (404, "Not found"),
    StaleVersion: (409, "Changed meanwhile"),
    IdempotencyKeyReusedError: (422, "Key used"),
}
_REFUSED_FROM: Final = 400
"""Responses with this status or above are rejections."""
_TITLES: Final = {400: "Bad request", 404: "Not found", 405: "Method not allowed", 413: "Too large"}

AnyRequest = Request[Any, Any, Any]


def application(
    hub: LivePages,
    admission: Admission,
    log: Any,
    routes: Sequence[ControllerRouterHandler],
    openapi: OpenAPIConfig | None = None,
    *,
    refusals: Refusals | None = None,
    streams_max: int = STREAMS_MAX,
) -> ASGIApp:
    """Build the application. Without `refusals`, rejections are not counted, and are logged to `log`."""
    refusals = Refusals("web", log, lambda _server, _status: None) if refusals is None else refusals
    streams = OpenStreams(refusals, streams_max)
    app = Litestar(
        list(routes),
        guards=[guard],
        state=State(
            {
                "hub": hub,
                "server": hub.server,
                "admission": admission,
                "log": log,
                "refusals": refusals,
                "slowdown": Slowdown(),
                "streams": streams,
            }
        ),
        exception_handlers={Exception: _failed},
        openapi_config=openapi,
        request_max_body_size=BODY_MAX,
        logging_config=None,
        debug=False,
    )
    return Envelope(app, admission, refusals)


class Envelope:
    """ASGI middleware around every response."""

    def __init__(self, inner: ASGIApp, admission: Admission, refusals: Refusals) -> None:
        self._inner, self._admission, self._refusals = inner, admission, refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and add the headers of every response."""
        if scope["type"] != ScopeType.HTTP:
            await self._inner(scope, receive, send)
            return
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
                status = state.get(REFUSED_WITH, message["status"])
                if status >= _REFUSED_FROM:
                    self._refusals.count(status)
            await send(message)

        await self._inner(scope, receive, sending)


def _failed(request: AnyRequest, error: Exception) -> Response[Any]:
    """Return the response for an error."""
    refused = _refusal(request, error)
    add_headers(request, refused.headers)
    if request.scope["path"].startswith(API) or "text/html" not in request.headers.get("accept", ""):
        body = msgspec.json.encode(refused.problem(request.scope["path"]))
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}  # `Allow`, for instance
        return Response(body, status_code=refused.status, media_type=PROBLEM_TYPE, headers=headers)
    if refused.status == 401:
        return Redirect("/login", query_params={"next": page_key(request)}, status_code=303)
    try:
        part = drawn("problem.html", title=refused.title, detail=refused.detail)
        return framed(request, RenderedPage(title=refused.title, parts={"problem": part}, status=refused.status))
    except (
        KeyError,
        AssertionError,
    ):  # rejected before the caller was known, so a page frame cannot be rendered
        plain = drawn("plain.html", title=refused.title, detail=refused.detail)
        return Response(str(plain), status_code=refused.status, media_type="text/html")


def _refusal(request: AnyRequest, error: Exception) -> RequestRefused:
    match error:
        case RequestRefused():
            return error
        case HTTPException():
            title = _TITLES.get(error.status_code, "Not done")
            return RequestRefused(error.status_code, title, error.detail or title)
        case TooMany():
            return RequestRefused(503, "Too many", str(error))
        case PermissionDeniedError() | NotFoundError() | IdempotencyKeyReusedError() | StaleVersion():
            status, title = next(told for kind, told in _STATUSES.items() if isinstance(error, kind))
            return RequestRefused(status, title, str(error))
        case StoreError():
            request.app.state.server.failed(error)
            return RequestRefused(503, "The store cannot be reached", str(error))
        case ItineraryError():
            return RequestRefused(400, "Not done", str(error))
        case _:
            request.app.state.log.error("web.failed", path=request.scope["path"], exc_info=error)
            return RequestRefused(500, "Our mistake", "this should not have happened; the node's log has more about it")
