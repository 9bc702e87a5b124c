"""A budget for log lines: the first lines of a second are written, and the others are counted and summarised.

A node that skips or queues thousands of runs in a second would spend more time on log lines than on runs. No operator
reads them all. Nothing is hidden: once a second, a summary gives the number of omitted lines and the first few as
examples.

    budget = LogBudget()
    if budget.admits("run.skipped", "etl:1767225600", now):
        …write the line…
    log_summaries(log, budget.summaries(now))

Lines are counted by event, so a flood of one event does not use up the budget of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from itinerary.schedules.durations import SECOND

__all__ = ["LINES_A_SECOND", "SUMMARY_AFTER", "LogBudget", "Summary", "log_summaries"]

LINES_A_SECOND: Final = 50
"""The most lines of one event that are written in a second."""
SUMMARY_AFTER: Final = 1.5
"""Seconds without a new line after which a writer logs its summaries."""
_EXAMPLES: Final = 5


class Summary(NamedTuple):
    """Lines of one event that were counted and not written."""

    event: str
    lines: int
    examples: tuple[str, ...]
    """The subjects of the first of these lines."""
    level: str


class _Counted:
    __slots__ = ("admitted", "examples", "left_out", "level")

    def __init__(self) -> None:
        self.admitted = self.left_out = 0
        self.examples: list[str] = []
        self.level = ""


class LogBudget:
    """Counter of log lines by event and second. `now` is in microseconds, from any clock that does not jump far."""

    def __init__(self, lines_a_second: int = LINES_A_SECOND) -> None:
        self._lines = lines_a_second
        self._second = 0
        self._counted: dict[str, _Counted] = {}
        self._owed: list[Summary] = []

    def admits(self, event: str, about: str, now: int, level: str = "info") -> bool:
        """True if a line may be written. Otherwise the line is counted.

        Args:
            event: The name of the event.
            about: The subject of the line, for the examples of the summary.
            now: The current time.
            level: The severity of the line.
        """
        if now // SECOND != self._second:
            self._turn(now)
        counted = self._counted.get(event)
        if counted is None:
            counted = self._counted[event] = _Counted()
        if counted.admitted < self._lines:
            counted.admitted += 1
            return True
        counted.left_out += 1
        counted.level = level
        if len(counted.examples) < _EXAMPLES:
            counted.examples.append(about)
        return False

    def summaries(self, now: int) -> list[Summary]:
        """Return the summaries of past seconds. Each summary is returned once."""
        if now // SECOND != self._second:
            self._turn(now)
        owed, self._owed = self._owed, []
        return owed

    def close(self) -> list[Summary]:
        """Return all remaining summaries."""
        return self.summaries((self._second + 1) * SECOND)

    @property
    def owes(self) -> bool:
        """True if lines were counted and not yet summarised."""
        return bool(self._owed) or any(counted.left_out for counted in self._counted.values())

    def _turn(self, now: int) -> None:
        self._owed += [
            Summary(event, counted.left_out, tuple(counted.examples), counted.level)
            for event, counted in self._counted.items()
            if counted.left_out
        ]
        self._second, self._counted = now // SECOND, {}


def log_summaries(log: Any, summaries: Sequence[Summary]) -> None:
    """Log how many lines of each event were counted and not written."""
    for one in summaries:
        examples = list(one.examples)
        if one.level in ("warning", "error"):
            log.warning("log.summarized", of=one.event, count=one.lines, examples=examples)
        else:
            log.info("log.summarized", of=one.event, count=one.lines, examples=examples)
