"""A small world to try single parts of the simulation in: a loop, a database, a network, and one process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from itinerary.stores import ledger
from itinerary.testing.processes import Process, in_process
from itinerary.testing.virtual_loop import VirtualLoop
from tests.simulation.world.backend import Backend
from tests.simulation.world.call_faults import CALM, CallFate, CallFates, Fortune, Weather
from tests.simulation.world.clock import SimulatedStoreClock
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.history import EventHistory
from tests.simulation.world.rng import dice_for
from tests.simulation.world.store import Network, SimulatedStore

__all__ = ["EPOCH", "Fixed", "Scene", "played"]

EPOCH = 1_774_699_200_000_000
T = TypeVar("T")


class Fixed(CallFates):
    """Fates that a test has chosen: one after the other, then fine weather."""

    def __init__(self, *fates: CallFate, commits_after_crash: bool = True) -> None:
        super().__init__(CALM, dice_for(1, "scene"))
        self._fates = list(fates)
        self._commits = commits_after_crash

    def throw(self) -> CallFate:
        return self._fates.pop(0) if self._fates else CallFate(Fortune.FINE, 0.001, 0.001)

    def still_commits(self) -> bool:
        return self._commits


class Scene:
    """Everything that a part may need."""

    def __init__(self, loop: VirtualLoop, fates: CallFates | None = None) -> None:
        self.loop = loop
        self.clock = SimulatedStoreClock(loop.time, EPOCH)
        self.backend = Backend(self.clock)
        self.backend.commit(ledger.prepare)
        self.history = EventHistory(loop.time)
        self.disturbances = Disturbances()
        self.network = Network(
            self.backend, fates or CallFates(Weather(), dice_for(1, "scene")), self.history, self.disturbances
        )
        self.process = Process("a", 1)
        self.store = SimulatedStore(self.network, self.process, longest_wait=5_000_000)

    def begin(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Begin something inside the process."""

        async def inside() -> T:
            return await work()

        with in_process(self.process):
            return self.loop.create_task(inside())


def played(story: Callable[[Scene], Awaitable[T]], fates: CallFates | None = None) -> T:
    """Play a story in such a world."""
    loop = VirtualLoop(dice_for(1, "scene"))

    async def told() -> T:
        return await story(Scene(loop, fates))

    try:
        return loop.run_until_complete(told())
    finally:
        loop.bury()
        loop.close()
