"""The sign-in page: the user enters a token once, and a session stands for it from then on."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from litestar import Response, get, post
from litestar.response import Redirect

from itinerary.model.scopes import Scope
from itinerary.web.access import PUBLIC, Rejection
from itinerary.web.litestar_guard import add_headers, caller_of, form_of, refused, visit_of
from itinerary.web.live import RenderedPage
from itinerary.web.pages.rendering import AnyRequest, framed
from itinerary.web.pages.templates import drawn

__all__ = ["SIGNING"]


@get("/login", opt={"needs": PUBLIC}, include_in_schema=False)
async def ask(request: AnyRequest) -> Response[Any]:
    """The form."""
    return framed(request, _form(request, request.query_params.get("next", "/"), None))


@post("/login", opt={"needs": PUBLIC}, include_in_schema=False)
async def sign_in(request: AnyRequest) -> Response[Any]:
    """What was typed into it."""
    fields = await form_of(request)
    token, onward = fields.get("token", "").strip(), fields.get("next", "/")
    found = await request.app.state.admission.sign_in(visit_of(request, PUBLIC), token)
    if isinstance(found, Rejection):
        refused(request, found)
        return framed(request, _form(request, onward, found.detail, found.status))
    add_headers(request, found.headers)
    return Redirect(_local(onward), status_code=303)


@post("/logout", opt={"needs": Scope.READ}, include_in_schema=False)
async def sign_out(request: AnyRequest) -> Response[Any]:
    """Forget the session."""
    add_headers(request, request.app.state.admission.sign_out(visit_of(request, Scope.READ)))
    return Redirect("/login", status_code=303)


SIGNING = (ask, sign_in, sign_out)


def _form(request: AnyRequest, onward: str, why: str | None, status: int = 200) -> RenderedPage:
    form = drawn("login.html", onward=_local(onward), why=why, csrf=caller_of(request).csrf)
    return RenderedPage(title="Sign in", parts={"login": form}, status=status)


def _local(onward: str) -> str:
    """Return the address to continue at: only a path of this server."""
    parts = urlsplit(onward)
    is_ours = not parts.scheme and not parts.netloc and onward.startswith("/") and onward[1:2] not in {"/", "\\"}
    return onward if is_ours and onward.isprintable() else "/"
