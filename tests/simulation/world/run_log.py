"""The log of the tasks themselves: the process, the start, the end and the outcome of each attempt that really ran.

This log is the world's own, independent of the store and the nodes. The checker uses it to check that an attempt ran
once, not before its instant, and not in parallel with another run of its job. Then it compares the log with the store.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import Key
from itinerary.testing.processes import Process

__all__ = ["SimulatedEnd", "SimulatedRun", "SimulatedRunLog"]


class SimulatedEnd(StrEnum):
    """The real end of a run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """The run ended after a stop request."""
    DIED = "died"
    """The process crashed."""


class SimulatedRun:
    """An attempt that really started."""

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
        """The start, by the store clock, like all times here."""
        self.allowed_at = began_at
        """The time of the commit that allowed the attempt. The node may lose the occurrence before `began_at`."""
        self.ended_at: int | None = None
        self.ending: SimulatedEnd | None = None
        self.asked_at: int | None = None
        """The time of the node's stop request. The attempt is then stored as stopped, whenever it ends."""
        self.given_up_at: int | None = None
        """The time when the node gave up the attempt. The attempt continues, but does not count."""

    @property
    def name(self) -> str:
        """The name of the run in messages."""
        ref, place, number = self.attempt
        return f"{self.job}:{self.key.instant // 1_000_000} (occurrence {ref}) task {place} attempt {number}"

    def __repr__(self) -> str:
        return f"<run of {self.name} by {self.process.incarnation}>"


class SimulatedRunLog:
    """The runs of a world, in the order of their starts."""

    def __init__(self, handle: Callable[[SimulatedRun], None] = lambda _: None) -> None:
        self._handle = handle
        """Called with each run at its start."""
        self.runs: list[SimulatedRun] = []
        self.by_attempt: dict[AttemptKey, list[SimulatedRun]] = {}

    def begin(self, run: SimulatedRun) -> None:
        """Add a run that has started."""
        self.runs.append(run)
        self.by_attempt.setdefault(run.attempt, []).append(run)
        self._handle(run)

    def end(self, run: SimulatedRun, at: int, ending: SimulatedEnd) -> None:
        """Record the end of a run."""
        assert run.ending is None, f"{run} ends once"
        run.ended_at, run.ending = at, ending
