"""The sign-in page: the user enters a token once, and a session stands for it from then on."""

from __future__ import annotations

from urllib.parse import urlsplit

from itinerary.model.scopes import Scope
from itinerary.web.access import PUBLIC, Rejection
from itinerary.web.guard import add_headers, caller_of, form_of, refused, visit_of
from itinerary.web.http_responses import Redirect
from itinerary.web.live import RenderedPage
from itinerary.web.pages.rendering import framed
from itinerary.web.pages.templates import drawn
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page

__all__ = ["SIGNING"]


@page("/login", needs=PUBLIC)
async def ask(request: Request) -> AnyResponse:
    """The form."""
    return framed(request, _form(request, request.query_params.get("next", "/"), None))


@page("/login", needs=PUBLIC, method="POST")
async def sign_in(request: Request) -> AnyResponse:
    """What was typed into it."""
    fields = await form_of(request)
    token, onward = fields.get("token", "").strip(), fields.get("next", "/")
    found = await request.app.admission.sign_in(visit_of(request, PUBLIC), token)
    if isinstance(found, Rejection):
        refused(request, found)
        return framed(request, _form(request, onward, found.detail, found.status))
    add_headers(request, found.headers)
    return Redirect(_local(onward))


@page("/logout", needs=Scope.READ, method="POST")
async def sign_out(request: Request) -> AnyResponse:
    """Forget the session."""
    add_headers(request, request.app.admission.sign_out(visit_of(request, Scope.READ)))
    return Redirect("/login")


SIGNING = (ask, sign_in, sign_out)


def _form(request: Request, onward: str, why: str | None, status: int = 200) -> RenderedPage:
    form = drawn("login.html", onward=_local(onward), why=why, csrf=caller_of(request).csrf)
    return RenderedPage(title="Sign in", parts={"login": form}, status=status)


def _local(onward: str) -> str:
    """Return the address to continue at: only a path of this server."""
    parts = urlsplit(onward)
    is_ours = not parts.scheme and not parts.netloc and onward.startswith("/") and onward[1:2] not in {"/", "\\"}
    return onward if is_ours and onward.isprintable() else "/"
