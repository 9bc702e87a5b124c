"""The probes of a node (U8): alive, ready, and making progress. Each answer is yes or no, and a sentence.

    live       the engine's loop answers. After some seconds without an answer, it is blocked, and only a restart helps
    ready      the node has started, is not ending, and its store answers
    progress   this node is not behind, schedules each partition of records that it holds, and no instant has been due
               and undecided for 60 s, on any node: read from the store, independently of this node

`live` says only that the loop answers: an overloaded node is alive, and a restart would not help it.

A probe does not wait for the loop. A pulse asks the loop once a second, and the probe reads the time of the last
answer. So a probe of a node that hangs is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from itinerary.errors import StoreError
from itinerary.model.overload import OverloadExtent
from itinerary.model.stalled import StalledPartition
from itinerary.observe.store_status import StoreStatus, StoreStatusReader
from itinerary.schedules.durations import SECOND

__all__ = ["PROGRESS_MAX", "SILENCE_MAX", "Health", "LastAnswer", "NodePhase", "ProbeAnswer"]

SILENCE_MAX: Final = 10.0
"""The seconds without an answer from the engine's loop after which the node is not alive."""
PROGRESS_MAX: Final = 60 * SECOND
"""The time for which an instant may be due and undecided."""


class NodePhase(StrEnum):
    """The phase of a node's life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class ProbeAnswer(msgspec.Struct, frozen=True):
    """The answer to a probe."""

    ok: bool
    why: str


class LoopProbe(Protocol):
    """The node whose loop is asked for a sign of life."""

    def ask(self, answer: Callable[[], None]) -> bool:
        """Schedule `answer` on the engine's loop, from any thread. False if there is no running loop."""

    @property
    def phase(self) -> NodePhase:
        """The phase of the node."""


class LastAnswer:
    """The time of the last answer from the engine's loop."""

    def __init__(self, heart: LoopProbe, time: Callable[[], float]) -> None:
        """Start with the current time as the last answer.

        Args:
            heart: The node.
            time: Returns seconds from any fixed moment. May be called from the engine's thread.
        """
        self._heart, self._time = heart, time
        self._heard_at = time()
        self._is_asked = False

    def feel(self) -> None:
        """Ask the loop, unless an answer is outstanding. A node that is starting has no loop and is not silent."""
        if self._is_asked:
            return
        self._is_asked = True
        if not self._heart.ask(self._answer):
            self._is_asked = False
            if self._heart.phase is NodePhase.STARTING:
                self._heard_at = self._time()

    def _answer(self) -> None:
        self._heard_at = self._time()
        self._is_asked = False

    @property
    def silent_for(self) -> float:
        """The seconds since the last answer."""
        return max(self._time() - self._heard_at, 0.0)


class Health:
    """The answers to the three probes."""

    def __init__(
        self,
        heart: LoopProbe,
        pulse: LastAnswer,
        lookout: StoreStatusReader,
        behind: Callable[[], OverloadExtent | None] = lambda: None,
        stalled: Callable[[], Sequence[StalledPartition]] = tuple,
    ) -> None:
        """Keep the sources of the answers.

        Args:
            heart: The node.
            pulse: The time of the last answer from the loop.
            lookout: Reads the status of the store.
            behind: Returns how far the node is behind; None: not behind.
            stalled: Returns the partitions of records that the node does not schedule.
        """
        self._heart, self._pulse, self._lookout = heart, pulse, lookout
        self._behind, self._stalled = behind, stalled

    def live(self) -> ProbeAnswer:
        """Return whether the engine's loop answers."""
        if self._heart.phase is NodePhase.ENDED:
            return ProbeAnswer(ok=False, why="the node has ended")
        silent_for = self._pulse.silent_for
        if silent_for > SILENCE_MAX:
            return ProbeAnswer(
                ok=False, why=f"the engine's loop has not answered for {silent_for:.0f} s: it is blocked"
            )
        return ProbeAnswer(ok=True, why="the engine's loop answers")

    async def ready(self) -> ProbeAnswer:
        """Return whether the node accepts work."""
        live = self.live()
        if not live.ok:
            return live
        phase = self._heart.phase
        if phase is not NodePhase.RUNNING:
            return ProbeAnswer(ok=False, why=f"the node is {phase}")
        try:
            await self._lookout.look()
        except StoreError as error:
            return ProbeAnswer(ok=False, why=f"the store does not answer: {error}")
        return ProbeAnswer(ok=True, why="the node runs, and its store answers")

    async def progress(self) -> ProbeAnswer:
        """Return whether the node is not behind, and no instant has been due and undecided for too long."""
        behind = self._behind()
        if behind is not None:
            return ProbeAnswer(ok=False, why=f"this node is {behind.sentence}; {behind.advice}")
        stalled = self._stalled()
        if stalled:
            others = len(stalled) - 1
            more = f"; {others} more partition{' is' if others == 1 else 's are'} stalled" if others else ""
            return ProbeAnswer(ok=False, why=f"{stalled[0].sentence}; correct the timezone function{more}")
        try:
            seen = await self._lookout.look()
        except StoreError as error:
            return ProbeAnswer(ok=False, why=f"nobody knows what is due: {error}")
        return progress_of(seen)


def progress_of(seen: StoreStatus) -> ProbeAnswer:
    """Return whether the store's status shows progress."""
    if seen.oldest is None:
        return ProbeAnswer(ok=True, why="nothing is due and undecided")
    late, job = seen.undecided_for // SECOND, seen.oldest_job
    at = seen.oldest.instant // SECOND
    if seen.undecided_for >= PROGRESS_MAX:
        state = "has no row" if seen.oldest.status is None else f"is still {seen.oldest.status}"
        return ProbeAnswer(
            ok=False,
            why=f"{job}:{at} has been due and undecided for {late} s: it {state}; ask `itinerary explain {job}`",
        )
    return ProbeAnswer(ok=True, why=f"the oldest that is due and undecided is {job}:{at}, for {late} s")
