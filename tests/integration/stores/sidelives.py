"""Stories of processes that are not killed at random: see `lives`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from itinerary.errors import StoreError, TransactionError
from itinerary.model.rows import AttemptRow, JobNumber, NodeNumber, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Claimed, OwnerWrite, Refused, Started, Step
from itinerary.stores import open_store
from itinerary.stores.engine import Work
from itinerary.stores.store import EngineStore
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.desk import Desk
from tests.integration.stores.line import Line
from tests.integration.stores.own_tables import create_effects
from tests.integration.stores.racing import race, wanted_in
from tests.integration.stores.scale import dice

__all__ = ["STORIES", "failure_of", "success_of"]

EFFECT: Final = "INSERT INTO effects VALUES ('done')"


async def racing(
    url: str, line: Line, *, node: NodeNumber, job: JobNumber, round_number: int, count: int, seed: str
) -> None:
    """One of several processes that want the same occurrences."""
    async with open_store(url) as store:
        line.say(ready=True)
        line.handle()
        line.say(won=await race(store, node, wanted_in(round_number, job, count), dice(seed)))


async def opening(url: str, line: Line) -> None:
    """Open a store, and close it again."""
    try:
        async with open_store(url):
            line.say(opened=True)
    except StoreError as error:
        line.say(unopened=f"{type(error).__name__}: {error}")


# -- a task's own transaction (D6) -----------------------------------------------------------------------------------


def success_of(started: Started) -> OwnerWrite:
    """The success of an occurrence's one task, and its end."""
    return OwnerWrite(
        started.ref,
        started.fence,
        started.sequence + 1,
        steps=(Step(OccurrenceState.COMPLETED),),
        tasks=(TaskRow(started.ref, 0, "main", TaskState.SUCCESS),),
        attempts=(AttemptRow(started.ref, 0, 1, TaskState.SUCCESS, 1, 2),),
    )


def failure_of(started: Started) -> OwnerWrite:
    """What is written in its place where the commit did not happen."""
    return OwnerWrite(
        started.ref,
        started.fence,
        started.sequence + 1,
        attempts=(AttemptRow(started.ref, 0, 1, TaskState.FAILED, 1, 2, "the commit did not happen"),),
    )


async def task(url: str, line: Line, *, stop: str) -> None:
    """A task with a transaction, which comes to a stop at one place of it, and is killed there."""
    store = open_store(url)
    if stop == "after the end":
        _stop_after_the_end(store, line)
    async with store:
        desk = Desk(store, store._engine)
        node = await desk.node("task")
        started = await desk.run(node, await desk.job())
        create_effects(url)
        async with store.transaction(node, success_of(started), failure_of(started), timeout=3_600) as transaction:
            await transaction.execute(EFFECT)
            if stop == "before the end":
                line.say(stopped=True)
                line.handle()
        line.say(committed=True)


def _stop_after_the_end(store: EngineStore, line: Line) -> None:
    """Have the store's engine wait where a task's statements and its success are written, and COMMIT is not said."""
    transaction = store._engine.transaction

    def stopping(end: Work[None], *, timeout: float) -> Any:
        def end_and_stop(tx: Transaction) -> None:
            end(tx)
            line.say(stopped=True)
            line.handle()

        return transaction(end_and_stop, timeout=timeout)

    store._engine.transaction = stopping  # type: ignore[method-assign]


# -- a node that is frozen -------------------------------------------------------------------------------------------


async def frozen(url: str, line: Line) -> None:
    """A node that holds work, stands still for a while, and then goes on as if nothing had happened."""
    async with open_store(url) as store:
        desk = Desk(store, store._engine)
        node = await desk.node("frozen")
        jobs = [await desk.job(name) for name in ("unstarted", "launches", "writes", "ends", "commits")]
        unstarted = await desk.due(node, jobs[0])
        running = [await desk.run(node, job) for job in jobs[1:]]
        line.say(holds=[unstarted.ref, *(one.ref for one in running)])
        await asyncio.to_thread(line.handle)
        line.say(answers=await _proceed(desk, node, unstarted, running))


async def _proceed(desk: Desk, node: NodeNumber, unstarted: Claimed, running: list[Started]) -> dict[str, str]:
    launches, writes, ends, commits = running
    retry = AttemptRow(launches.ref, 0, 2, TaskState.RUNNING, 3)
    progress = TaskRow(writes.ref, 0, "main", TaskState.RUNNING)
    (start,) = await desk.start(node, unstarted)
    changes = [
        OwnerWrite(launches.ref, launches.fence, launches.sequence + 1, attempts=(retry,)),
        OwnerWrite(writes.ref, writes.fence, writes.sequence + 1, tasks=(progress,)),
        desk.end(ends),
    ]
    answers = [start, *await desk.store.write(node, changes)]
    said = {
        name: answer.why.value if isinstance(answer, Refused) else repr(answer)
        for name, answer in zip(("start", "launch", "write", "end"), answers, strict=True)
    }
    try:
        async with desk.store.transaction(node, success_of(commits), failure_of(commits), timeout=60) as transaction:
            await transaction.execute(EFFECT)
        said["commit"] = "committed"
    except TransactionError:
        said["commit"] = "lost"
    return said


STORIES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "race": racing,
    "open": opening,
    "task": task,
    "frozen": frozen,
}
