"""Limits of a window in a request: its length, and the number of its instants."""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.schedules.durations import SECOND, DurationLike, parse_duration
from itinerary.web.problems import RequestRefused

__all__ = [
    "AUDITED",
    "BACKFILL_MAX",
    "CHANGE_MAX",
    "DAY",
    "IN_PROCESS",
    "IN_WORKER",
    "PLANNED_JOBS_MAX",
    "WindowLimits",
    "check_compared",
]

DAY: Final = 86_400 * SECOND
BACKFILL_MAX: Final = 3_660 * DAY
"""The maximum range of a backfill. `core.recovery.backfill` limits its instants."""
CHANGE_MAX: Final = 3_660 * DAY
"""The maximum window over which an actual change is compared, which needs the scope `admin`.

A comparison ends after 10,000 instants, so a long window costs little; see `core.timeline.diff`.
"""
PLANNED_JOBS_MAX: Final = 1_000
"""The maximum number of jobs in one plan or simulation."""


def check_compared(window: int | DurationLike | None, longest: int, *, instead: str) -> None:
    """Reject a comparison of versions over too long a window; a number of occurrences has its own limit."""
    if window is not None and not isinstance(window, int):
        WindowLimits(window_for=longest, instants_max=0).check_window("window", parse_duration(window), instead=instead)


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a window."""

    window_for: int
    instants_max: int
    why: str = ""
    """Why these limits are stricter than usual, as a part of a sentence."""

    def check_window(self, key: str, lasting: int, *, instead: str) -> None:
        """Reject a window that is too long.

        Args:
            key: The name of the window in the request.
            lasting: Its length in microseconds.
            instead: The alternative, as a part of a sentence.

        Raises:
            Refused: The window is too long.
        """
        if lasting > self.window_for:
            raise RequestRefused(
                400,
                "Too much",
                f"{key}: the window is longer than {self.window_for // DAY:,} days, the most that a request may ask "
                f"for{self.why}; ask for a shorter one, or {instead}",
            )

    def check_count(self, count: int, *, instead: str) -> None:
        """Reject a window that holds too many instants. Raises Refused."""
        if count > self.instants_max:
            raise RequestRefused(
                400,
                "Too much",
                f"the window holds more than {self.instants_max:,} instants, the most that a request may ask for"
                f"{self.why}; ask for a shorter window or fewer jobs, or {instead}",
            )


IN_WORKER: Final = WindowLimits(window_for=31 * DAY, instants_max=1_000_000)
IN_PROCESS: Final = WindowLimits(
    window_for=7 * DAY,
    instants_max=50_000,
    why=" where only the node's own process can do the work (a store in memory or LMDB, say)",
)
AUDITED: Final = IN_WORKER
"""The limits of an audit, wherever it runs: it reads page by page, so a long window takes time but no memory."""
