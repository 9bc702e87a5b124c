"""Wall-clock times in a job's own zone. The script converts to the user's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.instants import microseconds_of

__all__ = ["on_the_wall"]


def on_the_wall(snapshot: StoreSnapshot, moment: datetime | None, zone: str) -> str | None:
    """Format a moment by the wall clock of a zone: `Mon 2026-03-02 05:00:00`."""
    if moment is None:
        return None
    ahead = snapshot.offset(zone, microseconds_of(moment))
    return f"{moment.astimezone(UTC) + timedelta(seconds=ahead):%a %Y-%m-%d %H:%M:%S}"
