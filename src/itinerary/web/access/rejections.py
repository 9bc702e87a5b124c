"""The reasons to reject a request, with their texts and remedies.

A rejection never repeats long input, and never reveals whether a token exists that was not sent.
"""

from __future__ import annotations

from typing import Final

from itinerary.model.scopes import Scope
from itinerary.model.text import shown
from itinerary.web.access.callers import Rejection

__all__ = [
    "METHODS",
    "bad_header",
    "foreign",
    "headers_too_large",
    "local_refused",
    "no_rule",
    "no_token",
    "proxied",
    "session_over",
    "store_away",
    "too_little",
    "too_many",
    "unknown_method",
    "unproven",
    "wrong_host",
    "wrong_token",
]

METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_TRY_AGAIN_AFTER: Final = 5
_HOW: Final = "send Authorization: Bearer with a token that `itinerary token create` has made, or sign in"


def headers_too_large(limit: str) -> Rejection:
    return Rejection(431, "headers_too_large", "Headers too large", f"This request has more than {limit}.")


def bad_header(name: str, why: str) -> Rejection:
    return Rejection(400, "bad_header", "Header that cannot be read", f"The header {name} {why}.")


def unknown_method(method: str) -> Rejection:
    detail = f"The method {shown(method)} is not known here; there are {', '.join(METHODS)}."
    return Rejection(405, "unknown_method", "Unknown method", detail, (("Allow", ", ".join(METHODS)),))


def wrong_host(host: str | None, known: str) -> Rejection:
    said = "names no host" if host is None else f"is meant for {shown(host)}"
    detail = (
        f"This request {said}, and this server is {known}. If that is another name of this server, its operator has to"
        " say so; if it is not, somebody tried to reach this server through your browser."
    )
    return Rejection(421, "wrong_host", "Not this server", detail)


def foreign(from_where: str) -> Rejection:
    detail = f"This request was made by a page of another site ({shown(from_where)}). Open this server's own page."
    return Rejection(403, "foreign", "From another site", detail)


def no_rule() -> Rejection:
    detail = "This address does not say which scope it needs, so nobody may use it. That is a mistake of the server."
    return Rejection(403, "no_rule", "Denied", detail)


def no_token() -> Rejection:
    return Rejection(401, "no_token", "Who are you?", f"This needs a token: {_HOW}.", _challenge())


def proxied() -> Rejection:
    detail = (
        "This request came through a proxy, so that it is not known to come from this machine, and it has no token:"
        f" {_HOW}."
    )
    return Rejection(401, "proxied", "Who are you?", detail, _challenge())


def wrong_token() -> Rejection:
    detail = "That is no token, or it is one that has expired or was revoked. `itinerary token list` has them all."
    return Rejection(401, "wrong_token", "Token not accepted", detail, _challenge("invalid_token"))


def session_over(clears: tuple[tuple[str, str], ...]) -> Rejection:
    detail = "Your session is over, or its token has expired or was revoked. Sign in again."
    return Rejection(401, "session_over", "Session over", detail, (*_challenge(), *clears))


def local_refused(user: str | None) -> Rejection:
    """Reject a local caller. `user` opened the connection on this machine; None if no user is found."""
    who = "a process that cannot be identified" if user is None else f"user {shown(user)}"
    detail = f"The connection comes from {who}, and the node runs as another user: {_HOW}."
    return Rejection(401, "other_user", "Who are you?", detail, _challenge())


def too_little(name: str, has: Scope, needs: Scope, *, is_local: bool = False) -> Rejection:
    detail = f"This needs scope {needs.value}, and {shown(name)} has scope {has.value}."
    if is_local:
        detail += f' Use a token, or allow local callers more: web_local = "{needs.value}".'
    return Rejection(403, "too_little", "Scope too small", detail, _challenge("insufficient_scope", needs))


def unproven() -> Rejection:
    detail = (
        "This change does not carry the token of the page that it should come from: the page is from before the"
        " server's last start, or your session is another one by now. Reload it, and try again. Programs on this"
        " machine send JSON, or an Idempotency-Key."
    )
    return Rejection(403, "unproven", "Not from one of our pages", detail)


def too_many(wait: int, what: str) -> Rejection:
    """Reject a caller above a limit. `wait`: whole seconds."""
    detail = f"There are too many {what} at once. Try again in {wait} s."
    return Rejection(429, "too_many", "Too many requests", detail, (("Retry-After", str(wait)),))


def store_away() -> Rejection:
    detail = (
        "The store does not answer, so that it is not known whether you may do this. What runs goes on; try again in a"
        " moment."
    )
    return Rejection(503, "store_away", "Store away", detail, (("Retry-After", str(_TRY_AGAIN_AFTER)),))


def _challenge(error: str | None = None, scope: Scope | None = None) -> tuple[tuple[str, str], ...]:
    said = ['realm="itinerary"']
    said += [f'error="{error}"'] if error else []
    said += [f'scope="{scope.value}"'] if scope else []
    return (("WWW-Authenticate", f"Bearer {', '.join(said)}"),)
