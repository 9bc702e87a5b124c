"""The retention of history (D8), and the result of a pruning step."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["PruneCursor", "Pruned", "Retention"]

_DAY: Final = 86_400_000_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of retention, in microseconds. Rows that are not final, or not decided for good, always stay."""

    keep_for: int = 30 * _DAY
    """The time after its end for which an occurrence that succeeded or did not run is kept."""
    keep_failed_for: int = 90 * _DAY
    """The time after its end for which a failed occurrence is kept."""
    keep_max: int = 100_000
    """The number of newest occurrences that are kept for each job, rounded up slightly."""
    margin: int = _DAY
    """The distance below the watermark within which nothing is removed, even if it ended long ago: an audit needs
    it."""

    def __post_init__(self) -> None:
        for key in ("keep_for", "keep_failed_for", "keep_max", "margin"):
            if getattr(self, key) < 0:
                raise ConfigError(f"{key} {shown(getattr(self, key))} is negative; give 0 or more")


class PruneCursor(msgspec.Struct, frozen=True):
    """The position of a pruning round: first in order of time, then job by job, then node by node."""

    after: tuple[int | str, ...] = ()
    """The last key that was examined."""
    job: int = -1
    """The last job. -1 during the pass in order of time."""
    node: int = -1


class Pruned(msgspec.Struct, frozen=True):
    """The result of one pruning step, and the position of the next one: None at the end of the round."""

    removed: int
    next: PruneCursor | None
    tidied: int = 0
    """The number of history chunks that were removed because they were empty."""

    @property
    def has_worked(self) -> bool:
        """True if the step removed anything."""
        return self.removed > 0 or self.tidied > 0
