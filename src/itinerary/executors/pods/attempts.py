"""An attempt that is a pod: its state on this node, and its outcome."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import assert_never

import structlog

from itinerary.executors.base import InFlight
from itinerary.executors.output import Tail
from itinerary.executors.pods.definition import PodTask, read_pod
from itinerary.executors.pods.manifest import pod_name
from itinerary.executors.pods.messages import PodMessage, addressed, opened
from itinerary.executors.pods.status import PodStatus
from itinerary.executors.registry import Registry
from itinerary.executors.worker_protocol import AnswerStatus
from itinerary.model.attempts import Assignment, Failed, Outcome, Stopped, Succeeded
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["PodAttempt"]


class PodAttempt(InFlight):
    """An attempt, with the last observed state of its pod."""

    __slots__ = (
        "began_at",
        "changed",
        "is_deleted",
        "is_doomed",
        "last",
        "life",
        "name",
        "namespace",
        "reader",
        "run",
        "said",
        "sight",
        "tail",
        "task",
        "troubled_at",
        "was_there",
    )

    def __init__(self, assignment: Assignment, registry: Registry) -> None:
        """Create the state of an attempt. Raises ConfigError if its definition is not a valid pod."""
        super().__init__(assignment)
        self.task: PodTask = read_pod(assignment.run.get("pod"))
        self.run: str | None = None
        """The message to a function in the pod."""
        if "python" in assignment.run:
            registry.check(assignment.run["python"])
            self.run = addressed(assignment, registry.prefixes)
        self.name, self.namespace = pod_name(assignment), ""
        self.began_at = 0.0
        self.life: asyncio.Task[None] | None = None
        """The task that follows the pod."""
        self.reader: asyncio.Task[None] | None = None
        """The task that follows the log."""
        self.tail = Tail()
        self.changed = asyncio.Event()
        self.sight: PodStatus | None = None
        self.last: PodStatus | None = None
        """The last observed state in which the pod existed."""
        self.said: OccurrenceState | None = None
        self.troubled_at: float | None = None
        self.is_doomed = False
        self.is_deleted = False
        """True if Itinerary has deleted the pod."""
        self.was_there = False
        """True if a pod of this name existed before, and must not be created again."""

    def see(self, sight: PodStatus) -> None:
        """Record a new state of the pod. States may arrive in any order: the answer to a call may be out of date."""
        last = self.last
        if last is not None and not sight.is_gone and _is_older(sight.version, last.version):
            return
        self.sight = sight
        if not sight.is_gone:
            self.last = sight
        self.changed.set()

    def is_seen_in(self, namespace: str) -> bool:
        """True if the pod existed in that namespace when it was last observed."""
        return self.namespace == namespace and self.sight is not None and not self.sight.is_gone

    def patience(self, now: float) -> float | None:
        """Return how many seconds the current problem of the pod may still last; None if it has no problem."""
        trouble = None if self.sight is None else self.sight.trouble
        if trouble is None:
            self.troubled_at = None
            return None
        if self.troubled_at is None:
            self.troubled_at = now
        left = self.troubled_at + self.task.start_timeout / SECOND - now
        return 0.0 if trouble.is_hopeless else max(left, 0.0)

    async def until_changed(self, wait: float | None) -> None:
        """Wait until the pod changes, or for this number of seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.changed.wait()
        self.changed.clear()

    def let_go(self) -> None:
        """Stop following the pod."""
        for task in (self.life, self.reader):
            if task is not None:
                task.cancel()

    def too_late(self) -> str:
        return f"its pod could not be created in time; the API server did not answer for too long (attempt {self.name})"

    # -- the outcome ---------------------------------------------------------------------------------------------------

    def outcome(self, sight: PodStatus) -> Outcome:
        """Return the outcome of an ended pod whose log was read."""
        output = self.tail.text()
        letter = opened(sight.message) if self.run is not None else None
        if letter is not None and not (self.is_deleted and letter.ending is not AnswerStatus.SUCCEEDED):
            return self._answered(letter, output)
        if self.is_deleted and sight.error is not None:
            return Stopped(output=output)
        if sight.error is not None:
            return Failed(sight.error, output=output)
        if self.run is not None:
            return Failed("it ended without an answer: did something in it call os._exit?", output=output)
        return Succeeded(output=output)

    def _answered(self, letter: PodMessage, output: str | None) -> Outcome:
        facts = self.assignment.facts
        match letter.ending:
            case AnswerStatus.SUCCEEDED:
                if letter.result_bytes:
                    why = f"{letter.result_bytes} bytes are too long for the termination message; the log has it"
                    structlog.stdlib.get_logger().warning(
                        "task.result_not_kept", job=facts.job, task=facts.task, why=why
                    )
                return Succeeded(letter.result, output)
            case AnswerStatus.FAILED:
                return Failed(letter.error, letter.names, output)
            case AnswerStatus.STOPPED:
                return Failed("it was asked to end, and not by Itinerary: its pod was deleted", output=output)
            case _:
                assert_never(letter.ending)


def _is_older(version: str, than: str) -> bool:
    """True if a version is older than another.

    Versions are numbers on all known servers, but this is not guaranteed. If they are not, the last one to arrive
    counts.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
