"""The faults of a simulated world other than failed calls: crashes, outages, signals, a full disk.

    CRASH, FREEZE, HOLD_UP     a process ends, stops for a while, or only its event loop stops
    OUTAGE, FULL               the store answers no call, or refuses every write
    CUT_OFF, HANG              the store receives no call of one node, or never answers one of its connections
    SHUTDOWN, SIGTERM          a node is asked to end: while it runs; at any moment, also in its start or its shutdown
    JUMP                       a machine's clock is set
    CANCEL, TRIGGER            an operator acts

The seed determines how long each fault lasts. All faults end when the world heals. A node that gets SIGTERM must end in
time, in every phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from itinerary.model.settings import Settings
from itinerary.schedules.durations import SECOND
from itinerary.testing.processes import Process, ProcessState
from itinerary.testing.virtual_loop import VirtualLoop
from tests.simulation.checker.heartbeat_gaps import Silence
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.clock import SimulatedStoreClock
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.history import EventHistory
from tests.simulation.world.machines import Machine
from tests.simulation.world.operators import People
from tests.simulation.world.options import ScheduledFault, TroubleKind
from tests.simulation.world.rng import dice_for
from tests.simulation.world.store import Network

__all__ = ["STANDING_STILL", "FaultContext", "FaultRunner"]

STANDING_STILL: Final = (ProcessState.FROZEN, ProcessState.HELD_UP)
_AT_ONCE: Final = 0.3
"""The fraction of crashes after which the same node starts again at once, on the same machine."""
_SOON: Final = 5.0
"""Seconds until the restart of a node that was crashed to get SIGTERM during its start."""
_LEAVE_FOR: Final = 5.0
"""Seconds after the grace period in which a node must record that it has left."""


class FaultContext(msgspec.Struct):
    """The parts of the world that faults act on."""

    loop: VirtualLoop
    clock: SimulatedStoreClock
    network: Network
    history: EventHistory
    disturbances: Disturbances
    silence: Silence
    people: People
    violations: Violations
    settings: Settings
    seed: int
    crashed: Callable[[Process, int], None]
    """Called with a crashed process and the time of the crash."""


class FaultRunner:
    """The component that starts and ends the faults."""

    def __init__(self, scene: FaultContext) -> None:
        self._scene = scene
        self.machines: Sequence[Machine] = ()
        self.are_over = False
        """True when the world heals: no new faults."""
        self._of_the_world: dict[TroubleKind, Callable[[Machine, ScheduledFault], None]] = {
            TroubleKind.OUTAGE: self._outage,
            TroubleKind.FULL: self._fill_the_disk,
            TroubleKind.SIGTERM: self._sigterm,
            TroubleKind.JUMP: self._jump,
            TroubleKind.CANCEL: self._cancel,
            TroubleKind.TRIGGER: self._trigger,
        }
        self._of_a_process: dict[TroubleKind, Callable[[Machine, Process, ScheduledFault], None]] = {
            TroubleKind.CRASH: self._crash_or_freeze,
            TroubleKind.FREEZE: self._crash_or_freeze,
            TroubleKind.HOLD_UP: self._held_up,
            TroubleKind.HANG: self._hang,
            TroubleKind.CUT_OFF: self._cut_off,
            TroubleKind.SHUTDOWN: self._shutdown,
        }
        """Faults that need a running process."""

    def make(self, trouble: ScheduledFault) -> None:
        """Start a fault."""
        if self.are_over:
            return
        machine = self.machines[trouble.node]
        process = machine.process
        whom = "world" if process is None else process.incarnation
        self._scene.history.note(whom, str(trouble.kind), f"{trouble.lasts:.6f} s")
        if trouble.kind in self._of_the_world:
            self._of_the_world[trouble.kind](machine, trouble)
        elif process is not None and process.state is ProcessState.RUNNING:
            self._of_a_process[trouble.kind](machine, process, trouble)

    def end(self) -> None:
        """End all active faults."""
        self.are_over = True
        network = self._scene.network
        self._end_outage()
        network.cut_off.clear()
        network.stuck.clear()
        for machine in self.machines:
            machine.restart_soon()
            if machine.process is None:
                machine.boot()
            elif machine.process.state in STANDING_STILL:
                self._scene.loop.thaw(machine.process)

    def _until(self, trouble: ScheduledFault) -> tuple[int, int]:
        """Return the start (now) and the end of a fault, by the store clock."""
        at = self._scene.clock()
        return at, at + round(trouble.lasts * SECOND)

    # -- the store ---------------------------------------------------------------------------------------------------

    def _outage(self, _machine: Machine, trouble: ScheduledFault) -> None:
        self._scene.network.is_down = True
        self._nobody_is_heard(trouble)

    def _fill_the_disk(self, _machine: Machine, trouble: ScheduledFault) -> None:
        """Let the store refuse every write, also heartbeats: no node can prove that it is alive."""
        self._scene.network.happened[TroubleKind.FULL] += 1
        self._scene.network.is_full = True
        self._nobody_is_heard(trouble)

    def _nobody_is_heard(self, trouble: ScheduledFault) -> None:
        at, over_at = self._until(trouble)
        self._scene.silence.store_goes(at)
        self._scene.disturbances.note(at, over_at, None)
        self._scene.loop.call_later(trouble.lasts, self._end_outage)

    def _end_outage(self) -> None:
        self._scene.network.is_down = self._scene.network.is_full = False
        self._scene.silence.store_is_back(self._scene.clock())

    def _cut_off(self, _machine: Machine, process: Process, trouble: ScheduledFault) -> None:
        self._scene.disturbances.note(*self._until(trouble), process)
        self._scene.network.cut_off[process] = None
        self._scene.loop.call_later(trouble.lasts, self._scene.network.cut_off.pop, process, None)

    def _hang(self, _machine: Machine, process: Process, trouble: ScheduledFault) -> None:
        """Let one connection of a node hang: calls of one kind get no answer for a while."""
        assert trouble.lane is not None, "a connection has a use"
        self._scene.network.happened[TroubleKind.HANG] += 1
        self._scene.network.stuck[process] = trouble.lane
        self._scene.loop.call_later(trouble.lasts, self._scene.network.stuck.pop, process, None)

    # -- operators and clocks ----------------------------------------------------------------------------------------

    def _cancel(self, _machine: Machine, _trouble: ScheduledFault) -> None:
        self._scene.people.cancel()

    def _trigger(self, _machine: Machine, _trouble: ScheduledFault) -> None:
        self._scene.people.trigger(self._scene.clock())

    def _jump(self, machine: Machine, trouble: ScheduledFault) -> None:
        at, then = self._until(trouble)
        machine.clock.jump(then - at)
        if machine.process is not None:
            self._scene.disturbances.note_bewildered(at, at, machine.process)

    # -- processes ---------------------------------------------------------------------------------------------------

    def _crash_or_freeze(self, machine: Machine, process: Process, trouble: ScheduledFault) -> None:
        strike = partial(self._strike, machine, process, trouble)
        if trouble.in_a_call:
            self._scene.network.ambushes[process] = strike
        else:
            strike()

    def _strike(self, machine: Machine, process: Process, trouble: ScheduledFault) -> None:
        """Crash or freeze a process, unless it has ended or another fault has stopped it."""
        if machine.process is not process or process.state is not ProcessState.RUNNING or self.are_over:
            return
        self._scene.history.note(process.incarnation, f"{trouble.kind}!")
        if trouble.kind is TroubleKind.FREEZE:
            self._stand_still(process, trouble.lasts, self._scene.loop.freeze)
        else:
            now = self._scene.clock()
            self._scene.disturbances.note(now, None, process)
            self._scene.crashed(process, now)
            at_once = dice_for(self._scene.seed, "restarts at once", trouble.at).random() < _AT_ONCE
            machine.crash(0.0 if at_once else trouble.lasts)

    def _held_up(self, _machine: Machine, process: Process, trouble: ScheduledFault) -> None:
        self._scene.network.happened[TroubleKind.HOLD_UP] += 1
        self._stand_still(process, trouble.lasts, self._scene.loop.hold_up)

    def hold_up_by_result(self, process: Process, lasts: float) -> None:
        """Stop the loop of a node for some seconds, since it reads a huge result."""
        if process.state is ProcessState.RUNNING:
            self._scene.network.happened["huge result"] += 1
            self._scene.history.note(process.incarnation, "is held up", f"by a huge result, {lasts:.6f} s")
            self._stand_still(process, lasts, self._scene.loop.hold_up)

    def _stand_still(self, process: Process, lasts: float, stop: Callable[[Process], None]) -> None:
        scene, now = self._scene, self._scene.clock()
        scene.disturbances.note(now, now + round(lasts * SECOND), process)
        scene.disturbances.note_bewildered(now, now + round(lasts * SECOND), process)
        stop(process)
        scene.loop.call_later(lasts, self._thaw, process, context=scene.network.context)

    def _thaw(self, process: Process) -> None:
        if process.state in STANDING_STILL:
            self._scene.loop.thaw(process)

    # -- signals -----------------------------------------------------------------------------------------------------

    def _shutdown(self, machine: Machine, _process: Process, trouble: ScheduledFault) -> None:
        machine.ask_to_end(trouble.lasts)

    def _sigterm(self, machine: Machine, trouble: ScheduledFault) -> None:
        """Send SIGTERM when the node has made `trouble.calls` calls, counted from now or from its next start."""
        aim = partial(self._count_down, machine, trouble, trouble.calls, trouble.again_after)
        process = machine.process
        if process is None or (trouble.in_start and process.state is ProcessState.RUNNING):
            machine.at_boot = aim
            if process is not None:
                self._scene.disturbances.note(self._scene.clock(), None, process)
                machine.crash(_SOON)
        else:
            aim(process)

    def _count_down(
        self, machine: Machine, trouble: ScheduledFault, calls: int, again_after: int | None, process: Process
    ) -> None:
        scene = self._scene

        def strike() -> None:
            if machine.process is not process or self.are_over:
                return
            scene.network.happened["sigterm in a start" if machine.is_starting else "sigterm"] += 1
            scene.history.note(process.incarnation, "SIGTERM")
            scene.loop.call_later(self._ends_within(), self._must_have_ended, machine, process, scene.clock())
            machine.signal(trouble.lasts)
            if again_after is not None:
                self._count_down(machine, trouble, again_after, None, process)

        scene.network.countdowns[process] = calls, strike

    def _ends_within(self) -> float:
        """Return the seconds that a node has to end: both grace periods, the time to leave, and calls in progress."""
        settings = self._scene.settings
        graces = (settings.shutdown_grace_period + settings.kill_grace) / SECOND
        return graces + _LEAVE_FOR + 2 * self._scene.network.fates.weather.longest

    def _must_have_ended(self, machine: Machine, process: Process, signalled_at: int) -> None:
        scene = self._scene
        if machine.process is not process or scene.disturbances.was_bewildered(process, signalled_at, scene.clock()):
            return
        scene.network.happened["sigterm ignored"] += 1
        message = f"{process.incarnation} got SIGTERM at {signalled_at}, and has not ended"
        scene.violations.add(Rule.OBEYED, message, scene.clock())
