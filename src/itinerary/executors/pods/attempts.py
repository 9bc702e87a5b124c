"""An attempt that is a pod: what is known of it on this node, and what it comes to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import assert_never

import structlog

from itinerary.executors.base import InFlight
from itinerary.executors.output import Tail
from itinerary.executors.pods.definition import PodTask, read_pod
from itinerary.executors.pods.manifest import pod_name
from itinerary.executors.pods.messages import Letter, addressed, opened
from itinerary.executors.pods.status import Sight
from itinerary.executors.registry import Registry
from itinerary.executors.worker_protocol import Ending
from itinerary.model.attempts import Assignment, Failed, Outcome, Stopped, Succeeded
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["PodAttempt"]


class PodAttempt(InFlight):
    """One attempt, and its pod as it was last seen."""

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
        """Raises ConfigError if it can be no pod."""
        super().__init__(assignment)
        self.task: PodTask = read_pod(assignment.run.get("pod"))
        self.run: str | None = None
        """What a function in it is told."""
        if "python" in assignment.run:
            registry.check(assignment.run["python"])
            self.run = addressed(assignment, registry.prefixes)
        self.name, self.namespace = pod_name(assignment), ""
        self.began_at = 0.0
        self.life: asyncio.Task[None] | None = None
        """What follows it."""
        self.reader: asyncio.Task[None] | None = None
        """What reads its log along."""
        self.tail = Tail()
        self.changed = asyncio.Event()
        self.sight: Sight | None = None
        self.last: Sight | None = None
        """As it was when it was last there."""
        self.said: OccurrenceState | None = None
        self.troubled_at: float | None = None
        self.is_doomed = False
        self.is_deleted = False
        """Itinerary has asked for its end."""
        self.was_there = False
        """There was a pod of this name before: it is not made again."""

    def see(self, sight: Sight) -> None:
        """It is like this now. News may come in any order: the answer to a call is not the newest by then."""
        last = self.last
        if last is not None and not sight.is_gone and _is_older(sight.version, last.version):
            return
        self.sight = sight
        if not sight.is_gone:
            self.last = sight
        self.changed.set()

    def is_seen_in(self, namespace: str) -> bool:
        """Whether its pod was there, in that namespace, when it was last seen."""
        return self.namespace == namespace and self.sight is not None and not self.sight.is_gone

    def patience(self, now: float) -> float | None:
        """For how long what keeps it from running may go on; None: nothing does."""
        trouble = None if self.sight is None else self.sight.trouble
        if trouble is None:
            self.troubled_at = None
            return None
        if self.troubled_at is None:
            self.troubled_at = now
        left = self.troubled_at + self.task.start_timeout / SECOND - now
        return 0.0 if trouble.is_hopeless else max(left, 0.0)

    async def until_changed(self, wait: float | None) -> None:
        """Until something happens to it, or for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.changed.wait()
        self.changed.clear()

    def let_go(self) -> None:
        """Follow it no more."""
        for task in (self.life, self.reader):
            if task is not None:
                task.cancel()

    def too_late(self) -> str:
        return f"its pod could not be created in time; the API server did not answer for too long (attempt {self.name})"

    # -- what it comes to ----------------------------------------------------------------------------------------------

    def outcome(self, sight: Sight) -> Outcome:
        """What came of a pod that is over, and whose log was read."""
        output = self.tail.text()
        letter = opened(sight.message) if self.run is not None else None
        if letter is not None and not (self.is_deleted and letter.ending is not Ending.SUCCEEDED):
            return self._answered(letter, output)
        if self.is_deleted and sight.error is not None:
            return Stopped(output=output)
        if sight.error is not None:
            return Failed(sight.error, output=output)
        if self.run is not None:
            return Failed("it ended without an answer: did something in it call os._exit?", output=output)
        return Succeeded(output=output)

    def _answered(self, letter: Letter, output: str | None) -> Outcome:
        facts = self.assignment.facts
        match letter.ending:
            case Ending.SUCCEEDED:
                if letter.result_bytes:
                    why = f"{letter.result_bytes} bytes are too long for the termination message; the log has it"
                    structlog.stdlib.get_logger().warning(
                        "task.result_not_kept", job=facts.job, task=facts.task, why=why
                    )
                return Succeeded(letter.result, output)
            case Ending.FAILED:
                return Failed(letter.error, letter.names, output)
            case Ending.STOPPED:
                return Failed("it was asked to end, and not by Itinerary: its pod was deleted", output=output)
            case _:
                assert_never(letter.ending)


def _is_older(version: str, than: str) -> bool:
    """Versions are numbers on every server there is, though nobody promises that: if they are not, the later one to
    come counts."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
