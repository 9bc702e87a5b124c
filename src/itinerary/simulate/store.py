"""A store as one simulated process sees it: over a network that is slow, loses calls, and loses answers.

    a process ──► SimulatedStore ──► SimulatedEngine ── fate ──► Backend (the one database)
                                          ◄── fate ──

The rules of the ledger run as they are; what is simulated is the way there and back. A call, once made, is no longer
its process's: it arrives and is committed while the process is frozen, and may be committed after it has crashed. Its
answer waits for the process, or for nobody.

Two kinds of trouble last longer than a call. In an *outage* nothing arrives from anybody. While a process is *cut off*
nothing arrives from it, and the others notice nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

from itinerary.errors import StoreError, StoreUnavailable
from itinerary.model.rows import NodeNumber
from itinerary.model.writes import Change, Refused, Written
from itinerary.runtime.patience import FIRST_WAIT
from itinerary.simulate.backend import Backend
from itinerary.simulate.clock import microseconds
from itinerary.simulate.disturbances import Disturbances
from itinerary.simulate.fates import Fate, Fates, Fortune
from itinerary.simulate.history import History
from itinerary.simulate.processes import Process, ProcessState, outside
from itinerary.stores.base import Engine, T, Work
from itinerary.stores.store import EngineStore

__all__ = ["Network", "SimulatedEngine", "SimulatedStore", "Writing"]

_REQUEST: Final[ContextVar[object]] = ContextVar("_REQUEST", default=None)
"""What the store is being asked for, for the one who watches the commits."""


class Writing:
    """Changes that an owner asks to have written: the witness compares them with the rows that they were written to."""

    __slots__ = ("changes", "owner")

    def __init__(self, owner: NodeNumber, changes: Sequence[Change]) -> None:
        self.owner = owner
        self.changes = changes


class Network:
    """What lies between all processes and the one database."""

    def __init__(self, backend: Backend, fates: Fates, history: History, disturbances: Disturbances) -> None:
        self.backend = backend
        self.fates = fates
        self.history = history
        self.disturbances = disturbances
        self.is_down = False
        """An outage: the database answers nobody."""
        self.cut_off: dict[Process, None] = {}
        """Processes that do not reach it."""
        self.ambushes: dict[Process, Callable[[], None]] = {}
        """What happens to a process while its next call is under way."""
        self.context = outside()
        """The world's own: what is under way belongs to no process."""

    def reaches(self, process: Process) -> bool:
        """Whether a call of this process arrives, at this moment."""
        return not self.is_down and process not in self.cut_off


class _Call:
    """One call, under way."""

    __slots__ = ("answer", "fate", "loop", "network", "process", "request", "work")

    def __init__(self, network: Network, process: Process, work: Work[Any], fate: Fate) -> None:
        self.network = network
        self.process = process
        self.work = work
        self.fate = fate
        self.request = _REQUEST.get()
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()

    def send(self) -> None:
        """Set it on its way."""
        fortune, arrives_after, answered_after = self.fate
        if arrives_after + answered_after > self.network.fates.weather.latency or fortune is not Fortune.FINE:
            now = self.network.backend.clock()
            takes = microseconds(arrives_after + answered_after)
            self.network.disturbances.note(now, now + takes, self.process)
        if self.process in self.network.ambushes:
            strike = self.network.ambushes.pop(self.process)
            self._later(self.network.fates.fraction() * (arrives_after + answered_after), strike)
        if fortune is Fortune.REFUSED:
            self._later(arrives_after + answered_after, self._away)
            return
        if fortune is Fortune.LATE:
            self._later(answered_after, self._away)
        self._later(arrives_after, self._arrive)

    def _later(self, delay: float, act: Callable[..., None], *args: object) -> None:
        self.loop.call_later(delay, act, *args, context=self.network.context)

    def _arrive(self) -> None:
        """The call is at the store: it is committed, or not, and the answer sets out."""
        fortune, _, answered_after = self.fate
        network = self.network
        if self.process.state is ProcessState.CRASHED and not network.fates.still_commits():
            network.history.note(self.process.incarnation, "call", "is lost with its process")
            return
        if not network.reaches(self.process):
            patience, now = network.fates.weather.patience, network.backend.clock()
            network.disturbances.note(now, now + microseconds(patience), self.process)
            self._later(patience, self._away)  # the store may be back long before, and the caller waits
            return
        try:
            result = network.backend.commit(self.work, self.process, self.request)
            if fortune is Fortune.REPEATED:
                result = network.backend.commit(self.work, self.process, self.request)
        except StoreError as error:  # an answer like any other: it was understood, and cannot be done
            self._later(answered_after, self._failed, error)
            return
        if fortune is Fortune.LATE:
            network.history.note(self.process.incarnation, "call", "arrives after all")
            return
        if fortune is Fortune.LOST:
            self._later(answered_after, self._away)
        else:
            self._later(answered_after, self._answered, result)

    def _answered(self, result: object) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def _failed(self, error: StoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def _away(self) -> None:
        if not self.answer.done():
            self.network.history.note(self.process.incarnation, "call", f"fails ({self.fate.fortune})")
            error = StoreUnavailable("memory: does not answer; it may have done what it was asked, or not: ask again")
            self.answer.set_exception(error)


class SimulatedEngine(Engine):
    """The one database, as one process reaches it."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    @property
    def url(self) -> str:
        return "memory:"

    async def open(self) -> None:
        """Nothing to do: the database is there."""

    async def close(self) -> None:
        """Nothing to do: the database stays."""

    async def write(self, work: Work[T]) -> T:
        call = _Call(self._network, self._process, work, self._network.fates.throw())
        call.send()
        answer: T = await call.answer
        return answer

    async def read(self, work: Work[T]) -> T:
        return await self.write(work)

    @asynccontextmanager
    async def looks(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Wake up when a commit has told of something, a little later."""
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


class SimulatedStore(EngineStore):
    """A `ports.Store` over that engine, which tells the witness what it is asked to write.

    Whose write has failed waits before it asks again (see `runtime.patience`): what ends meanwhile cannot be written at
    once, and that is nobody's fault.
    """

    def __init__(self, network: Network, process: Process, longest_wait: int) -> None:
        """`longest_wait`, in microseconds, is how long a node waits at most before it asks again."""
        super().__init__(SimulatedEngine(network, process))
        self._network, self._process, self._longest_wait = network, process, longest_wait
        self._wait = microseconds(FIRST_WAIT)

    async def write(self, owner: NodeNumber, changes: Sequence[Change]) -> list[Written | Refused]:
        token = _REQUEST.set(Writing(owner, changes))
        try:
            answer = await super().write(owner, changes)
        except StoreUnavailable:
            now = self._network.backend.clock()
            self._network.disturbances.note(now, now + self._wait, self._process)
            self._wait = min(self._wait * 2, self._longest_wait)
            raise
        else:
            self._wait = microseconds(FIRST_WAIT)
            return answer
        finally:
            _REQUEST.reset(token)
