"""What the tasks themselves wrote down: which attempt ran where, from when to when, and how it ended.

This is the world's own log and owes nothing to the store or to the nodes. That a run happened once, not before its
instant, not beside another of its job, is read from here; what the store says is then compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import Key
from itinerary.simulate.processes import Process

__all__ = ["Ending", "Run", "RunLog"]


class Ending(StrEnum):
    """How a run really ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """It was asked to end, and did."""
    DIED = "died"
    """Its process crashed."""


class Run:
    """One attempt that really began."""

    __slots__ = (
        "allowed_at",
        "asked_at",
        "attempt",
        "began_at",
        "ended_at",
        "ending",
        "given_up_at",
        "job",
        "key",
        "process",
        "task",
    )

    def __init__(self, attempt: AttemptKey, job: str, task: str, key: Key, process: Process, began_at: int) -> None:
        self.attempt = attempt
        self.job = job
        self.task = task
        self.key = key
        self.process = process
        self.began_at = began_at
        """By the store's clock, like the others."""
        self.allowed_at = began_at
        """When the write was committed that allowed it: a little before it began, and it may be lost by then."""
        self.ended_at: int | None = None
        self.ending: Ending | None = None
        self.asked_at: int | None = None
        """When its node asked it to end: on time or not, it is stored as having been stopped."""
        self.given_up_at: int | None = None
        """When its node gave up on it: it goes on, and counts for nothing."""

    @property
    def name(self) -> str:
        """What people are told of it by."""
        ref, place, number = self.attempt
        return f"{self.job}:{self.key.instant // 1_000_000} (occurrence {ref}) task {place} attempt {number}"

    def __repr__(self) -> str:
        return f"<run of {self.name} by {self.process.incarnation}>"


class RunLog:
    """All runs of a world, in the order in which they began."""

    def __init__(self, hear: Callable[[Run], None] = lambda _: None) -> None:
        self._hear = hear
        """Told of each run as it begins."""
        self.runs: list[Run] = []
        self.by_attempt: dict[AttemptKey, list[Run]] = {}

    def begin(self, run: Run) -> None:
        """A task has begun."""
        self.runs.append(run)
        self.by_attempt.setdefault(run.attempt, []).append(run)
        self._hear(run)

    def end(self, run: Run, at: int, ending: Ending) -> None:
        """A task is over."""
        assert run.ending is None, f"{run} ends once"
        run.ended_at, run.ending = at, ending
