"""Machines: each has a clock, and a supervisor that starts its node again when that has ended, as people run one.

    boot ─► a process, a store as it reaches it, an executor, a log ─► a node: start, run ─► its end ─► boot

Each start is another incarnation (protocol rule 1). A node may give up when the store is against it, and says so with a
`StoreError`; the supervisor tries again. Anything else that comes out of a node is a bug, and the world stops there.

A signal has the same effect as in `node.thread`: a start is broken off, and the node says that it is gone; a running
node is shut down; a second signal ends it at once.
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
from itinerary.simulate.clock import NodeClock, StoreClock
from itinerary.simulate.history import History, SimulatedLog
from itinerary.simulate.loop import VirtualLoop
from itinerary.simulate.options import Options
from itinerary.simulate.processes import Process, in_process
from itinerary.simulate.records import Office, RecordsAtWork
from itinerary.simulate.runs import RunLog
from itinerary.simulate.store import Network, SimulatedStore
from itinerary.simulate.tasks import Manners, SimulatedExecutor
from itinerary.simulate.violations import Rule, Violations

__all__ = ["Ground", "Life", "Machine", "NewLife", "Surroundings"]

_RESTART_AFTER: Final = 5.0
"""Seconds after which a supervisor starts a node again that has ended."""


class Life(Protocol):
    """A node, as the world uses it."""

    @property
    def number(self) -> NodeNumber | None:
        """Its number in the store, once it has joined."""

    @property
    def clock(self) -> Clock:
        """The store's time, as the node knows it."""

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
    about: str = "{}"
    """What it tells of its process."""
    is_gone: Callable[[str], bool] = lambda _: False
    """Whether a process that was told of so no longer exists, as far as its machine knows."""


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
    hold_up: Callable[[Process, float], None]
    """Stops the event loop of a process for so many seconds."""
    office: Office | None = None
    """The desk that all nodes work at, if there is one."""


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
        self._records: RecordsAtWork | None = None
        self._is_ending = False
        self._starts = 0
        self._down_for = _RESTART_AFTER
        self._lives: list[asyncio.Task[None]] = []
        self.at_boot: Callable[[Process], None] | None = None
        """What happens to the next start of the node."""

    @property
    def is_starting(self) -> bool:
        """Whether the node has been started, and is not ready yet."""
        return self.process is not None and self._node is None

    def boot(self) -> None:
        """Start the node, if it does not run."""
        if self.process is not None or not self.is_up:
            return
        self._starts += 1
        process = self.process = Process(self.name, self._starts)
        self._ground.history.note(process.incarnation, "boots")
        with in_process(process):
            self._lives.append(self._ground.loop.create_task(self._live(process)))
        if self.at_boot is not None:
            at_boot, self.at_boot = self.at_boot, None
            at_boot(process)

    def ask_to_end(self, down_for: float = _RESTART_AFTER) -> None:
        """A signal: a frozen process gets it when it thaws. The node is started again so many seconds after its end."""
        if self._node is not None and self.process is not None:
            self._down_for = down_for
            with in_process(self.process):
                self._ground.loop.call_soon(self._shut_down, self.process, self._node)

    def signal(self, down_for: float) -> None:
        """Send SIGTERM, in whatever the node is busy with: its start, its work, or its shutdown."""
        if self.process is not None:
            self._down_for = down_for
            with in_process(self.process):
                self._ground.loop.call_soon(self._obey, self.process)

    def _obey(self, process: Process) -> None:
        if self.process is not process:
            return
        if self._node is None or self._is_ending:
            self._lives[-1].cancel()
        else:
            self._shut_down(process, self._node)

    def _shut_down(self, process: Process, node: Life) -> None:
        """The process has got the signal."""
        self._is_ending = True
        if process.asked_to_end_at is None:
            process.asked_to_end_at = self._ground.clock()
        if self._records is not None:
            self._records.end(self._ground.options.settings.shutdown_grace_period / SECOND)
        node.shut_down()

    def restart_soon(self) -> None:
        """Forget how long the node was to stay down after its end: it may be shutting down at this moment."""
        self._down_for = _RESTART_AFTER

    def crash(self, down_for: float) -> None:
        """The process is gone at once; the node is started again after so many seconds."""
        assert self.process is not None, "it runs"
        self._ground.loop.crash(self.process)
        self.process = self._node = None
        self._ground.loop.call_later(down_for, self.boot)

    async def _live(self, process: Process) -> None:
        """One life of a node, from its start to its end."""
        ground = self._ground
        executor = SimulatedExecutor(process, ground.manners, ground.log, ground.clock, ground.history, ground.hold_up)
        store = SimulatedStore(ground.network, process, ground.options.settings.node_heartbeat_interval)
        surroundings = Surroundings(
            store,
            self.name,
            process.incarnation,
            self.clock,
            executor,
            ground.options,
            SimulatedLog(ground.history, process.incarnation),
            self.zone_data,
            _about(process),
            self._is_gone,
        )
        try:
            node = ground.new_life(surroundings)
            await self._start(node, store)
            self._node, self._is_ending = node, False
            await self._run(node, surroundings, process)
            ground.history.note(process.incarnation, "ends")
        except asyncio.CancelledError:
            ground.history.note(process.incarnation, "ends", "at a signal")
        except Exception as error:  # noqa: BLE001 - a life ends here, and it is written down how
            self._gives_up(process, error)
        finally:
            if process.is_running:
                await executor.close()
                self._ended(process)
                if ground.office is not None:  # a handler that was cancelled, and the like
                    ground.loop.crash(process)

    async def _run(self, node: Life, around: Surroundings, process: Process) -> None:
        """Run a node, and its desk beside it, as `node.thread` does: if one of them cannot go on, none does."""
        office = self._ground.office
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
                desk.result()  # it runs for ever, so this raises
            await records.end(self._ground.options.settings.shutdown_grace_period / SECOND)
            await main
        finally:
            for part in (main, desk):
                part.cancel()
            await asyncio.wait([main, desk])

    async def _start(self, node: Life, store: Store) -> None:
        """Start a node. What breaks off its start has it say that it is gone."""
        try:
            await node.start()
        except BaseException:
            if node.number:
                await store.leave(node.number)
            raise

    def _is_gone(self, about: str) -> bool:
        """Whether a process that was told of so ran here and does no longer: a machine runs one at a time."""
        said = msgspec.json.decode(about)
        return said.get("machine") == self.name and self.process is not None and about != _about(self.process)

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


def _about(process: Process) -> str:
    return msgspec.json.encode({"machine": process.name, "process": process.incarnation}).decode()


async def _awaited(node: Life) -> None:
    await node.run()


def _causes(error: BaseException) -> list[BaseException]:
    """The errors in a group of errors, or just this one."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [error]
