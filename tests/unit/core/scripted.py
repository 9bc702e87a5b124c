"""Tasks that do as they are told: what each attempt of a task does, how long it takes, and how it takes being stopped.

It is an executor as the core knows one, with nothing behind it. It also keeps watch: nothing may be launched that has
no durable row (protocol rule 8), and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from itinerary.model.attempts import (
    Assignment,
    AttemptKey,
    Ended,
    Failed,
    Outcome,
    PodMoved,
    Report,
    Stopped,
    Succeeded,
)
from itinerary.model.states import OccurrenceState

__all__ = ["Act", "Script", "fails", "hangs", "ignores", "says", "works"]

SECOND = 1_000_000


@dataclass(frozen=True)
class Act:
    """What one attempt does."""

    outcome: Outcome | None
    """What it comes to; None: it never ends by itself."""
    after: float = 1.0
    """Seconds."""
    hears_stop: bool = True
    stops_after: float = 0.0
    """Seconds from the request to end to the end."""
    stopped_as: Outcome = field(default_factory=Stopped)
    moves: tuple[tuple[float, OccurrenceState], ...] = ()
    """What it runs in moves through these states, each so many seconds after its launch."""


def works(after: float = 1.0, result: str | None = None, **how: Any) -> Act:
    """It does what it should."""
    return Act(Succeeded(result), after, **how)


def fails(error: str = "boom", after: float = 1.0, *names: str, **how: Any) -> Act:
    """It raises."""
    return Act(Failed(error, names), after, **how)


def hangs(stops_after: float = 0.0, **how: Any) -> Act:
    """It goes on until it is asked to end."""
    return Act(None, stops_after=stops_after, **how)


def ignores(after: float | None = None) -> Act:
    """It does not hear that it should end; after so long it is done, if it ever is."""
    return Act(None if after is None else Succeeded(), after or 0.0, hears_stop=False)


def says(answer: str, after: float = 0.0) -> Act:
    """A requirement that gives this answer, as JSON."""
    return Act(Succeeded(answer), after)


class Script:
    """The attempts of one node, and what each does."""

    def __init__(self, now: Callable[[], int], has_row: Callable[[AttemptKey], bool]) -> None:
        self._now, self._has_row = now, has_row
        self.acts: dict[str, list[Act]] = {}
        """By the name of a task, or what a hook or a requirement is called: one for each attempt, the last for ever."""
        self.launched: list[Assignment] = []
        self.stopped: list[AttemptKey] = []
        self.killed: list[AttemptKey] = []
        self._counts: dict[tuple[int, str], int] = {}
        self._running: dict[AttemptKey, Act] = {}
        self._events: list[tuple[int, Report]] = []

    def begin(self, assignment: Assignment) -> None:
        key, name = assignment.key, assignment.facts.task
        assert key not in {earlier.key for earlier in self.launched}, f"{key} was launched twice"
        assert key.place < 0 or self._has_row(key), f"{key} was launched and has no row"
        self.launched.append(assignment)
        acts = self.acts.get(name, [works()])
        count = self._counts[key.ref, name] = self._counts.get((key.ref, name), 0) + 1
        act = self._running[key] = acts[min(count, len(acts)) - 1]
        for after, state in act.moves:
            self._events.append((self._in(after), PodMoved(key, state)))
        if act.outcome is not None:
            self._events.append((self._in(act.after), Ended(key, act.outcome)))

    def stop(self, key: AttemptKey) -> None:
        self.stopped.append(key)
        act = self._running.get(key)
        if act is not None and act.hears_stop:
            self._events = [event for event in self._events if event[1].key != key]
            self._events.append((self._in(act.stops_after), Ended(key, act.stopped_as)))

    def kill(self, key: AttemptKey) -> None:
        self.killed.append(key)
        if key in self._running and not self.is_late(key):
            self._events.append((self._now(), Ended(key, Stopped(abandoned=True))))

    def is_late(self, key: AttemptKey) -> bool:
        """Whether it goes on all the same: what it says at last, it says too late."""
        return not self._running[key].hears_stop and self._running[key].outcome is not None

    def report(self, outcome: Report) -> None:
        """Say something now."""
        self._events.append((self._now(), outcome))

    @property
    def next_at(self) -> int | None:
        return min((at for at, _ in self._events), default=None)

    def due(self) -> list[Report]:
        """What is reported by now."""
        reports = [report for at, report in sorted(self._events, key=lambda event: event[0]) if at <= self._now()]
        self._events = [event for event in self._events if event[0] > self._now()]
        for report in reports:
            if isinstance(report, Ended):
                self._running.pop(report.key, None)
        return reports

    def _in(self, seconds: float) -> int:
        return self._now() + round(seconds * SECOND)
