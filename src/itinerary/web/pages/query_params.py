"""What was asked for in an address, checked: it is bounded, and is text that can be shown."""

from __future__ import annotations

from typing import Final

from itinerary.web.pages.rendering import AnyRequest
from itinerary.web.problems import Refused

__all__ = ["TEXT_MAX", "asked_text"]

TEXT_MAX: Final = 500


def asked_text(request: AnyRequest, name: str) -> str:
    """A text that was asked for; nothing if there is none. Raises Refused if nobody could mean it."""
    value = request.query_params.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise Refused(400, "Bad request", f"{name}: longer than {TEXT_MAX} characters")
    return value.strip()
