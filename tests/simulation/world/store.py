"""The view of the store from one simulated process: over a network that is slow, loses calls, and loses answers.

    a process ──► SimulatedStore ──► SimulatedEngine ── fate ──► Backend (the only database)
                                          ◄── fate ──

The rules of the ledger are real; only the way to the database and back is simulated. After a process has sent a call,
the call is independent of the process: it arrives and is committed while the process is frozen, and may be committed
after a crash. A frozen process receives the answer after its thaw. A crashed process never receives it.

Some faults last longer than a call. In an *outage*, no call arrives. If a process is *cut off*, only its own calls do
not arrive. If one of its connections is *stuck*, calls of one kind are never answered, but its other calls are. On a
*full disk*, reads work, and every write is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final

from itinerary.errors import StoreError, StoreFull, StoreUnavailable
from itinerary.model.events import Lease, NewEvent
from itinerary.model.rows import NodeNumber
from itinerary.model.writes import OwnerWrite, Refusal, Refused, TakeoverWrite, Written
from itinerary.runtime.store_retry import FIRST_WAIT
from itinerary.stores.engine import Engine, T, Work
from itinerary.stores.store import EngineStore
from itinerary.testing.processes import Process, ProcessState, outside
from tests.simulation.world.backend import Backend
from tests.simulation.world.call_faults import CallFate, CallFates, CallLane, Fortune
from tests.simulation.world.clock import microseconds
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.history import EventHistory

__all__ = ["Appending", "Network", "SimulatedEngine", "SimulatedStore", "Writing"]

_REQUEST: Final[ContextVar[object]] = ContextVar("_REQUEST", default=None)
"""The current request to the store, for the commit checker."""
_LANE: Final[ContextVar[CallLane | None]] = ContextVar("_LANE", default=None)
"""The kind of the current call."""


class Writing:
    """An owner's request to write changes. The commit checker compares them with the changed rows."""

    __slots__ = ("changes", "owner")

    def __init__(self, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> None:
        self.owner = owner
        self.changes = changes


class Appending:
    """A record scheduler's request to append events under a lease."""

    __slots__ = ("lease", "stream")

    def __init__(self, stream: str, lease: Lease) -> None:
        self.stream, self.lease = stream, lease


class Taking:
    """A node's request to take over occurrences."""

    def is_refused(self, answers: Sequence[Written | Refused]) -> bool:
        """True if an owner is still alive."""
        return any(isinstance(answer, Refused) and answer.why is Refusal.ALIVE for answer in answers)


class Network:
    """The network between all processes and the database."""

    def __init__(self, backend: Backend, fates: CallFates, history: EventHistory, disturbances: Disturbances) -> None:
        self.backend = backend
        self.fates = fates
        self.history = history
        self.disturbances = disturbances
        self.is_down = False
        """True in an outage: the database answers no call."""
        self.cut_off: dict[Process, None] = {}
        """Processes whose calls do not arrive."""
        self.stuck: dict[Process, CallLane] = {}
        """Processes with a hanging connection, and the kind of calls that are never answered."""
        self.is_full = False
        """True if the disk is full: the database refuses every write."""
        self.ambushes: dict[Process, Callable[[], None]] = {}
        """Faults that occur during the next call of a process."""
        self.countdowns: dict[Process, tuple[int, Callable[[], None]]] = {}
        """Faults that occur after a number of calls of a process."""
        self.happened: Counter[str] = Counter()
        """The number of times that each fault occurred."""
        self.context = outside()
        """The context of calls on the network, which belong to no process."""

    def reaches(self, process: Process) -> bool:
        """True if a call of this process arrives at this moment."""
        return not self.is_down and process not in self.cut_off


class _Call:
    """A call in progress."""

    __slots__ = ("answer", "fate", "is_read", "loop", "network", "process", "request", "work")

    def __init__(
        self, network: Network, process: Process, work: Work[Any], fate: CallFate, *, is_read: bool = False
    ) -> None:
        self.network = network
        self.process = process
        self.work = work
        self.fate = fate
        self.is_read = is_read
        self.request = _REQUEST.get()
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()

    def send(self) -> None:
        """Send the call."""
        fortune, arrives_after, answered_after = self.fate
        if fortune is Fortune.UNANSWERED:
            self._hang(arrives_after, answered_after)
            return
        if arrives_after + answered_after > self.network.fates.weather.latency or fortune is not Fortune.FINE:
            now = self.network.backend.clock()
            takes = microseconds(arrives_after + answered_after)
            self.network.disturbances.note(now, now + takes, self.process)
        self._be_struck(arrives_after + answered_after)
        if fortune is Fortune.REFUSED:
            self._later(arrives_after + answered_after, self._away)
            return
        if fortune is Fortune.LATE:
            self._later(answered_after, self._away)
        self._later(arrives_after, self._arrive)

    def _hang(self, arrives_after: float, deadline: float) -> None:
        """Never answer the call. Only the caller's deadline ends it."""
        now = self.network.backend.clock()
        self.network.disturbances.note(now, now + microseconds(deadline), self.process)
        self.network.happened[Fortune.UNANSWERED] += 1
        self._be_struck(deadline)
        self._later(deadline, self._away)
        if arrives_after < inf:
            self._later(arrives_after, self._arrive)

    def _be_struck(self, takes: float) -> None:
        """Schedule the faults that wait for a call of this process."""
        network, process = self.network, self.process
        if process in network.ambushes:
            strike = network.ambushes.pop(process)
            self._later(network.fates.fraction() * takes, strike)
        if process in network.countdowns:
            left, act = network.countdowns.pop(process)
            if left > 0:
                network.countdowns[process] = left - 1, act
            else:
                self._later(network.fates.fraction() * takes, act)

    def _later(self, delay: float, act: Callable[..., None], *args: object) -> None:
        self.loop.call_later(delay, act, *args, context=self.network.context)

    def _arrive(self) -> None:
        """Commit or refuse the call at the store, and send the answer."""
        fortune, _, answered_after = self.fate
        network = self.network
        if self.process.state is ProcessState.CRASHED and not network.fates.still_commits():
            network.history.note(self.process.incarnation, "call", "is lost with its process")
            return
        if not network.reaches(self.process):
            patience, now = network.fates.weather.patience, network.backend.clock()
            network.disturbances.note(now, now + microseconds(patience), self.process)
            self._later(patience, self._away)  # the caller waits, even if the outage ends earlier
            return
        if network.is_full and not self.is_read:
            network.happened["write refused"] += 1
            error = StoreFull("memory: the disk is full; make room, and it goes on")
            self._later(min(answered_after, network.fates.weather.patience), self._failed, error)
            return
        try:
            result = network.backend.commit(self.work, self.process, self.request)
            if fortune is Fortune.REPEATED:
                result = network.backend.commit(self.work, self.process, self.request)
        except StoreError as error:  # a normal answer: the store received the call and cannot execute it
            self._later(answered_after, self._failed, error)
            return
        if isinstance(self.request, Taking) and self.request.is_refused(result):
            network.happened["rescue called off"] += 1
        if fortune is Fortune.LATE or (fortune is Fortune.UNANSWERED and self.answer.done()):
            network.history.note(self.process.incarnation, "call", "arrives after all")
            network.happened["arrived after all"] += 1
            return
        if fortune is Fortune.UNANSWERED:
            return
        if fortune is Fortune.LOST:
            self._later(answered_after, self._away)
        else:
            self._later(answered_after, self._answered, result)

    def _answered(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def _failed(self, error: StoreError) -> None:
        if not self.answer.done() and self.fate.fortune is not Fortune.UNANSWERED:
            self.answer.set_exception(error)

    def _away(self) -> None:
        if not self.answer.done():
            self.network.history.note(self.process.incarnation, "call", f"fails ({self.fate.fortune})")
            error = StoreUnavailable("memory: does not answer; it may have done what it was asked, or not: ask again")
            self.answer.set_exception(error)


class SimulatedEngine(Engine):
    """The connection of one process to the database."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    @property
    def url(self) -> str:
        return "memory:"

    async def open(self) -> None:
        """Do nothing: the database is always open."""

    async def close(self) -> None:
        """Do nothing: the database stays open."""

    async def write(self, work: Work[T]) -> T:
        return await self._call(work, is_read=False)

    async def read(self, work: Work[T]) -> T:
        return await self._call(work, is_read=True)

    async def _call(self, work: Work[T], *, is_read: bool) -> T:
        network, process, lane = self._network, self._process, _LANE.get()
        is_stuck = lane is not None and network.stuck.get(process) is lane
        fate = network.fates.unanswered() if is_stuck else network.fates.throw()
        call = _Call(network, process, work, fate, is_read=is_read)
        call.send()
        answer: T = await call.answer
        return answer

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Wake the caller a short time after each commit with a notification."""
        network, process, loop, rung = self._network, self._process, asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            if process.state is ProcessState.CRASHED:
                return
            loop.call_later(network.fates.heard_after(), rung.set, context=network.context)

        async def next_look() -> None:
            await rung.wait()
            rung.clear()

        network.backend.listeners[ring] = None
        try:
            yield next_look
        finally:
            del network.backend.listeners[ring]


@contextmanager
def _said(variable: ContextVar[Any], value: object) -> Iterator[None]:
    """Set a context variable during a call, and restore the previous value afterwards.

    A token cannot restore it: coroutines that are closed at the end of the simulation end in another context.
    """
    before = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(before)


def _on_lane(lane: CallLane, name: str) -> Any:
    """Return a store method with a kind of calls. Each call looks it up again, since a mutant may replace it."""

    async def call(self: SimulatedStore, *args: Any, **options: Any) -> Any:
        with _said(_LANE, lane):
            return await getattr(super(SimulatedStore, self), name)(*args, **options)

    return call


class SimulatedStore(EngineStore):
    """A `ports.Store` on the simulated engine, which passes write requests to the commit checker.

    A caller waits after a failed write before its retry (see `runtime.store_retry`). An attempt that ends in that time
    is written late, which is no violation.
    """

    def __init__(self, network: Network, process: Process, longest_wait: int) -> None:
        """Create a store. `longest_wait` is a node's longest wait before a retry, in microseconds."""
        super().__init__(SimulatedEngine(network, process))
        self._network, self._process, self._longest_wait = network, process, longest_wait
        self._wait = microseconds(FIRST_WAIT)

    beat = _on_lane(CallLane.HEARTBEATS, "beat")
    claim = _on_lane(CallLane.STARTS, "claim")
    start = _on_lane(CallLane.STARTS, "start")
    begin = _on_lane(CallLane.STARTS, "begin")
    begin_sweep = _on_lane(CallLane.SWEEPS, "begin_sweep")
    advance_sweep = _on_lane(CallLane.SWEEPS, "advance_sweep")
    read = _on_lane(CallLane.READS, "read")
    lease = _on_lane(CallLane.RECORDS, "lease")

    async def intervene(self, by: NodeNumber, interventions: Sequence[TakeoverWrite]) -> list[Written | Refused]:
        with _said(_REQUEST, Taking()), _said(_LANE, CallLane.TAKEOVERS):
            return await super().intervene(by, interventions)

    async def append(
        self, stream: str, partition: str, events: Sequence[NewEvent], lease: Lease | None = None
    ) -> list[int] | Refusal:
        request = None if lease is None else Appending(stream, lease)
        with _said(_REQUEST, request), _said(_LANE, CallLane.RECORDS):
            return await super().append(stream, partition, events, lease)

    async def write(self, owner: NodeNumber, changes: Sequence[OwnerWrite]) -> list[Written | Refused]:
        try:
            with _said(_REQUEST, Writing(owner, changes)), _said(_LANE, CallLane.RESULTS):
                answer = await super().write(owner, changes)
        except (StoreUnavailable, StoreFull):
            now = self._network.backend.clock()
            self._network.disturbances.note(now, now + self._wait, self._process)
            self._wait = min(self._wait * 2, self._longest_wait)
            raise
        else:
            self._wait = microseconds(FIRST_WAIT)
            return answer
