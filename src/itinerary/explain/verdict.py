"""The decision about an occurrence or an instant, before it becomes an answer."""

from __future__ import annotations

from typing import NamedTuple

from itinerary.explain.causes import Cause, RunResult

__all__ = ["Verdict"]


class Verdict(NamedTuple):
    """The result, its cause, and the texts of the answer."""

    fate: RunResult
    cause: Cause
    headline: str
    """The sentence without its subject and its full stop: `ran on time`."""
    rest: str = ""
    """Whole sentences after the headline."""
    advice: str | None = None
