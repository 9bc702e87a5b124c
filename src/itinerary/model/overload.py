"""A node that is behind: how far, since when, and what holds it up. `core.loop.overload` decides it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["Behind", "Bottleneck"]


class Bottleneck(StrEnum):
    """What holds a node up."""

    CPU = "cpu"
    SLOTS = "slots"
    STORE = "store"
    UNKNOWN = "unknown"


_CAUSES: Final = {
    Bottleneck.CPU: "it lacks CPU",
    Bottleneck.SLOTS: "all of its slots are in use",
    Bottleneck.STORE: "it waits for its store",
    Bottleneck.UNKNOWN: "the cause is unknown",
}
_ADVICE: Final = {
    Bottleneck.CPU: "add a node, spread the schedules, or run heavy tasks as processes of their own",
    Bottleneck.SLOTS: "raise max_concurrent_jobs, add a node, or shorten the tasks",
    Bottleneck.STORE: "look at the disk, the load and the network of the store",
    Bottleneck.UNKNOWN: "neither slots, CPU nor store were used up when it was measured; look at the machine",
}


class Behind(msgspec.Struct, frozen=True):
    """How far a node is behind."""

    since: int
    """When the oldest run was due that was late at the first look, by the store's clock."""
    by: int
    """For how long the oldest run has been due and not started, in microseconds."""
    waiting: int
    """How many runs are due and have not started."""
    bottleneck: Bottleneck

    @property
    def sentence(self) -> str:
        """What people are told."""
        match self.waiting:
            case 0:
                runs = "due runs are not claimed yet"
            case 1:
                runs = "1 due run has not started"
            case count:
                runs = f"{count:,} due runs have not started"
        return (
            f"{self.by // SECOND} s behind since {shown_instant(self.since)}: {_CAUSES[self.bottleneck]} "
            f"(bottleneck: {self.bottleneck}), and {runs}"
        )

    @property
    def advice(self) -> str:
        """What to do about it."""
        return _ADVICE[self.bottleneck]
