"""What the loop did, added up: one row of statistics for each `loop_interval` (L10)."""

from __future__ import annotations

from itinerary.core.loop.state import Board
from itinerary.model.rows import StatisticsRow

__all__ = ["Tally"]


class Tally:
    """What the loop did since the last row of statistics (L10)."""

    __slots__ = ("all_iterations", "iterations", "longest", "messages", "since", "total")

    def __init__(self, since: int = 0, all_iterations: int = 0) -> None:
        self.since, self.all_iterations = since, all_iterations
        self.iterations = self.longest = self.total = self.messages = 0

    def add(self, now: int, messages: int, took: int) -> None:
        """One more iteration; `took` is that of the one before."""
        self.since = self.since or now
        self.iterations += 1
        self.all_iterations += 1
        self.messages += messages
        self.longest = max(self.longest, took)
        self.total += took

    def row(self, board: Board, now: int, inbox_depth: int) -> StatisticsRow:
        """All of it, as it is stored."""
        return StatisticsRow(
            board.here.node,
            now,
            self.iterations,
            self.longest,
            self.total,
            len(board.live),
            len(board.index),
            inbox_depth,
            self.messages,
        )
