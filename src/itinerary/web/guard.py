"""The guard before every route: it identifies the caller before the rest of a request is read.

Every route declares its scope: `needs=Scope.READ`, `needs=PUBLIC` (Q6).
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import parse_qsl

from itinerary.web.access import CSRF_FIELD, Caller, Need, Rejection, RequestHead, peers
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

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


async def guard(request: Request, needs: Need) -> None:
    """Admit a request, or raise RequestRefused."""
    found = await request.app.admission.admit(visit_of(request, needs))
    if isinstance(found, Rejection):
        refused(request, found)
        if found.status == HTTPStatus.TOO_MANY_REQUESTS:
            await request.app.slowdown.wait()
        raise RequestRefused(found.status, found.title, found.detail)
    add_headers(request, found.headers)
    request.scope["state"][_CALLER] = found


def refused(request: Request, rejection: Rejection) -> None:
    """Log a rejection, and send its headers with the response."""
    add_headers(request, rejection.headers)
    request.app.refusals.note(rejection.code, rejection.client)
    request.scope["state"][REFUSED_WITH] = rejection.status


def add_headers(request: Request, headers: Iterable[tuple[str, str]]) -> None:
    """Send these headers with the response to a request, whatever it is."""
    request.scope["state"][HEADERS_TO_ADD].extend(headers)


def caller_of(request: Request) -> Caller:
    """Return the caller of a request. Only for routes, which run after the guard."""
    found = request.scope["state"][_CALLER]
    assert isinstance(found, Caller), "the guard has let it in"
    return found


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form, each once; empty if the request has no form. Raises Refused for an invalid form."""
    if request.media_type != FORM_TYPE:
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


def visit_of(request: Request, needs: Need) -> RequestHead:
    """Return a request as admission sees it."""

    async def form_token() -> str | None:
        return (await form_of(request)).get(CSRF_FIELD)

    client, server = request.scope["client"], request.scope["server"]
    return RequestHead(
        method=request.method,
        needs=needs,
        headers=list(request.scope["headers"]),
        client=None if client is None else client[0],
        connection=None if client is None or server is None else _ends_of(client, server),
        scheme=request.scope["scheme"],
        form_token=form_token,
    )
