"""Machines with a clock and a supervisor, which restarts the node when it has ended.

    boot ─► a process, its view of the store, an executor, a log ─► a node: start, run ─► its end ─► boot

Each start is a new incarnation (protocol rule 1). A node may give up because of the store, with a `StoreError`; the
supervisor starts it again. Every other error of a node is a bug, and ends the simulation.

A signal has the same effect as in `node.thread`. A starting node aborts its start and records that it has left. A
running node shuts down. A second signal ends the node at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from itinerary.errors import StoreError
from itinerary.model.rows import NodeNumber
from itinerary.ports import Clock, Executor, Store
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND
from itinerary.testing.processes import Process, in_process
from itinerary.testing.virtual_loop import VirtualLoop
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.clock import NodeClock, SimulatedStoreClock
from tests.simulation.world.history import EventHistory, SimulatedLog
from tests.simulation.world.options import Options
from tests.simulation.world.records import RecordsAtWork, SimulatedHandlers
from tests.simulation.world.run_log import SimulatedRunLog
from tests.simulation.world.store import Network, SimulatedStore
from tests.simulation.world.tasks import Manners, SimulatedExecutor

__all__ = ["Life", "Machine", "NewLife", "Surroundings", "WorldEnvironment"]

_RESTART_AFTER: Final = 5.0
"""Seconds until the supervisor restarts a node that has ended."""


class Life(Protocol):
    """The interface of a node that the world needs."""

    @property
    def number(self) -> NodeNumber | None:
        """The node's number in the store, or None before it joins."""

    @property
    def clock(self) -> Clock:
        """The node's estimate of the store's time."""

    async def start(self) -> None:
        """Join the store and prepare to run."""

    async def run(self) -> object:
        """Run until a shutdown or a fatal error."""

    def shut_down(self) -> None:
        """Request a shutdown, as SIGTERM does."""


class Surroundings(msgspec.Struct, frozen=True):
    """The environment of a node."""

    store: Store
    name: str
    incarnation: str
    clock: Clock
    executor: Executor
    options: Options
    log: SimulatedLog
    zone_data: ZoneData
    """The zone data on its machine."""
    about: str = "{}"
    """The description that the node publishes, as JSON."""
    is_gone: Callable[[str], bool] = lambda _: False
    """True if a description proves that its process no longer exists."""


NewLife: TypeAlias = Callable[[Surroundings], Life]
"""A function that creates a node."""


class WorldEnvironment(msgspec.Struct):
    """The environment that all machines of a world share."""

    options: Options
    zone_data: Sequence[ZoneData]
    """The releases in this world, from the oldest to the newest."""
    new_life: NewLife
    loop: VirtualLoop
    clock: SimulatedStoreClock
    network: Network
    history: EventHistory
    log: SimulatedRunLog
    manners: Manners
    violations: Violations
    is_hopeless: asyncio.Event
    """Set when a node has failed because of a bug. The simulation ends."""
    hold_up: Callable[[Process, float], None]
    """Stops the event loop of a process for some seconds."""
    office: SimulatedHandlers | None = None
    """The record scheduler of all nodes, if the world has one."""


class Machine:
    """A machine that runs one process at a time."""

    def __init__(self, name: str, environment: WorldEnvironment) -> None:
        self.name = name
        self.clock = NodeClock(environment.clock, environment.loop.time)
        self.process: Process | None = None
        self.is_up = True
        """True if the supervisor restarts the node after its end."""
        self.zone_data = environment.zone_data[0]
        """The installed zone data. The next start of the node uses it."""
        self._environment = environment
        self._node: Life | None = None
        self._records: RecordsAtWork | None = None
        self._is_ending = False
        self._starts = 0
        self._down_for = _RESTART_AFTER
        self._lives: list[asyncio.Task[None]] = []
        self.at_boot: Callable[[Process], None] | None = None
        """Called with the process of the next start."""

    @property
    def is_starting(self) -> bool:
        """True if the node has been started and is not ready yet."""
        return self.process is not None and self._node is None

    def boot(self) -> None:
        """Start the node unless it runs."""
        if self.process is not None or not self.is_up:
            return
        self._starts += 1
        process = self.process = Process(self.name, self._starts)
        self._environment.history.note(process.incarnation, "boots")
        with in_process(process):
            self._lives.append(self._environment.loop.create_task(self._live(process)))
        if self.at_boot is not None:
            at_boot, self.at_boot = self.at_boot, None
            at_boot(process)

    def ask_to_end(self, down_for: float = _RESTART_AFTER) -> None:
        """Request a shutdown by a signal. A frozen process receives it after the thaw.

        Args:
            down_for: The seconds between the node's end and its restart.
        """
        if self._node is not None and self.process is not None:
            self._down_for = down_for
            with in_process(self.process):
                self._environment.loop.call_soon(self._shut_down, self.process, self._node)

    def signal(self, down_for: float) -> None:
        """Send SIGTERM in any phase: start, work or shutdown. The restart follows `down_for` seconds after the end."""
        if self.process is not None:
            self._down_for = down_for
            with in_process(self.process):
                self._environment.loop.call_soon(self._obey, self.process)

    def _obey(self, process: Process) -> None:
        if self.process is not process:
            return
        if self._node is None or self._is_ending:
            self._lives[-1].cancel()
        else:
            self._shut_down(process, self._node)

    def _shut_down(self, process: Process, node: Life) -> None:
        """Shut down a node whose process has received the signal."""
        self._is_ending = True
        if process.asked_to_end_at is None:
            process.asked_to_end_at = self._environment.clock()
        if self._records is not None:
            self._records.end(self._environment.options.settings.shutdown_grace_period / SECOND)
        node.shut_down()

    def restart_soon(self) -> None:
        """Reset the restart delay to the default, also for a shutdown in progress."""
        self._down_for = _RESTART_AFTER

    def crash(self, down_for: float) -> None:
        """End the process at once, and restart the node after `down_for` seconds."""
        assert self.process is not None, "it runs"
        self._environment.loop.crash(self.process)
        self.process = self._node = None
        self._environment.loop.call_later(down_for, self.boot)

    async def _live(self, process: Process) -> None:
        """Run a node from its start to its end."""
        environment = self._environment
        executor = SimulatedExecutor(
            process, environment.manners, environment.log, environment.clock, environment.history, environment.hold_up
        )
        store = SimulatedStore(environment.network, process, environment.options.settings.node_heartbeat_interval)
        surroundings = Surroundings(
            store,
            self.name,
            process.incarnation,
            self.clock,
            executor,
            environment.options,
            SimulatedLog(environment.history, process.incarnation),
            self.zone_data,
            _about(process),
            self._is_gone,
        )
        try:
            node = environment.new_life(surroundings)
            await self._start(node, store)
            self._node, self._is_ending = node, False
            await self._run(node, surroundings, process)
            environment.history.note(process.incarnation, "ends")
        except asyncio.CancelledError:
            environment.history.note(process.incarnation, "ends", "at a signal")
        except Exception as error:  # noqa: BLE001 - the node ends here, and the history has the error
            self._gives_up(process, error)
        finally:
            if process.is_running:
                await executor.close()
                self._ended(process)
                if environment.office is not None:  # ends leftovers such as a cancelled handler
                    environment.loop.crash(process)

    async def _run(self, node: Life, around: Surroundings, process: Process) -> None:
        """Run a node and its record scheduler, as `node.thread` does. If one fails, both end."""
        office = self._environment.office
        if office is None:
            self._records = None
            await node.run()
            return
        assert node.number is not None, "it has joined"
        records = self._records = office.at_work(around.store, node.number, node.clock, around.log, process)
        main, desk = asyncio.ensure_future(_awaited(node)), asyncio.ensure_future(records.run())
        try:
            await asyncio.wait([main, desk], return_when=asyncio.FIRST_COMPLETED)
            if desk.done():
                desk.result()  # the record scheduler never returns, so this raises
            await records.end(self._environment.options.settings.shutdown_grace_period / SECOND)
            await main
        finally:
            for part in (main, desk):
                part.cancel()
            await asyncio.wait([main, desk])

    async def _start(self, node: Life, store: Store) -> None:
        """Start a node. If the start is aborted, record that the node has left."""
        try:
            await node.start()
        except BaseException:
            if node.number:
                await store.leave(node.number)
            raise

    def _is_gone(self, about: str) -> bool:
        """True if the described process ran here and has ended: a machine runs one process at a time."""
        said = msgspec.json.decode(about)
        return said.get("machine") == self.name and self.process is not None and about != _about(self.process)

    def _gives_up(self, process: Process, error: Exception) -> None:
        environment = self._environment
        environment.history.note(process.incarnation, "gives up", f"{type(error).__name__}: {error}")
        for cause in _causes(error):
            if not isinstance(cause, StoreError):
                environment.is_hopeless.set()
                environment.violations.add(Rule.QUIET, f"{process.incarnation} failed: {cause!r}", environment.clock())

    def _ended(self, process: Process) -> None:
        if self.process is process:
            self.process = self._node = None
            self._environment.loop.call_later(self._down_for, self.boot, context=self._environment.network.context)
            self._down_for = _RESTART_AFTER


def _about(process: Process) -> str:
    return msgspec.json.encode({"machine": process.name, "process": process.incarnation}).decode()


async def _awaited(node: Life) -> None:
    await node.run()


def _causes(error: BaseException) -> list[BaseException]:
    """Return the errors in an exception group, or the single error."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [error]
