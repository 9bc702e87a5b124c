"""A message that is shown once, on the page after an action: "Paused etl".

The message travels in a cookie that lives for a minute and is removed when it is shown, so any node can show it. The
message is text, and is escaped like any other text.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from itinerary.web.guard import add_headers
from itinerary.web.requests import Request

__all__ = ["leave_notice", "take_notice"]

_COOKIE: Final = "itinerary_notice"
_TEXT_MAX: Final = 300
_LIVES_FOR: Final = 60


def leave_notice(request: Request, text: str) -> None:
    """Show a message on the next page."""
    short = text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
    _set(request, urlsafe_b64encode(short.encode(errors="replace")).decode(), _LIVES_FOR)


def take_notice(request: Request) -> str | None:
    """Return the message for this page, if there is one, and remove its cookie."""
    value = request.cookies.get(_COOKIE)
    if value is None:
        return None
    _set(request, "", 0)
    try:
        text = urlsafe_b64decode(value.encode()).decode()
    except ValueError:
        return None
    return text if len(text) <= _TEXT_MAX else None


def _set(request: Request, value: str, lives_for: int) -> None:
    secure = "; Secure" if request.scope["scheme"] == "https" else ""
    cookie = f"{_COOKIE}={value}; Path=/; Max-Age={lives_for}; HttpOnly; SameSite=Strict{secure}"
    add_headers(request, [("Set-Cookie", cookie)])
