"""A backfill as values: what is wanted, and how far it is (R4). How it is carried out is in `requesting`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from itinerary.core.recovery.backfill import Which
from itinerary.errors import ConfigError
from itinerary.model.states import OccurrenceState
from itinerary.model.validators import one_of, whole

__all__ = ["Backfill", "BackfillWish"]


class BackfillWish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to be run again, or for the first time: instants in `[start, end)`, in microseconds."""

    start: int
    end: int
    which: str = Which.MISSING
    max_active: int = 1
    reason: str | None = None
    key: str | None = None
    """What makes two requests the same one; None: nothing does."""
    version: str = "original"
    fingerprint: str | None = None
    """Of one with a key: a digest of what is asked for."""

    def __post_init__(self) -> None:
        one_of(Which)("which", self.which)
        whole(1, 1_000)("max_active", self.max_active)
        check_version(self.version)
        if self.end <= self.start:
            raise ConfigError("the range of a backfill ends before it starts, or is empty; give a later end")


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backfill is, or what it came to."""

    job: str
    instants: tuple[datetime, ...]
    """What is run, in order."""
    looked_at: int
    """How many instants the range has."""
    created: int = 0
    """How many occurrences this call has made; others had been made by an earlier one with the same key."""
    ended: Mapping[OccurrenceState, int] = {}
    """How many have ended, and how."""
    is_dry: bool = False

    @property
    def left(self) -> int:
        """How many have not ended."""
        return len(self.instants) - sum(self.ended.values())


def check_version(version: object) -> None:
    """Refuse what is neither of the two versions that something can be run again as."""
    if version not in ("original", "current"):
        raise ConfigError(f"version: {version!r} is unknown; allowed: original, current")
