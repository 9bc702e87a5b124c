"""A partition of a record scheduler that is not scheduled, because its time zone is unknown."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.schedules.instants import shown_instant

__all__ = ["STALLED_MAX", "StalledPartition"]

STALLED_MAX: Final = 20
"""The most stalled partitions that a node lists in its heartbeat."""


class StalledPartition(msgspec.Struct, frozen=True):
    """A partition whose time zone the program's function has not returned."""

    desk: str
    partition: str
    since: int
    """The time of the first failed call, by the store's clock."""
    error: str

    @property
    def sentence(self) -> str:
        """The sentence that people read on pages and in health answers."""
        return (
            f"nothing of partition {self.partition} of {self.desk} is scheduled since {shown_instant(self.since)}: "
            f"its time zone is unknown ({self.error})"
        )
