"""A backfill as values: the request and its progress (R4). `run_requests` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from itinerary.core.recovery.backfill import InstantChoice
from itinerary.errors import ConfigError
from itinerary.model.states import OccurrenceState
from itinerary.model.validators import one_of, whole

__all__ = ["Backfill", "BackfillWish"]


class BackfillWish(msgspec.Struct, frozen=True, kw_only=True):
    """The request to run the instants in `[start, end)`, in microseconds, again or for the first time."""

    start: int
    end: int
    which: str = InstantChoice.MISSING
    max_active: int = 1
    reason: str | None = None
    key: str | None = None
    """The idempotency key; None: every request is a new one."""
    version: str = "original"
    fingerprint: str | None = None
    """A digest of the request; set together with `key`."""

    def __post_init__(self) -> None:
        one_of(InstantChoice)("which", self.which)
        whole(1, 1_000)("max_active", self.max_active)
        check_version(self.version)
        if self.end <= self.start:
            raise ConfigError("the range of a backfill ends before it starts, or is empty; give a later end")


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The progress or the result of a backfill."""

    job: str
    instants: tuple[datetime, ...]
    """The instants to run, in order."""
    looked_at: int
    """The number of instants in the range."""
    created: int = 0
    """The number of occurrences that this call created. An earlier call with the same key created the others."""
    ended: Mapping[OccurrenceState, int] = {}
    """The number of ended occurrences, by state."""
    is_dry: bool = False

    @property
    def left(self) -> int:
        """The number of occurrences that have not ended."""
        return len(self.instants) - sum(self.ended.values())


def check_version(version: object) -> None:
    """Raise ConfigError unless the version is `original` or `current`."""
    if version not in ("original", "current"):
        raise ConfigError(f"version: {version!r} is unknown; allowed: original, current")
