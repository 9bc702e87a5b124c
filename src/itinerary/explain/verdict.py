"""What is decided of an occurrence or an instant, before it becomes an answer."""

from __future__ import annotations

from typing import NamedTuple

from itinerary.explain.causes import Cause, Fate

__all__ = ["Verdict"]


class Verdict(NamedTuple):
    """What became of it, why, and how that is said."""

    fate: Fate
    cause: Cause
    headline: str
    """What is said of it, without its subject and the full stop: `ran on time`."""
    rest: str = ""
    """Whole sentences after that."""
    advice: str | None = None
