"""CPU seconds of each caller: heavy requests use them up, and they refill with time.

A caller starts with a full budget. A request is admitted while anything is left and pays afterwards, so one request can
overdraw a budget; the maximum debt is one whole budget. An empty budget is full again after ten minutes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Final

__all__ = ["FULL_AFTER", "CpuBudget"]

FULL_AFTER: Final = 600.0
"""The seconds after which an empty budget is full again."""
_CALLERS_MAX: Final = 10_000


class CpuBudget:
    """The budgets of all callers. The budget that was unused for longest is dropped first."""

    def __init__(self, seconds: float, elapsed: Callable[[], float]) -> None:
        """Give each caller a budget.

        Args:
            seconds: The CPU seconds of a full budget.
            elapsed: A monotonic clock, in seconds.
        """
        self.seconds = seconds
        self._elapsed = elapsed
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> int | None:
        """Return None if a request is admitted; otherwise the whole seconds until one is."""
        level = self._level(caller)
        return None if level > 0 else max(ceil(-level / self._rate), 1)

    def take(self, caller: str, seconds: float) -> None:
        """Subtract the CPU seconds of a request."""
        self._levels[caller] = (max(self._level(caller) - seconds, -self.seconds), self._elapsed())
        self._levels.move_to_end(caller)
        if len(self._levels) > _CALLERS_MAX:
            self._levels.popitem(last=False)

    @property
    def _rate(self) -> float:
        return self.seconds / FULL_AFTER

    def _level(self, caller: str) -> float:
        if caller not in self._levels:
            return self.seconds
        level, at = self._levels[caller]
        return min(self.seconds, level + (self._elapsed() - at) * self._rate)
