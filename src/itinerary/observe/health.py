"""Is the node alive, ready, and does the work go on (U8)? Each answer is yes or no, and a sentence.

    live       the engine's loop answers. If it has not for some seconds it is blocked, and only a restart helps
    ready      it has started, does not end, and its store answers
    progress   this node keeps up with what is due, schedules each partition of records that it holds, and nothing has
               been due and undecided for 60 s, on any node: by the store, whatever this node does

`live` says only that the loop answers: a node that is overloaded is alive, and a restart would not help it.

The loop is not waited for: a pulse asks it once a second, and an answer only says when it was heard last. So a probe of
a node that hangs is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from itinerary.errors import StoreError
from itinerary.model.overload import Behind
from itinerary.model.stalled import StalledPartition
from itinerary.observe.store_status import Lookout, Seen
from itinerary.schedules.durations import SECOND

__all__ = ["PROGRESS_MAX", "SILENCE_MAX", "Health", "Phase", "Pulse", "Verdict"]

SILENCE_MAX: Final = 10.0
"""For how many seconds the engine's loop may not answer and still be alive."""
PROGRESS_MAX: Final = 60 * SECOND
"""For how long something may be due and undecided."""


class Phase(StrEnum):
    """How far a node is."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class Verdict(msgspec.Struct, frozen=True):
    """The answer to a probe."""

    ok: bool
    why: str


class Heart(Protocol):
    """What is asked whether it beats."""

    def ask(self, answer: Callable[[], None]) -> bool:
        """Have the engine's loop call `answer`, from any thread. False: there is no such loop, or not any more."""

    @property
    def phase(self) -> Phase:
        """How far it is."""


class Pulse:
    """When the engine's loop was heard last."""

    def __init__(self, heart: Heart, time: Callable[[], float]) -> None:
        """`time` is in seconds since some moment; it may be read from the engine's thread."""
        self._heart, self._time = heart, time
        self._heard_at = time()
        self._is_asked = False

    def feel(self) -> None:
        """Ask it, unless an answer is still outstanding. Before it has begun there is nobody to be heard."""
        if self._is_asked:
            return
        self._is_asked = True
        if not self._heart.ask(self._answer):
            self._is_asked = False
            if self._heart.phase is Phase.STARTING:
                self._heard_at = self._time()

    def _answer(self) -> None:
        self._heard_at = self._time()
        self._is_asked = False

    @property
    def silent_for(self) -> float:
        """For how many seconds it has not been heard."""
        return max(self._time() - self._heard_at, 0.0)


class Health:
    """Answers the three probes."""

    def __init__(
        self,
        heart: Heart,
        pulse: Pulse,
        lookout: Lookout,
        behind: Callable[[], Behind | None] = lambda: None,
        stalled: Callable[[], Sequence[StalledPartition]] = tuple,
    ) -> None:
        """`behind` says how far the node is behind; None: it keeps up. `stalled` returns the partitions of records that
        the node does not schedule."""
        self._heart, self._pulse, self._lookout = heart, pulse, lookout
        self._behind, self._stalled = behind, stalled

    def live(self) -> Verdict:
        """Whether the engine's loop answers."""
        if self._heart.phase is Phase.ENDED:
            return Verdict(ok=False, why="the node has ended")
        silent_for = self._pulse.silent_for
        if silent_for > SILENCE_MAX:
            return Verdict(ok=False, why=f"the engine's loop has not answered for {silent_for:.0f} s: it is blocked")
        return Verdict(ok=True, why="the engine's loop answers")

    async def ready(self) -> Verdict:
        """Whether it takes work."""
        live = self.live()
        if not live.ok:
            return live
        phase = self._heart.phase
        if phase is not Phase.RUNNING:
            return Verdict(ok=False, why=f"the node is {phase}")
        try:
            await self._lookout.look()
        except StoreError as error:
            return Verdict(ok=False, why=f"the store does not answer: {error}")
        return Verdict(ok=True, why="the node runs, and its store answers")

    async def progress(self) -> Verdict:
        """Whether the node keeps up, and nothing has been due and undecided for too long."""
        behind = self._behind()
        if behind is not None:
            return Verdict(ok=False, why=f"this node is {behind.sentence}; {behind.advice}")
        stalled = self._stalled()
        if stalled:
            others = len(stalled) - 1
            more = f"; {others} more partition{' is' if others == 1 else 's are'} stalled" if others else ""
            return Verdict(ok=False, why=f"{stalled[0].sentence}; correct the timezone function{more}")
        try:
            seen = await self._lookout.look()
        except StoreError as error:
            return Verdict(ok=False, why=f"nobody knows what is due: {error}")
        return progress_of(seen)


def progress_of(seen: Seen) -> Verdict:
    """Whether what the store says is progress."""
    if seen.oldest is None:
        return Verdict(ok=True, why="nothing is due and undecided")
    late, job = seen.undecided_for // SECOND, seen.oldest_job
    at = seen.oldest.instant // SECOND
    if seen.undecided_for >= PROGRESS_MAX:
        state = "has no row" if seen.oldest.status is None else f"is still {seen.oldest.status}"
        return Verdict(
            ok=False,
            why=f"{job}:{at} has been due and undecided for {late} s: it {state}; ask `itinerary explain {job}`",
        )
    return Verdict(ok=True, why=f"the oldest that is due and undecided is {job}:{at}, for {late} s")
