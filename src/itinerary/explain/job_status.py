"""The status of a job at a time, in words: paused, stopped, removed, the version in force; who set it and why."""

from __future__ import annotations

from itinerary.core.timeline.history import JobActive, JobPaused, JobRemoved, JobStatus, JobStopped
from itinerary.errors import ItineraryError
from itinerary.explain.context import ExplainContext
from itinerary.model.rows import EntryKind

__all__ = ["skip_words", "standing_at", "standing_words", "version_words"]


def standing_at(context: ExplainContext, instant: int) -> JobStatus | None:
    """Return the job's status at an instant; None before the first version, or if the definition is unreadable."""
    try:
        segment = context.timeline.in_force(context.job.number, instant)
    except ItineraryError:
        return None
    return None if segment is None else segment.status


def standing_words(status: JobStatus, context: ExplainContext) -> str:
    """Return the status of a job in words, with the user who set it, the time and the reason."""
    if isinstance(status, JobActive):
        return "the job was active"
    how = "paused" if isinstance(status, JobPaused) else "stopped" if isinstance(status, JobStopped) else "removed"
    since = (
        f"at {context.time.brief(status.since)}"
        if isinstance(status, JobRemoved)
        else f"since {context.time.brief(status.since)}"
    )
    until = ""
    if isinstance(status, JobPaused) and status.until is not None:
        until = f" until {context.time.brief(status.until)}"
    why = f": {status.reason}" if status.reason else ""
    return f"the job was {how} by {status.by} {since}{until}{why}"


def skip_words(context: ExplainContext, instant: int, reason: str) -> str:
    """Return why an instant will be skipped, by the timeline of the job."""
    status = standing_at(context, instant)
    if isinstance(status, JobPaused) and str(status) == reason:
        return standing_words(status, context).replace("was", "is", 1)
    return f"this one is to be {reason}"


def version_words(context: ExplainContext, version: int) -> str:
    """Return the time from which a version is in force, its author and the reason; empty if there is no entry."""
    for entry in reversed(context.timeline.entries(context.job.number)):
        if entry.kind is EntryKind.VERSION and entry.version == version:
            why = f": {entry.reason}" if entry.reason else ""
            return f"since {context.time.brief(entry.effective_from)}, by {entry.entered_by}{why}"
    return ""
