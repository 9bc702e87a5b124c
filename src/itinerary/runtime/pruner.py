"""The pruner: forgets what is older than it must be kept (D8).

    a minute after its turn has come, and then every hour:    step ─► pause ─► step ─► … ─► the end of the round

Its turn is looked at each minute: if a node's first round came an hour after its start, one that is started again more
often than that would never forget.

A step is one short transaction of the store, which removes a thousand rows at the most. After each it pauses for as
long as the step took, so that forgetting never takes more than half of a store. Where nothing was to be removed it is
in no hurry, and pauses for a thousand times as long: a round goes past every job that there is, and to look at a
hundred thousand of them is seconds of work, which an idle node would be seen to spend (P5). What is removed is for the
store to say (`ledger.pruning`): never what the watermark needs, and never a job's last run.

One node is enough. It is the one that has been there for longest among those which this node counts on; if two think
that of themselves for a while, both forget the same, and no harm is done.
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
"""Seconds from one look at whose turn it is to the next, and from the start of a node to its first: by then what the
start itself asks of the store is done."""
PRUNE_INTERVAL: Final = 3_600.0
"""Seconds from the end of a round to the next of the same node."""
_PAUSE_MIN: Final = 0.01
_UNHURRIED: Final = 1_000
"""How many times longer than a step that found nothing to do the pause after it is: a thousandth of the time is spent
on looking."""
_UNHURRIED_MAX: Final = 5.0
"""Seconds of such a pause at most, unless the step took longer: where a store answers slowly, a round must still come
to its end."""


class Pruner:
    """Forgets, when it is this node's turn."""

    def __init__(self, store: Store, settings: Settings, clock: Clock, is_first: Callable[[], bool], log: Any) -> None:
        """`is_first` says whether no node that is there has been there for longer."""
        self._store, self._clock, self._is_first, self._log = store, clock, is_first, log
        self.rules = _rules_of(settings)
        """What the next step goes by."""

    def take_settings(self, settings: Settings) -> None:
        """Keep as much as these say."""
        self.rules = _rules_of(settings)

    async def run(self) -> None:
        """Forget, for ever."""
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
        """One round. Returns how many rows are gone."""
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
    """How long the store is left in peace after a step that took so many seconds."""
    unhurried = max(took, min(took * _UNHURRIED, _UNHURRIED_MAX))
    return max(took if has_worked else unhurried, _PAUSE_MIN)


def _rules_of(settings: Settings) -> Retention:
    return Retention(keep_for=settings.keep_for, keep_failed_for=settings.keep_failed_for, keep_max=settings.keep_max)
