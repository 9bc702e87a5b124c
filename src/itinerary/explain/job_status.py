"""The status of a job at a time, in words: paused, stopped, removed, the version in force; who set it and why."""

from __future__ import annotations

from itinerary.core.timeline.history import Active, Paused, Removed, Standing, Stopped
from itinerary.errors import ItineraryError
from itinerary.explain.context import Scene
from itinerary.model.rows import EntryKind

__all__ = ["skip_words", "standing_at", "standing_words", "version_words"]


def standing_at(scene: Scene, instant: int) -> Standing | None:
    """Return the job's status at an instant; None before the first version, or if the definition is unreadable."""
    try:
        stretch = scene.timeline.in_force(scene.job.number, instant)
    except ItineraryError:
        return None
    return None if stretch is None else stretch.standing


def standing_words(standing: Standing, scene: Scene) -> str:
    """Return the status of a job in words, with the user who set it, the time and the reason."""
    if isinstance(standing, Active):
        return "the job was active"
    how = "paused" if isinstance(standing, Paused) else "stopped" if isinstance(standing, Stopped) else "removed"
    since = (
        f"at {scene.time.brief(standing.since)}"
        if isinstance(standing, Removed)
        else f"since {scene.time.brief(standing.since)}"
    )
    until = ""
    if isinstance(standing, Paused) and standing.until is not None:
        until = f" until {scene.time.brief(standing.until)}"
    why = f": {standing.reason}" if standing.reason else ""
    return f"the job was {how} by {standing.by} {since}{until}{why}"


def skip_words(scene: Scene, instant: int, reason: str) -> str:
    """Return why an instant will be skipped, by the timeline of the job."""
    standing = standing_at(scene, instant)
    if isinstance(standing, Paused) and str(standing) == reason:
        return standing_words(standing, scene).replace("was", "is", 1)
    return f"this one is to be {reason}"


def version_words(scene: Scene, version: int) -> str:
    """Return the time from which a version is in force, its author and the reason; empty if there is no entry."""
    for entry in reversed(scene.timeline.entries(scene.job.number)):
        if entry.kind is EntryKind.VERSION and entry.version == version:
            why = f": {entry.reason}" if entry.reason else ""
            return f"since {scene.time.brief(entry.effective_from)}, by {entry.entered_by}{why}"
    return ""
