"""The guard between litestar and `access`: it identifies the caller before the rest of a request is read.

Every route declares its scope in `opt`: `needs=Scope.READ`, `needs=PUBLIC`. A route without a declaration is denied
(Q6).
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from litestar.connection import ASGIConnection, Request
from litestar.handlers import BaseRouteHandler

from itinerary.web.access import CSRF_FIELD, Admission, Caller, Rejection, RequestHead, peers
from itinerary.web.problems import RequestRefused

__all__ = [
    "FORM_TYPE",
    "HEADERS_TO_ADD",
    "REFUSED_WITH",
    "add_headers",
    "caller_of",
    "form_of",
    "guard",
    "refused",
    "visit_of",
]

FORM_TYPE = "application/x-www-form-urlencoded"
HEADERS_TO_ADD = "itinerary_headers"
"""The key of response headers in a request's state; a name may occur several times (cookies)."""
REFUSED_WITH = "itinerary_refused_with"
"""The key of the rejection's status in a request's state. The browser may receive a redirect instead."""
_CALLER = "itinerary_caller"
_FIELDS_MAX = 100

Connection = ASGIConnection[Any, Any, Any, Any]


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Admit a request, or raise Refused."""
    admission: Admission = connection.app.state.admission
    found = await admission.admit(visit_of(connection, handler.opt.get("needs")))
    if isinstance(found, Rejection):
        refused(connection, found)
        if found.status == HTTPStatus.TOO_MANY_REQUESTS:
            await connection.app.state.slowdown.wait()
        raise RequestRefused(found.status, found.title, found.detail)
    add_headers(connection, found.headers)
    connection.scope["state"][_CALLER] = found


def refused(connection: Connection, rejection: Rejection) -> None:
    """Log a rejection, and send its headers with the response."""
    add_headers(connection, rejection.headers)
    connection.app.state.refusals.note(rejection.code, rejection.client)
    connection.scope["state"][REFUSED_WITH] = rejection.status


def add_headers(connection: Connection, headers: Iterable[tuple[str, str]]) -> None:
    """Send these headers with the response to a request, whatever it is."""
    connection.scope["state"][HEADERS_TO_ADD].extend(headers)


def caller_of(connection: Connection) -> Caller:
    """Return the caller of a request. Only for routes, which run after the guard."""
    found = connection.scope["state"][_CALLER]
    assert isinstance(found, Caller), "the guard has let it in"
    return found


async def form_of(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the fields of a form, each once; empty if the request has no form. Raises Refused for an invalid form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        return {}
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        raise RequestRefused(400, "Bad request", f"this form cannot be read: {error}") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RequestRefused(400, "Bad request", "this form has a field twice")
    return fields


def _ends_of(client: tuple[str, int], server: tuple[str, int | None]) -> peers.Connection | None:
    """Return both ends of a connection; None for a socket without ports."""
    return None if server[1] is None else peers.Connection((client[0], client[1]), (server[0], server[1]))


def visit_of(connection: Connection, needs: Any) -> RequestHead:
    """Return a request as admission sees it."""

    async def form_token() -> str | None:
        return (await form_of(connection)).get(CSRF_FIELD) if isinstance(connection, Request) else None

    client, server = connection.scope["client"], connection.scope["server"]
    return RequestHead(
        method=str(connection.scope.get("method", "GET")),
        needs=needs,
        headers=list(connection.scope["headers"]),
        client=None if client is None else client[0],
        connection=None if client is None or server is None else _ends_of(client, server),
        scheme=connection.scope["scheme"],
        form_token=form_token,
    )
