"""Machines: each has a clock, and a supervisor that starts its node again when that has ended, as people run one.

    boot ─► a process, a store as it reaches it, an executor, a log ─► a node: start, run ─► its end ─► boot

Each start is another incarnation (PROTOCOL 1). A node may give up when the store is against it, and says so with a
`StoreError`; the supervisor tries again. Anything else that comes out of a node is a bug, and the world stops there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from itinerary.errors import StoreError
from itinerary.ports import Clock, Executor, Store
from itinerary.schedules import ZoneData
from itinerary.simulate.clock import NodeClock, StoreClock
from itinerary.simulate.history import History, SimulatedLog
from itinerary.simulate.loop import VirtualLoop
from itinerary.simulate.options import Options
from itinerary.simulate.processes import Process, in_process
from itinerary.simulate.runs import RunLog
from itinerary.simulate.store import Network, SimulatedStore
from itinerary.simulate.tasks import Manners, SimulatedExecutor
from itinerary.simulate.violations import Rule, Violations

__all__ = ["Ground", "Life", "Machine", "NewLife", "Surroundings"]

_RESTART_AFTER: Final = 5.0
"""Seconds after which a supervisor starts a node again that has ended."""


class Life(Protocol):
    """A node, as the world uses it."""

    async def start(self) -> None:
        """Join, and get ready."""

    async def run(self) -> object:
        """Until it is shut down, or cannot go on."""

    def shut_down(self) -> None:
        """Ask it to end, as SIGTERM does."""


class Surroundings(msgspec.Struct, frozen=True):
    """All that a node has of the world."""

    store: Store
    name: str
    incarnation: str
    clock: Clock
    executor: Executor
    options: Options
    log: SimulatedLog
    zone_data: ZoneData
    """What is installed on its machine."""


NewLife: TypeAlias = Callable[[Surroundings], Life]
"""Makes a node."""


class Ground(msgspec.Struct):
    """What all machines of a world stand on."""

    options: Options
    zone_data: Sequence[ZoneData]
    """All that there is in this world, from the oldest to the newest."""
    new_life: NewLife
    loop: VirtualLoop
    clock: StoreClock
    network: Network
    history: History
    log: RunLog
    manners: Manners
    violations: Violations
    is_hopeless: asyncio.Event
    """Set when a node has failed by a bug: there is no point in going on."""


class Machine:
    """One of them; one process after the other runs on it."""

    def __init__(self, name: str, ground: Ground) -> None:
        self.name = name
        self.clock = NodeClock(ground.clock, ground.loop.time)
        self.process: Process | None = None
        self.is_up = True
        """Whether the supervisor starts the node again when it has ended."""
        self.zone_data = ground.zone_data[0]
        """What is installed here; the next start of the node finds it."""
        self._ground = ground
        self._node: Life | None = None
        self._starts = 0
        self._down_for = _RESTART_AFTER
        self._lives: list[asyncio.Task[None]] = []

    def boot(self) -> None:
        """Start the node, if it does not run."""
        if self.process is not None or not self.is_up:
            return
        self._starts += 1
        process = self.process = Process(self.name, self._starts)
        self._ground.history.note(process.incarnation, "boots")
        with in_process(process):
            self._lives.append(self._ground.loop.create_task(self._live(process)))

    def ask_to_end(self, down_for: float = _RESTART_AFTER) -> None:
        """A signal: a frozen process gets it when it thaws. The node is started again so many seconds after its end."""
        if self._node is not None and self.process is not None:
            self._down_for = down_for
            with in_process(self.process):
                self._ground.loop.call_soon(self._node.shut_down)

    def crash(self, down_for: float) -> None:
        """The process is gone at once; the node is started again after so many seconds."""
        assert self.process is not None, "it runs"
        self._ground.loop.crash(self.process)
        self.process = self._node = None
        self._ground.loop.call_later(down_for, self.boot)

    async def _live(self, process: Process) -> None:
        """One life of a node, from its start to its end."""
        ground = self._ground
        executor = SimulatedExecutor(process, ground.manners, ground.log, ground.clock, ground.history)
        surroundings = Surroundings(
            SimulatedStore(ground.network, process, ground.options.settings.node_heartbeat_interval),
            self.name,
            process.incarnation,
            self.clock,
            executor,
            ground.options,
            SimulatedLog(ground.history, process.incarnation),
            self.zone_data,
        )
        try:
            node = ground.new_life(surroundings)
            await node.start()
            self._node = node
            await node.run()
            ground.history.note(process.incarnation, "ends")
        except Exception as error:  # noqa: BLE001 - a life ends here, and it is written down how
            self._gives_up(process, error)
        finally:
            if process.is_running:
                await executor.close()
                self._ended(process)

    def _gives_up(self, process: Process, error: Exception) -> None:
        ground = self._ground
        ground.history.note(process.incarnation, "gives up", f"{type(error).__name__}: {error}")
        for cause in _causes(error):
            if not isinstance(cause, StoreError):
                ground.is_hopeless.set()
                ground.violations.add(Rule.QUIET, f"{process.incarnation} failed: {cause!r}", ground.clock())

    def _ended(self, process: Process) -> None:
        if self.process is process:
            self.process = self._node = None
            self._ground.loop.call_later(self._down_for, self.boot, context=self._ground.network.context)
            self._down_for = _RESTART_AFTER


def _causes(error: BaseException) -> list[BaseException]:
    """The errors in a group of errors, or just this one."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [error]
