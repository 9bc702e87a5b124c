"""The overload of a node: how far it is behind, since when, and its bottleneck. `core.loop.overload` decides it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["Bottleneck", "OverloadExtent"]


class Bottleneck(StrEnum):
    """The cause of an overload."""

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


class OverloadExtent(msgspec.Struct, frozen=True):
    """The extent of an overload."""

    since: int
    """The due time of the oldest late run when the overload was first detected, by the store's clock."""
    by: int
    """The time since the oldest unstarted run was due, in microseconds."""
    waiting: int
    """The number of runs that are due and have not started."""
    bottleneck: Bottleneck

    @property
    def sentence(self) -> str:
        """The description that people see."""
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
        """The advice for operators."""
        return _ADVICE[self.bottleneck]
