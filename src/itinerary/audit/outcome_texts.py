"""The outcomes of audited instants in words, for the command line and the page of audits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from itinerary.audit.runner import AuditResult

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
    """Return the words for an outcome."""
    return _WORDS.get(name, name.replace("_", " "))


def done(found: AuditResult) -> Iterator[tuple[int, str]]:
    """Yield the outcomes of the instants with their counts.

    The last line counts the instants for which nothing ever ran.
    """
    names = [*(name for name in _ORDER if name in found.outcomes), *(set(found.outcomes) - set(_ORDER))]
    for name in names:
        yield found.outcomes[name], outcome_words(name)
    if found.expected:
        yield found.not_run, "not run"
