"""A whole world: a database, a network, some machines with a node on each, and a day of weather.

    prepare     the store is made, the jobs are registered
    the day     nodes run; calls fail, processes crash and freeze, clocks jump, the store is away, as the seed has it
    heal        the weather is fine, every machine is up; what is left over is finished
    check       the checker looks at the store and at what the tasks wrote, and the nodes are asked to end

A machine is a supervisor as people run one: it starts its node again when that has ended, with a new incarnation.
Schedules end with the day, so there is an end to what can be owed.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from itinerary.errors import StoreError
from itinerary.model.codec import to_json
from itinerary.model.rows import EntryKind
from itinerary.model.states import FINAL
from itinerary.model.timeline import Denied, NewEntry
from itinerary.model.work import Assignment
from itinerary.ports import Clock, Executor, Store
from itinerary.schedules.durations import SECOND
from itinerary.simulate.backend import Backend
from itinerary.simulate.checker import RunChecks, Snapshot, check_instants, check_lines, check_rows, check_settled
from itinerary.simulate.clock import NodeClock, StoreClock
from itinerary.simulate.dice import dice_for
from itinerary.simulate.disturbances import Disturbances
from itinerary.simulate.fates import CALM, Fates
from itinerary.simulate.history import History, SimulatedLog, row_lines
from itinerary.simulate.loop import Stalled, VirtualLoop
from itinerary.simulate.options import Options, Trouble, TroubleKind
from itinerary.simulate.people import People
from itinerary.simulate.processes import Process, ProcessState, in_process
from itinerary.simulate.runs import RunLog
from itinerary.simulate.store import Network, SimulatedStore
from itinerary.simulate.tasks import Behaviour, SimulatedExecutor
from itinerary.simulate.violations import Rule, Violation, Violations
from itinerary.simulate.witness import Witness
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OCCURRENCES

__all__ = ["Life", "NewLife", "Outcome", "Surroundings", "World", "run_seed"]

_HEAL_FOR: Final = 12 * 3600.0
"""Seconds that a world has to finish everything, once all is well."""
_RESTART_AFTER: Final = 5.0
"""Seconds after which a supervisor starts a node again that has ended."""
_MACHINES: Final = "abcdefgh"


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


NewLife: TypeAlias = Callable[[Surroundings], Life]
"""Makes a node."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a seed."""

    seed: int
    violations: tuple[Violation, ...]
    count: int
    """How many violations there were; only the first ones are kept."""
    occurrences: int
    runs: int
    commits: int
    history: tuple[str, ...]

    @property
    def is_fine(self) -> bool:
        return self.count == 0


class Machine:
    """A computer with a clock and a supervisor; one process after the other runs on it."""

    def __init__(self, name: str, clock: NodeClock) -> None:
        self.name = name
        self.clock = clock
        self.starts = 0
        self.process: Process | None = None
        self.node: Life | None = None
        self.is_up = True
        """Whether the supervisor starts the node again when it has ended."""


class World:
    """One seed."""

    def __init__(self, options: Options, new_life: NewLife) -> None:
        self.options = options
        self.new_life = new_life
        self.loop = VirtualLoop(dice_for(options.seed, "order"))
        self.clock = StoreClock(self.loop.time, options.begins_at)
        self.history = History(self.loop.time)
        self.violations = Violations()
        self.disturbances = Disturbances()
        self.backend = Backend(self.clock)
        self.witness = Witness(self.backend, options.settings.limits, self.violations)
        self.backend.witness = self.witness
        self.log = RunLog(self.witness.began)
        fates = Fates(options.weather, dice_for(options.seed, "fates"))
        self.network = Network(self.backend, fates, self.history, self.disturbances)
        self.machines = [
            Machine(_MACHINES[number], NodeClock(self.clock, self.loop.time)) for number in range(options.nodes)
        ]
        self._people = People(self.backend, dice_for(options.seed, "people"), self.history)
        self.is_healing = False
        self._is_hopeless = asyncio.Event()
        """A node has failed by a bug: there is no point in going on."""
        self._tasks = {(job.name, task.name): task for job in options.jobs for task in job.tasks}

    # -- how tasks behave --------------------------------------------------------------------------------------------

    def behaviour(self, assignment: Assignment) -> Behaviour:
        """What an attempt does: the same wherever it runs. When the world heals, everything is quick and goes well."""
        facts = assignment.facts
        task = self._tasks.get((facts.job, facts.task))
        if self.is_healing or task is None:
            return Behaviour(takes=0.01)
        purpose = (facts.job, facts.key.instant, facts.key.kind, facts.key.request, facts.task, facts.attempt)
        return task.behaviour(dice_for(self.options.seed, *purpose))

    # -- the whole of it ---------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Live through it."""
        collects = gc.isenabled()
        gc.disable()  # when garbage is found must not be part of a history
        self.loop.set_exception_handler(self._hear)
        try:
            self.loop.run_until_complete(self._day())
        except Stalled as error:
            self.violations.add(Rule.QUIET, str(error), self.clock())
        finally:
            outcome = self._outcome()
            self.loop.bury()
            self.loop.close()
            if collects:
                gc.enable()
        return outcome

    def _outcome(self) -> Outcome:
        lines = [*self.history.lines(), *self.backend.commit(row_lines), *map(str, self.violations.found)]
        return Outcome(
            self.options.seed,
            tuple(self.violations.found),
            self.violations.count,
            len(self.backend.rows(OCCURRENCES)),
            len(self.log.runs),
            self.backend.commits,
            tuple(lines),
        )

    async def _day(self) -> None:
        owed_from = await self._prepare()
        for trouble in self.options.troubles:
            self.loop.call_at(trouble.at, self._make, trouble)
        for machine in self.machines:
            self._boot(machine)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_hopeless.wait(), self.options.runs_for / SECOND)
        await self._heal()
        if self._is_hopeless.is_set():
            return
        self._check(owed_from)
        await self._shut_down()

    async def _prepare(self) -> int:
        """Make the store and register the jobs; returns from when on they count."""
        store = EngineStore(self.backend)
        await store.open()
        entries = [
            NewEntry(
                job=job.name,
                kind=EntryKind.VERSION,
                request="first",
                by="world",
                from_version=0,
                body=to_json(job.definition()).decode(),
            )
            for job in self.options.jobs
        ]
        answers = await store.amend(entries)
        assert not any(isinstance(answer, Denied) for answer in answers), answers
        return self.clock()

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """asyncio has something to say: an exception that nobody looked at, a callback that raised."""
        del loop
        error = context.get("exception")
        self.violations.add(Rule.QUIET, f"{context.get('message')}: {error!r}", self.clock())

    # -- machines ----------------------------------------------------------------------------------------------------

    def _boot(self, machine: Machine) -> None:
        if machine.process is not None or not machine.is_up:
            return
        machine.starts += 1
        process = machine.process = Process(machine.name, machine.starts)
        self.history.note(process.incarnation, "boots")
        with in_process(process):
            self._begin(self._live(machine, process))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    async def _live(self, machine: Machine, process: Process) -> None:
        """One life of a node, from its start to its end."""
        store = SimulatedStore(self.network, process)
        executor = SimulatedExecutor(process, self, self.log, self.clock, self.history)
        try:
            log = SimulatedLog(self.history, process.incarnation)
            surroundings = Surroundings(
                store, machine.name, process.incarnation, machine.clock, executor, self.options, log
            )
            node = self.new_life(surroundings)
            await node.start()
            machine.node = node
            await node.run()
            self.history.note(process.incarnation, "ends")
        except Exception as error:  # noqa: BLE001 - a life ends here, and it is written down how
            self._fail(process, error)
        finally:
            if process.is_running:
                await executor.close()
                self._ended(machine, process)

    def _fail(self, process: Process, error: Exception) -> None:
        """A node may give up when the store is against it, and says so with a StoreError. Anything else is a bug."""
        self.history.note(process.incarnation, "gives up", f"{type(error).__name__}: {error}")
        for cause in _causes(error):
            if not isinstance(cause, StoreError):
                self._is_hopeless.set()
                self.violations.add(Rule.QUIET, f"{process.incarnation} failed: {cause!r}", self.clock())

    def _ended(self, machine: Machine, process: Process) -> None:
        if machine.process is process:
            machine.process = machine.node = None
            self.loop.call_later(_RESTART_AFTER, self._boot, machine, context=self.network.context)

    # -- troubles ----------------------------------------------------------------------------------------------------

    def _make(self, trouble: Trouble) -> None:
        """Let something happen; and see to it that it is over in time."""
        if self.is_healing:
            return
        machine = self.machines[trouble.node]
        process = machine.process
        at, over_at = self.clock(), self.clock() + round(trouble.lasts * SECOND)
        whom = "world" if process is None else process.incarnation
        self.history.note(whom, str(trouble.kind), f"{trouble.lasts:.6f} s")
        if trouble.kind is TroubleKind.OUTAGE:
            self.network.is_down = True
            self.disturbances.note(at, over_at, None)
            self.loop.call_later(trouble.lasts, self._end_outage)
        elif trouble.kind is TroubleKind.JUMP:
            machine.clock.jump(over_at - at)
        elif trouble.kind is TroubleKind.CANCEL:
            self._people.cancel()
        elif trouble.kind is TroubleKind.TRIGGER:
            self._people.trigger(at)
        elif process is None or process.state is not ProcessState.RUNNING:
            return
        elif trouble.kind is TroubleKind.CRASH:
            self._crash(machine, process, trouble.lasts)
        elif trouble.kind is TroubleKind.FREEZE:
            self.disturbances.note(at, over_at, process)
            self.loop.freeze(process)
            self.loop.call_later(trouble.lasts, self._thaw, process)
        elif trouble.kind is TroubleKind.CUT_OFF:
            self.disturbances.note(at, over_at, process)
            self.network.cut_off[process] = None
            self.loop.call_later(trouble.lasts, self.network.cut_off.pop, process, None)
        elif machine.node is not None:
            self._ask_to_end(machine.node, process)

    def _ask_to_end(self, node: Life, process: Process) -> None:
        """A signal: a frozen process gets it when it thaws."""
        with in_process(process):
            self.loop.call_soon(node.shut_down)

    def _end_outage(self) -> None:
        self.network.is_down = False

    def _crash(self, machine: Machine, process: Process, down_for: float) -> None:
        self.disturbances.note(self.clock(), None, process)
        self.loop.crash(process)
        machine.process = machine.node = None
        self.loop.call_later(down_for, self._boot, machine)

    def _thaw(self, process: Process) -> None:
        if process.state is ProcessState.FROZEN:
            self.loop.thaw(process)

    # -- and how it ends ---------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Everything is well from now on. Wait until everything is done, or the time for that is up."""
        self.history.note("world", "heals")
        self.is_healing = True
        self.network.fates = Fates(CALM, dice_for(self.options.seed, "healing"))
        self.network.is_down = False
        self.network.cut_off.clear()
        for machine in self.machines:
            if machine.process is None:
                self._boot(machine)
            elif machine.process.state is ProcessState.FROZEN:
                self.loop.thaw(machine.process)
        look_after = self.options.settings.loop_interval * 4 / SECOND
        for _ in range(int(_HEAL_FOR / look_after)):
            if self._is_settled() or self._is_hopeless.is_set():
                return
            await asyncio.sleep(look_after)

    def _is_settled(self) -> bool:
        snapshot = self.backend.commit(Snapshot)
        end = self.options.begins_at + self.options.runs_for
        is_swept = snapshot.sweep is not None and snapshot.sweep.watermark >= end
        return is_swept and all(row.status in FINAL for row in snapshot.occurrences.values()) and not snapshot.mail

    def _check(self, owed_from: int) -> None:
        snapshot = self.backend.commit(Snapshot)
        end = self.options.begins_at + self.options.runs_for
        owed = {job.name: job.instants(owed_from, end) for job in self.options.jobs}
        check_rows(snapshot, self.violations)
        check_settled(snapshot, self.violations)
        check_instants(snapshot, owed, end, self.violations)
        check_lines(snapshot, self.violations)
        checks = RunChecks(snapshot, self.log, self.witness.taken, self.disturbances, self.violations)
        checks.check(prompt_within=round(self.options.weather.latency * 4 * SECOND) + SECOND // 100)

    async def _shut_down(self) -> None:
        """Ask every node to end, and see that it does."""
        for machine in self.machines:
            machine.is_up = False
            if machine.node is not None and machine.process is not None:
                self._ask_to_end(machine.node, machine.process)
        await asyncio.sleep(2 * self.options.settings.shutdown_grace_period / SECOND)
        for machine in self.machines:
            if machine.process is not None:
                message = f"{machine.process.incarnation} was asked to end, and has not"
                self.violations.add(Rule.QUIET, message, self.clock())


def _causes(error: BaseException) -> list[BaseException]:
    """The errors in a group of errors, or just this one."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [error]


def run_seed(options: Options, new_life: NewLife) -> Outcome:
    """Live through one seed."""
    return World(options, new_life).run()
