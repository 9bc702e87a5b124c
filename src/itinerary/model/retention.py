"""How much history is kept (D8), and what a round of forgetting came to."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["PruneCursor", "Pruned", "Retention"]

_DAY: Final = 86_400_000_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What may be removed. Durations are microseconds; what is not final, or not decided for good, always stays."""

    keep_for: int = 30 * _DAY
    """Since its end, what went well or did not run."""
    keep_failed_for: int = 90 * _DAY
    """Since its end, what failed."""
    keep_max: int = 100_000
    """Of each job, the newest so many, rounded up to a few more."""
    margin: int = _DAY
    """How far below the watermark nothing is removed, however old its end: an audit needs it."""

    def __post_init__(self) -> None:
        for key in ("keep_for", "keep_failed_for", "keep_max", "margin"):
            if getattr(self, key) < 0:
                raise ConfigError(f"{key} {shown(getattr(self, key))} is negative; give 0 or more")


class PruneCursor(msgspec.Struct, frozen=True):
    """Where a round goes on: first along time, then job by job, then node by node."""

    after: tuple[int | str, ...] = ()
    """The last key that was looked at."""
    job: int = -1
    """The last job; -1 while it goes along time."""
    node: int = -1


class Pruned(msgspec.Struct, frozen=True):
    """What one step removed, and where the next one goes on: None at the end of the round."""

    removed: int
    next: PruneCursor | None
    tidied: int = 0
    """Chapters of histories that went, since nothing was left of them."""

    @property
    def has_worked(self) -> bool:
        """Whether there was anything to do."""
        return self.removed > 0 or self.tidied > 0
