"""A small world for the parts of a node: a loop in virtual time, a store that can be rough, a log that is kept.

    loop time ──► the store's clock ──► a memory engine inside a rough one ──► a store
         └──────► the node's own clock, which may be wrong

Time passes when nothing else is to be done, so a test waits for an hour in no time at all. What a story leaves behind
is looked at: a task that is still pending when its story is over fails the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar

from itinerary.core.loop.events import SchedulerEvent
from itinerary.errors import StoreError, StoreUnavailable
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.registry import Registry
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.queries import ActiveQuery, DetailsQuery, HistoryQuery, JobsByNameQuery
from itinerary.model.rows import EntryKind, JobNumber, OccurrenceRow
from itinerary.model.settings import ReloadResult, Settings
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.ports import Executor
from itinerary.runtime.node import Node, NodeResult
from itinerary.schedules import ZoneData, every
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import T, Work
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.testing.virtual_loop import VirtualLoop
from tests.engines import Wrapped
from tests.simulation.world.rng import dice_for

__all__ = ["EPOCH", "Line", "Log", "Queueing", "RoughEngine", "World", "here", "played"]

EPOCH: Final = 1_774_699_200_000_000
"""Noon of a day in March: a whole minute."""
R = TypeVar("R")


class Line(NamedTuple):
    """Something that was said."""

    level: str
    event: str
    fields: dict[str, Any]


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def debug(self, event: str, **fields: Any) -> None:
        self.lines.append(Line("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(Line("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(Line("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append(Line("error", event, fields))

    def said(self, event: str) -> list[dict[str, Any]]:
        """The fields of each line with that event."""
        return [line.fields for line in self.lines if line.event == event]


class RoughEngine(Wrapped):
    """An engine that takes its time, does not answer, or answers what nobody hears."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine)
        self.is_down = False
        self.takes = 0.0
        """Seconds before a transaction, on the way there."""
        self.answers_after = 0.0
        """Seconds after a transaction, on the way back."""
        self.answers_lost = 0
        """How many of the next writes are made, and not answered."""
        self.broken_by: StoreError | None = None
        """What everything fails with, for good."""
        self.writes = 0
        self.reads = 0

    async def write(self, work: Work[T]) -> T:
        await self._go_there()
        self.writes += 1
        answer = await self.engine.write(work)
        if self.answers_lost:
            self.answers_lost -= 1
            raise StoreUnavailable("memory: its answer was lost")
        await asyncio.sleep(self.answers_after)
        return answer

    async def read(self, work: Work[T]) -> T:
        await self._go_there()
        self.reads += 1
        answer = await self.engine.read(work)
        await asyncio.sleep(self.answers_after)
        return answer

    async def _go_there(self) -> None:
        await asyncio.sleep(self.takes)
        if self.broken_by is not None:
            raise self.broken_by
        if self.is_down:
            raise StoreUnavailable("memory: is away")


async def here(function: Callable[..., Any], *arguments: Any) -> Any:
    """`elsewhere`, for a world without threads."""
    return function(*arguments)


class World:
    """Everything that a part may need."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.store_ahead = 0
        """Microseconds by which the store's clock has been set ahead."""
        self.engine = RoughEngine(MemoryEngine(self.now))
        self.store = EngineStore(self.engine)
        self.log = Log()
        self.registry = Registry()
        self.began: list[str] = []
        """What tasks have begun, in order: job, and attempt."""

    def now(self) -> int:
        """The time of the store."""
        return EPOCH + round(self.loop.time() * SECOND) + self.store_ahead

    def elapsed(self) -> int:
        """The clock of every node."""
        return round(self.loop.time() * SECOND)

    async def sleep_until(self, seconds: float) -> None:
        """Wait for a time of the loop, which begins at 0."""
        await asyncio.sleep(seconds - self.loop.time())

    async def until(self, condition: Callable[[], bool] | Callable[[], Awaitable[bool]], within: float = 60.0) -> None:
        """Wait until something is so; an error if that takes more than so many seconds of virtual time."""
        async with asyncio.timeout(within):
            while True:
                found = condition()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.01)

    # -- jobs --------------------------------------------------------------------------------------------------------

    async def register(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        schedule: Any = None,
        overrides: Overrides = NOTHING,
        from_version: int = 0,
        effective_from: int | None = None,
        tasks: Sequence[str] = ("main",),
        **rest: Any,
    ) -> JobNumber:
        """A job of one task, or of several that do the same: every minute, unless another schedule is given."""
        python = self.registry.register(function, f"world:{name}.{function.__name__}")
        listed = tuple(
            Task(id=task_id(job_id(name), task), name=task, order=order, definition={"python": python})
            for order, task in enumerate(tasks)
        )
        schedule = every("1m") if schedule is None else schedule
        definition = Definition(schedule=schedule.to_json(), tasks=listed, overrides=overrides, **rest)
        return await self.enter(name, to_json(definition).decode(), from_version, effective_from)

    async def enter(self, name: str, body: str, from_version: int = 0, effective_from: int | None = None) -> JobNumber:
        """A version of a job, whatever it says."""
        entry = TimelineEntryRequest(
            job=name,
            kind=EntryKind.VERSION,
            request=f"{name}, made from {from_version}",
            by="test",
            from_version=from_version,
            effective_from=effective_from,
            body=body,
        )
        (entered,) = await self.store.amend([entry])
        assert isinstance(entered, EntryAccepted)
        return entered.job

    def task(self, takes: float = 0.0) -> Callable[[Any], Awaitable[None]]:
        """A task that says that it has begun, and takes so many seconds."""

        async def work(ctx: Any) -> None:
            self.began.append(f"{ctx.job} {ctx.attempt}")
            await asyncio.sleep(takes)

        return work

    # -- nodes -------------------------------------------------------------------------------------------------------

    def node(
        self,
        name: str = "a",
        executor: Executor | None = None,
        knows: Callable[[Definition], bool] = lambda _: True,
        reread: Callable[[], ReloadResult] | None = None,
        awake: Callable[[], int] | None = None,
        zone_data: ZoneData | None = None,
        observer: Callable[[Sequence[SchedulerEvent]], None] = lambda _: None,
        **settings: Any,
    ) -> Node:
        """A node that has not been started."""
        return Node(
            self.store,
            name=name,
            incarnation=f"{name} {len(self.log.lines)}",
            settings=Settings(**settings),
            executor=CoroutineExecutor(self.registry, loop=self.loop) if executor is None else executor,
            log=self.log,
            observer=observer,
            knows=knows,
            reread=reread,
            zone_data=zone_data,
            elapsed=self.elapsed,
            awake=awake,
            elsewhere=here,
        )

    @asynccontextmanager
    async def running(self, node: Node) -> AsyncIterator[asyncio.Task[NodeResult]]:
        """A node that runs; afterwards it is shut down, unless it has ended by then, and must end."""
        await node.start()
        task = self.loop.create_task(node.run(), name=f"node {node.name}")
        try:
            yield task
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        if not task.done():
            node.shut_down("the story is over")
        await asyncio.wait([task])

    @asynccontextmanager
    async def dying(self, node: Node) -> AsyncIterator[None]:
        """A node that runs, and afterwards is killed: it gives nothing back, and writes nothing more."""
        await node.start()
        task = self.loop.create_task(node.run(), name=f"node {node.name}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    # -- what came of it ---------------------------------------------------------------------------------------------

    async def rows(self, name: str) -> list[OccurrenceRow]:
        """All occurrences of a job, by instant, read past whatever is rough."""
        store = EngineStore(self.engine.engine)
        job = (await store.read(JobsByNameQuery((name,))))[name].number
        ended = (await store.read(HistoryQuery(job))).rows
        return sorted([*ended, *await store.read(ActiveQuery(job))], key=lambda row: row.key)

    async def due(self, name: str) -> list[OccurrenceRow]:
        """Those of them whose time has come; what is claimed ahead is left out."""
        return [row for row in await self.rows(name) if row.due_at <= self.now()]

    async def detail(self, row: OccurrenceRow) -> Any:
        """Everything about one."""
        (detail,) = await EngineStore(self.engine.engine).read(DetailsQuery((row.ref,)))
        return detail


class Queueing(CoroutineExecutor):
    """An executor whose queue never gets shorter: what is begun is not called."""

    def __init__(self, world: World) -> None:
        super().__init__(world.registry, loop=world.loop)
        self._log = world.log

    def _launch_all(self, batch: Any) -> None:
        self._log.info("queued", count=len(batch))


def played(story: Callable[[World], Awaitable[R]], *, seed: int = 1) -> R:
    """Play a story in such a world; nothing may be left of it."""
    loop = VirtualLoop(dice_for(seed, "runtime"))

    async def told() -> R:
        world = World(loop)
        await world.store.open()
        try:
            return await story(world)
        finally:
            await world.store.close()

    try:
        came_of_it = loop.run_until_complete(told())
        left = [task.get_name() for task in asyncio.all_tasks(loop)]
        assert not left, f"left behind: {left}"
    finally:
        loop.bury()
        loop.close()
    return came_of_it
