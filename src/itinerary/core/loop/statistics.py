"""Statistics of the loop: one row for each `loop_interval` (L10)."""

from __future__ import annotations

from itinerary.core.loop.state import SchedulerState
from itinerary.model.rows import StatisticsRow

__all__ = ["LoopCounters"]


class LoopCounters:
    """Counters of the loop since the last row of statistics (L10)."""

    __slots__ = ("all_iterations", "iterations", "longest", "messages", "since", "total")

    def __init__(self, since: int = 0, all_iterations: int = 0) -> None:
        self.since, self.all_iterations = since, all_iterations
        self.iterations = self.longest = self.total = self.messages = 0

    def add(self, now: int, messages: int, took: int) -> None:
        """Count one more iteration. `took` is the duration of the iteration before."""
        self.since = self.since or now
        self.iterations += 1
        self.all_iterations += 1
        self.messages += messages
        self.longest = max(self.longest, took)
        self.total += took

    def row(self, scheduler: SchedulerState, now: int, inbox_depth: int) -> StatisticsRow:
        """Return the counters as a row for the store."""
        return StatisticsRow(
            scheduler.node.node,
            now,
            self.iterations,
            self.longest,
            self.total,
            len(scheduler.live),
            len(scheduler.index),
            inbox_depth,
            self.messages,
        )
