"""The pruner: deletes history that is older than its retention (D8).

    a minute after this node becomes responsible, and then every hour:    step ─► pause ─► step ─► … ─► end of the round

The pruner checks every minute whether this node is responsible. If the first round came an hour after the start, a node
that restarts more often than that would never prune.

A step is one short store transaction, which removes at most a thousand rows. After a step, the pruner pauses for as
long as the step took, so pruning never uses more than half of a store. After a step that removed nothing, the pause is
a thousand times longer. A round visits every job. For a hundred thousand jobs that is seconds of work, which would be
visible on an idle node (P5). The store decides what to remove (`ledger.pruning`): never rows that the watermark needs,
and never a job's last run.

One node is enough: the one that joined first among the present nodes. If two nodes both consider themselves first for a
while, both prune the same rows, which does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from itinerary.errors import StoreError
from itinerary.model.retention import PruneCursor, Retention
from itinerary.model.settings import Settings
from itinerary.ports import Clock, Store
from itinerary.schedules.durations import SECOND

__all__ = ["PRUNE_INTERVAL", "PRUNE_LOOK_INTERVAL", "Pruner"]

PRUNE_LOOK_INTERVAL: Final = 60.0
"""Seconds between two checks of which node prunes, and from the start of a node to its first check. The store work
of the start itself is done by that time."""
PRUNE_INTERVAL: Final = 3_600.0
"""Seconds from the end of a round to the next round of the same node."""
_PAUSE_MIN: Final = 0.01
_UNHURRIED: Final = 1_000
"""The factor for the pause after a step that removed nothing: a thousandth of the time is spent on such steps."""
_UNHURRIED_MAX: Final = 5.0
"""The longest such pause in seconds, unless the step took longer. A round must also end if the store answers slowly."""


class Pruner:
    """The component that prunes while this node is responsible."""

    def __init__(self, store: Store, settings: Settings, clock: Clock, is_first: Callable[[], bool], log: Any) -> None:
        """Create a pruner. `is_first` is true if no present node joined before this one."""
        self._store, self._clock, self._is_first, self._log = store, clock, is_first, log
        self.rules = _rules_of(settings)
        """The retention that the next step uses."""

    def take_settings(self, settings: Settings) -> None:
        """Use the retention of these settings."""
        self.rules = _rules_of(settings)

    async def run(self) -> None:
        """Prune until cancelled."""
        next_at = self._clock.elapsed()
        while True:
            await asyncio.sleep(PRUNE_LOOK_INTERVAL)
            if self._clock.elapsed() < next_at or not self._is_first():
                continue
            try:
                await self.prune()
            except StoreError as error:
                self._log.warning("history.not_pruned", error=str(error), hint="it is tried again in an hour")
            next_at = self._clock.elapsed() + round(PRUNE_INTERVAL * SECOND)

    async def prune(self) -> int:
        """Prune once through all jobs.

        Returns:
            The number of removed rows.
        """
        removed, begun_at = 0, self._clock.elapsed()
        cursor: PruneCursor | None = PruneCursor()
        while cursor is not None:
            asked_at = self._clock.elapsed()
            step = await self._store.prune(self.rules, cursor)
            removed, cursor = removed + step.removed, step.next
            took = (self._clock.elapsed() - asked_at) / SECOND
            await asyncio.sleep(_pause_after(took, has_worked=step.has_worked))
        if removed:
            self._log.info("history.pruned", removed=removed, seconds=(self._clock.elapsed() - begun_at) / SECOND)
        return removed


def _pause_after(took: float, *, has_worked: bool) -> float:
    """Return the pause after a step that took `took` seconds."""
    unhurried = max(took, min(took * _UNHURRIED, _UNHURRIED_MAX))
    return max(took if has_worked else unhurried, _PAUSE_MIN)


def _rules_of(settings: Settings) -> Retention:
    return Retention(keep_for=settings.keep_for, keep_failed_for=settings.keep_failed_for, keep_max=settings.keep_max)
