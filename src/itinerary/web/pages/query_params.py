"""Query parameters of pages, validated: limited in length."""

from __future__ import annotations

from typing import Final

from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["TEXT_MAX", "asked_text"]

TEXT_MAX: Final = 500


def asked_text(request: Request, name: str) -> str:
    """Return a text parameter; empty if it is missing. Raises Refused if it is too long."""
    value = request.query_params.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise RequestRefused(400, "Bad request", f"{name}: longer than {TEXT_MAX} characters")
    return value.strip()
