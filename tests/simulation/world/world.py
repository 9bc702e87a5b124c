"""A whole world: a database, a network, some machines with a node on each, and a day with faults.

    prepare     create the store, register the jobs
    the day     nodes run; calls fail, processes crash and freeze, clocks jump, outages happen, as the seed determines
    heal        all faults end, every machine is up, and the nodes finish the remaining work
    check       check the store and the log of the tasks, and shut down the nodes

Schedules end with the day, so the number of expected instants is limited.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any, Final

import msgspec

from itinerary.core.timeline.zone_history import ZoneBook, lacking_entries
from itinerary.model.attempts import Assignment
from itinerary.model.codec import to_json
from itinerary.model.rows import EntryKind
from itinerary.model.states import FINAL
from itinerary.model.timeline import EntryRejected, TimelineEntryRequest
from itinerary.runtime.rescuer import MISSES_MAX
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ACTIVE, JOBS, MAIL, OCCURRENCES, OVERLAP_QUEUE, SWEEP
from itinerary.testing.processes import ProcessState
from itinerary.testing.virtual_loop import Stalled, VirtualLoop
from tests.simulation.checker import (
    LogWitness,
    RunChecks,
    Snapshot,
    check_records,
    check_settled,
    check_store,
    is_done,
)
from tests.simulation.checker.commits import Witness
from tests.simulation.checker.violations import Rule, Violation, Violations
from tests.simulation.world.backend import Backend
from tests.simulation.world.call_faults import CALM, CallFates
from tests.simulation.world.clock import SimulatedStoreClock
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.faults import FaultContext, FaultRunner
from tests.simulation.world.history import EventHistory, row_lines
from tests.simulation.world.machines import Machine, NewLife, WorldEnvironment
from tests.simulation.world.operators import People
from tests.simulation.world.options import ChangeKind, JobChange, Options, Upgrade
from tests.simulation.world.records import ProducedEvent, SimulatedHandlers
from tests.simulation.world.rng import dice_for
from tests.simulation.world.run_log import SimulatedRunLog
from tests.simulation.world.store import Network
from tests.simulation.world.tasks import Behaviour

__all__ = ["SeedOutcome", "World", "run_seed"]

_HEAL_FOR: Final = 12 * 3600.0
"""Seconds that a world has to finish all work after the faults have ended."""
_NAMES: Final = "abcdefgh"


class SeedOutcome(msgspec.Struct, frozen=True):
    """The result of a seed."""

    seed: int
    violations: tuple[Violation, ...]
    count: int
    """The number of all violations. Only the first ones are kept."""
    occurrences: int
    runs: int
    commits: int
    history: tuple[str, ...]
    happened: dict[str, int] = {}
    """The number of times that each of the rarer faults occurred."""

    @property
    def is_fine(self) -> bool:
        return self.count == 0


class World:
    """The world of one seed."""

    def __init__(self, options: Options, new_life: NewLife) -> None:
        self.options = options
        self.loop = VirtualLoop(dice_for(options.seed, "order"))
        self.clock = SimulatedStoreClock(self.loop.time, options.begins_at)
        self.history = EventHistory(self.loop.time)
        self.violations = Violations()
        self.disturbances = Disturbances()
        self.backend = Backend(self.clock)
        # A node cannot detect a jump of its clock by up to half a timeout. So half a timeout of silence is enough here.
        silence_min = options.settings.node_heartbeat_interval * MISSES_MAX // 2
        self.zone_data = [ZoneData(release.name, release.zone) for release in options.releases]
        self.witness = Witness(
            self.backend,
            options.settings.limits,
            self.violations,
            silence_min=silence_min,
            late_for=options.settings.late_for,
            zone_data={data.release: data.zone for data in self.zone_data},
        )
        self.backend.witness = self.witness
        self.log = SimulatedRunLog(self.witness.began)
        fates = CallFates(options.weather, dice_for(options.seed, "fates"), dice_for(options.seed, "unanswered"))
        self.network = Network(self.backend, fates, self.history, self.disturbances)
        self._people = People(
            self.backend,
            self.witness.expectations,
            dice_for(options.seed, "people"),
            self.history,
            self.zone_data[0],
        )
        self.is_healing = False
        self._troubles = FaultRunner(
            FaultContext(
                self.loop,
                self.clock,
                self.network,
                self.history,
                self.disturbances,
                self.witness.silence,
                self._people,
                self.violations,
                options.settings,
                options.seed,
                self.witness.crashed,
            )
        )
        self._office = None
        if options.desk is not None:
            self._office = SimulatedHandlers(options.seed, options.desk, self.clock, self.history)
            self.witness.others.append(LogWitness(self.backend, self.violations).see)
        environment = WorldEnvironment(
            options,
            self.zone_data,
            new_life,
            self.loop,
            self.clock,
            self.network,
            self.history,
            self.log,
            self,
            self.violations,
            is_hopeless=asyncio.Event(),
            hold_up=self._troubles.hold_up_by_result,
            office=self._office,
        )
        self._is_hopeless = environment.is_hopeless
        self.machines = self._troubles.machines = [Machine(_NAMES[one], environment) for one in range(options.nodes)]
        self._tasks = {(job.name, task.name): task for job in options.jobs for task in job.tasks}

    # -- behaviour of tasks ------------------------------------------------------------------------------------------

    def behaviour(self, assignment: Assignment) -> Behaviour:
        """Return the behaviour of an attempt, the same on every node. In a healing world, it succeeds quickly."""
        facts = assignment.facts
        task = self._tasks.get((facts.job, facts.task))
        if self.is_healing or task is None:
            return Behaviour(takes=0.01)
        purpose = (facts.job, facts.key.instant, facts.key.kind, facts.key.request, facts.task, facts.attempt)
        return task.behaviour(dice_for(self.options.seed, *purpose))

    # -- the simulation ----------------------------------------------------------------------------------------------

    def run(self) -> SeedOutcome:
        """Simulate the world and return the result."""
        collects = gc.isenabled()
        gc.disable()  # the time of a garbage collection must not affect the history
        self.loop.set_exception_handler(self._handle)
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

    def _outcome(self) -> SeedOutcome:
        lines = [*self.history.lines(), *self.backend.commit(row_lines), *map(str, self.violations.found)]
        return SeedOutcome(
            self.options.seed,
            tuple(self.violations.found),
            self.violations.count,
            len(self.backend.rows(OCCURRENCES)),
            len(self.log.runs),
            self.backend.commits,
            tuple(lines),
            dict(self.network.happened),
        )

    async def _day(self) -> None:
        owed_from = await self._prepare()
        for trouble in self.options.troubles:
            self.loop.call_at(trouble.at, self._troubles.make, trouble)
        for change in self.options.changes:
            self.loop.call_at(change.at, self._change, change)
        for upgrade in self.options.upgrades:
            self.loop.call_at(upgrade.at, self._upgrade, upgrade)
        for said in () if self.options.desk is None else self.options.desk.said:
            self.loop.call_at(said.at, self._say, said)
        for machine in self.machines:
            machine.boot()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_hopeless.wait(), self.options.runs_for / SECOND)
        await self._heal()
        if self._is_hopeless.is_set():
            return
        await self._check(owed_from)
        await self._shut_down()

    async def _prepare(self) -> int:
        """Create the store and register the jobs. Return the time from which their instants are expected."""
        store = EngineStore(self.backend)
        await store.open()
        entries = [
            TimelineEntryRequest(
                job=job.name,
                kind=EntryKind.VERSION,
                request="first",
                by="world",
                from_version=0,
                body=to_json(job.definition()).decode(),
            )
            for job in self.options.jobs
        ]
        needed = {name for job in self.options.jobs for name in job.zone_names()}
        zones = lacking_entries(ZoneBook(), self.zone_data[0], needed, by="world", revision=None)
        answers = await store.amend([*zones, *entries])
        assert not any(isinstance(answer, EntryRejected) for answer in answers), answers
        owed_from, end = self.clock(), self.options.begins_at + self.options.runs_for
        numbers = {row.name: row.number for row in self.backend.rows(JOBS).values()}
        for job in self.options.jobs:
            self.witness.expectations.scheduled(numbers[job.name], owed_from, end, job.instants)
        return owed_from

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Add a violation for an error that asyncio reports: an unhandled exception, or a failed callback."""
        del loop
        error = context.get("exception")
        self.violations.add(Rule.QUIET, f"{context.get('message')}: {error!r}", self.clock())

    # -- changes ------------------------------------------------------------------------------------------------------

    def _change(self, change: JobChange) -> None:
        """Let operators pause or update a job."""
        job = self.options.jobs[change.job]
        ends_at = self.options.begins_at + self.options.runs_for
        if change.kind is ChangeKind.UPDATE:
            takes_effect = None if change.lasts == 0 else self.clock() + round(change.lasts * SECOND)
            self._people.update(msgspec.structs.replace(job, schedule=change.schedule), takes_effect, ends_at)
        elif self._people.pause(job.name):
            self.loop.call_later(change.lasts, self._people.resume, job.name)

    def _say(self, said: ProducedEvent) -> None:
        """Append a producer's event, and repeat it if the answer was lost."""
        for _ in range(said.times):
            self.backend.commit(said.append)

    def _upgrade(self, upgrade: Upgrade) -> None:
        """Install other zone data on a machine, and restart its node."""
        if self.is_healing:
            return
        machine = self.machines[upgrade.node]
        machine.zone_data = self.zone_data[upgrade.release]
        self.history.note(f"machine {machine.name}", "gets zone data", machine.zone_data.release)
        if machine.process is not None and machine.process.state is ProcessState.RUNNING:
            machine.ask_to_end(upgrade.lasts)

    # -- the end of the day ------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """End all faults, and wait until all work is finished or the time limit is reached.

        Attempts that started before keep their durations, so the limit includes the longest one.
        """
        self.history.note("world", "heals")
        self.is_healing = True
        if self._office is not None:
            self._office.is_healing = True
        self.network.fates = CallFates(CALM, dice_for(self.options.seed, "healing"))
        self._troubles.end()
        look_after = self.options.settings.loop_interval * 4 / SECOND
        longest = max((task.takes[1] for task in self._tasks.values()), default=0.0)
        for _ in range(int((_HEAL_FOR + longest) / look_after)):
            if self._is_settled() or self._is_hopeless.is_set():
                return
            await asyncio.sleep(look_after)

    def _is_settled(self) -> bool:
        rows, end = self.backend.rows, self.options.begins_at + self.options.runs_for
        if (
            any(row.watermark < end for row in rows(SWEEP).values())
            or rows(MAIL)
            or rows(ACTIVE)
            or rows(OVERLAP_QUEUE)
        ):
            return False
        if self.options.desk is not None and not is_done(self.backend, self.options.desk.said):
            return False
        return all(row.status in FINAL for row in rows(OCCURRENCES).values())

    async def _check(self, owed_from: int) -> None:
        snapshot = self.backend.commit(Snapshot)
        end = self.options.begins_at + self.options.runs_for
        await check_store(EngineStore(self.backend), self.witness.expectations.owed, owed_from, end, self.violations)
        check_settled(snapshot, self.violations)
        if self._office is not None:
            self.network.happened["batch handled"] += len(self._office.handled)
            check_records(self.backend, self._office.desk.said, self._office.handled, self.violations)
        checks = RunChecks(snapshot, self.log, self.witness.taken, self.disturbances, self.violations)
        checks.check(prompt_within=round(self.options.weather.latency * 4 * SECOND) + SECOND // 100)

    async def _shut_down(self) -> None:
        """Shut down every node, and check that it ends."""
        for machine in self.machines:
            machine.is_up = False
            machine.ask_to_end()
        await asyncio.sleep(2 * self.options.settings.shutdown_grace_period / SECOND)
        for machine in self.machines:
            if machine.process is not None:
                message = f"{machine.process.incarnation} was asked to end, and has not"
                self.violations.add(Rule.QUIET, message, self.clock())


def run_seed(options: Options, new_life: NewLife) -> SeedOutcome:
    """Simulate one seed and return the result."""
    return World(options, new_life).run()
