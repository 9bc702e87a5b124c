"""What became of audited instants, as people read it: on the command line and on the page of audits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from itinerary.audit.runner import Audited

__all__ = ["done", "outcome_words"]

_ORDER: Final = (
    "completed",
    "completed_with_errors",
    "failed",
    "failed_stale",
    "orphaned",
    "cancelled",
    "failed_before_start",
    "cancelled_before_start",
    "skipped",
    "missed",
)
_WORDS: Final = {
    "failed_stale": "timed out",
    "orphaned": "orphaned (begun, and lost with the node)",
    "failed_before_start": "failed before they began",
    "cancelled_before_start": "cancelled before they began",
}


def outcome_words(name: str) -> str:
    """Say what became of instants."""
    return _WORDS.get(name, name.replace("_", " "))


def done(found: Audited) -> Iterator[tuple[int, str]]:
    """List what became of the instants, with how many; the last line is of how many nothing ever ran."""
    names = [*(name for name in _ORDER if name in found.outcomes), *(set(found.outcomes) - set(_ORDER))]
    for name in names:
        yield found.outcomes[name], outcome_words(name)
    if found.expected:
        yield found.not_run, "not run"
