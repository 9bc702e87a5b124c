"""A node as a program has it: a real loop, a SQLite file, all executors. And a job each second that must go on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from itinerary.executors.registry import Registry
from itinerary.executors.router import ExecutorOptions, standard_router
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, Detail, DetailsQuery, HistoryQuery, JobsByNameQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.ports import Store
from itinerary.runtime.node import Node, NodeResult
from itinerary.schedules import every, once
from itinerary.schedules.durations import SECOND
from itinerary.stores.urls import open_store
from tests.integration.runtime import hostile
from tests.unit.runtime.world import Log

__all__ = ["PATIENCE", "TICK", "Scene", "is_alive", "on_stage", "playing"]

PATIENCE: Final = 60.0
"""Seconds after which something has hung. Nothing is measured by it."""
TICK: Final = "tick"


class Scene:
    """A store, a node, and what is asked of them."""

    def __init__(self, store: Store, flag: Path, log: Log) -> None:
        self.store, self.flag, self.log = store, flag, log
        self.registry = Registry([hostile.MODULE])
        self._entries: list[TimelineEntryRequest] = []

    # -- jobs --------------------------------------------------------------------------------------------------------

    def job(
        self,
        name: str,
        run: Mapping[str, Any] | str,
        schedule: Any,
        overrides: Overrides = NOTHING,
        *,
        hooks: Sequence[str] = (),
    ) -> None:
        """A job of one task: a function of the hostile module by its name, or a definition."""
        definition = {"python": f"{hostile.MODULE}:{run}"} if isinstance(run, str) else run
        task = Task(id=task_id(job_id(name), "main"), name="main", order=0, definition=definition)
        named = tuple(f"{hostile.MODULE}:{hook}" for hook in hooks)
        body = Definition(
            schedule=schedule.to_json(), tasks=(task,), overrides=overrides, on_start=named, on_complete=named
        )
        self._entries.append(
            TimelineEntryRequest(
                job=name,
                kind=EntryKind.VERSION,
                request=name,
                by="test",
                from_version=0,
                body=to_json(body).decode(),
            )
        )

    async def register(self) -> None:
        """All of them, and the one that ticks, at once."""
        self.job(TICK, "tick", every("1s"), Overrides(overlap=Overlap.ALLOW))
        for entered in await self.store.amend(self._entries):
            assert isinstance(entered, EntryAccepted)

    async def soon(self, seconds: int = 2) -> Any:
        """Once, so many seconds from now."""
        now = (await self.store.read(StoreStatusQuery())).now
        return once(datetime.fromtimestamp(now // SECOND + seconds, UTC))

    # -- what came of it ---------------------------------------------------------------------------------------------

    async def rows(self, name: str) -> list[OccurrenceRow]:
        """All of a job's occurrences whose time has come, by instant."""
        job = (await self.store.read(JobsByNameQuery((name,))))[name].number
        now = (await self.store.read(StoreStatusQuery())).now
        found = [*(await self.store.read(HistoryQuery(job))).rows, *await self.store.read(ActiveQuery(job))]
        return sorted((row for row in found if row.due_at <= now), key=lambda row: row.key)

    async def the_one(self, name: str) -> OccurrenceRow | None:
        rows = await self.rows(name)
        assert len(rows) <= 1, "it is due once"
        return rows[0] if rows else None

    async def detail(self, name: str) -> Detail:
        row = await self.the_one(name)
        assert row is not None
        (detail,) = await self.store.read(DetailsQuery((row.ref,)))
        return detail

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not await condition():  # noqa: ASYNC110 - rows change, and nobody says so
                await asyncio.sleep(0.05)

    async def ended(self, *names: str) -> None:
        """Wait until the one occurrence of each of these has ended."""

        async def is_over() -> bool:
            rows = [await self.the_one(name) for name in names]
            return all(row is not None and row.ended_at is not None for row in rows)

        await self.until(is_over)


@asynccontextmanager
async def playing(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene whose jobs are declared in the body; see `on_stage` for the node."""
    flag = tmp_path / "flag"
    flag.touch()
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    await store.open()
    try:
        yield Scene(store, flag, Log())
    finally:
        flag.unlink(missing_ok=True)
        await store.close()


@asynccontextmanager
async def on_stage(scene: Scene, **settings: Any) -> AsyncIterator[Node]:
    """A node that runs them; afterwards it must end, and nothing may be left of it."""
    before = set(threading.enumerate())
    router, coroutines = standard_router(scene.registry, ExecutorOptions(workers_max=2))
    node = Node(
        scene.store,
        name=str(scene.flag),
        incarnation=uuid4().hex,
        settings=Settings(kill_grace=SECOND, **settings),
        executor=router,
        log=scene.log,
        blocked_for=coroutines.blocked_for,
    )
    await node.start()
    run: asyncio.Task[NodeResult] = asyncio.create_task(node.run())
    try:
        yield node
    finally:
        scene.flag.unlink(missing_ok=True)  # what ignores everything ends now
        node.shut_down("the story is over")
        async with asyncio.timeout(PATIENCE):
            ended = await run
    assert ended == NodeResult(0, None)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("itinerary"):
            await asyncio.to_thread(thread.join, PATIENCE)
            assert not thread.is_alive(), f"{thread.name} is left behind"


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that is dead and not yet reaped is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
