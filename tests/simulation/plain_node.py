"""A node in two hundred lines, to try the simulated world on: it does what the protocol says, one thing after another.

It has no index, no inbox and no syncer. Every loop interval it claims what is due soon, starts what is due, and looks
after what lies about; each occurrence is a coroutine. It takes what others have not started from them, all the time:
two of them are worse to each other than real ones could be, and must still do no harm. What runs it takes from those
alone that are silent for long enough. What it is for is the world around it. A checker
that finds fault with something this plain is wrong itself, and a mutant of the store is caught with it too.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress

from itinerary.errors import StoreFull, StoreUnavailable
from itinerary.model.attempts import (
    Assignment,
    AttemptInfo,
    AttemptKey,
    Ended,
    Failed,
    Outcome,
    Report,
    Stopped,
    Succeeded,
)
from itinerary.model.codec import from_json, to_json
from itinerary.model.config import FrozenConfig, freeze
from itinerary.model.definition import Definition
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, EntriesQuery, JobsQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.sweeps import SweepStep
from itinerary.model.writes import ClaimRequest, Limit, OwnerWrite, Refused, Started, StartRequest, Step, TakeoverWrite
from itinerary.ports import Clock
from itinerary.schedules import from_json as schedule_from_json
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import microseconds_of
from tests.simulation.world.machines import Surroundings

__all__ = ["PlainNode", "plain_life"]

_AGAIN_AFTER = 1.0
_UNSTARTED = (OccurrenceState.PRERUN, OccurrenceState.PENDING)


class HeardClock:
    """The store's time as it was heard last, and the machine's clock since."""

    def __init__(self, machine: Clock) -> None:
        self._machine, self._ahead = machine, 0

    def handle(self, now: int) -> None:
        self._ahead = now - self._machine.elapsed()

    def now(self) -> int:
        return self._machine.elapsed() + self._ahead

    def elapsed(self) -> int:
        return self._machine.elapsed()


class PlainNode:
    """One life of it."""

    def __init__(self, around: Surroundings) -> None:
        self.store, self.name, self.incarnation = around.store, around.name, around.incarnation
        self.executor, self.clock = around.executor, HeardClock(around.clock)
        self.options, self.settings = around.options, around.options.settings
        self.number = NodeNumber(0)
        self.revision = 0
        self.definitions: dict[JobNumber, Definition] = {}
        self.names: dict[JobNumber, str] = {}
        self.instants: dict[JobNumber, list[int]] = {}
        self.waiting: dict[AttemptKey, asyncio.Future[Outcome]] = {}
        self.mine: dict[Ref, asyncio.Task[None]] = {}
        self.mail: tuple[Ref, ...] = ()
        self.heard: dict[NodeNumber, tuple[int, int]] = {}
        self.ending = asyncio.Event()

    def shut_down(self) -> None:
        self.ending.set()

    async def start(self) -> None:
        await self.executor.open(self._heard)
        self.number = await self.store.join(self.incarnation, self.name, "{}")
        self.names = {row.number: row.name for row in await self.store.read(JobsQuery())}
        for entry in await self.store.read(EntriesQuery(0)):
            if entry.kind is EntryKind.VERSION:  # zone data is as packaged in a world in which nothing changes
                self.definitions[entry.job] = from_json(Definition, entry.body or "")
            self.revision = entry.revision
        day = self.options.begins_at, self.options.begins_at + self.options.runs_for
        for number, definition in self.definitions.items():
            schedule = schedule_from_json(definition.schedule)
            self.instants[number] = [microseconds_of(at) for at in schedule.between(*day)]

    async def run(self) -> None:
        """Turn until it is asked to end; then leave what has not started, and end what runs."""
        async with asyncio.TaskGroup() as group:
            while not self.ending.is_set():
                with suppress(StoreUnavailable, StoreFull):  # the next turn tries again
                    await self._turn(group)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.ending.wait(), self.settings.loop_interval / SECOND)
            self.executor.stop(list(self.waiting))
            await asyncio.sleep(self.settings.kill_grace / SECOND)
            self.executor.kill(list(self.waiting))
            for task in self.mine.values():
                task.cancel()

    def _heard(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if isinstance(report, Ended) and not self.waiting[report.key].done():
                self.waiting[report.key].set_result(report.outcome)

    # -- one turn ----------------------------------------------------------------------------------------------------

    async def _turn(self, group: asyncio.TaskGroup) -> None:
        now = (await self.store.read(StoreStatusQuery())).now
        self.clock.handle(now)
        beat = await self.store.beat(self.number, self.mail)
        self.mail = beat.mail
        dead = self._dead(beat)
        for other in beat.nodes:
            if other.number in dead and other.left_at is None:
                await self.store.leave(other.number)
        await self._claim(now)
        await self._sweep(now)
        rows = await self.store.read(ActiveQuery())
        for row in rows:
            if row.started_at is not None and row.ref not in self.mine:
                if row.owner is None or row.owner in {self.number, *dead}:
                    await self._orphan(row)  # a dead node's; or a start of this one that came after it had given up
            elif row.started_at is None and row.status in _UNSTARTED and row.ref not in self.mine:
                self.mine[row.ref] = group.create_task(self._look_after(row))

    def _dead(self, beat: HeartbeatReply) -> set[NodeNumber]:
        """Those who have not been heard of for long enough."""
        now, timeout = self.clock.elapsed(), 4 * self.settings.node_heartbeat_interval
        for other in beat.nodes:
            counter, _ = self.heard.get(other.number, (-1, 0))
            if counter != other.counter:
                self.heard[other.number] = other.counter, now
        return {number for number, (_, since) in self.heard.items() if now - since >= timeout} - {self.number}

    def _instants(self, start: int, end: int) -> list[ClaimRequest]:
        return [
            ClaimRequest(Key(instant, number, Kind.SCHEDULED), 1, instant)
            for number, instants in self.instants.items()
            for instant in instants[bisect_left(instants, start) : bisect_left(instants, end)]
        ]

    async def _claim(self, now: int) -> None:
        ahead = self._instants(now - self.settings.grace_period, now + self.settings.pre_schedule_interval)
        await self.store.claim(self.number, self.revision, ahead)

    async def _sweep(self, now: int) -> None:
        plan = await self.store.begin_sweep(self.number, now)
        if plan is not None and plan.owner != self.number:
            plan = await self.store.begin_sweep(self.number, now, seize=plan.fence)
        if plan is not None:
            missing = tuple(self._instants(plan.start, plan.end))
            step = SweepStep(fence=plan.fence, step=plan.step + 1, cursor="", wanted=missing, is_last=True)
            await self.store.advance_sweep(self.number, self.revision, step)

    async def _orphan(self, row: OccurrenceRow) -> None:
        await self.store.intervene(
            self.number, [TakeoverWrite(row.ref, row.fence, OccurrenceState.ORPHANED, "its node is gone")]
        )

    # -- one occurrence ----------------------------------------------------------------------------------------------

    async def _look_after(self, row: OccurrenceRow) -> None:
        """From before its instant to its end."""
        try:
            while (ahead := self._until(row)) > 0:  # noqa: ASYNC110 - its clock may be set meanwhile
                await asyncio.sleep(ahead)
            started = await self._started(row)
            if started is not None:
                await self._work(row, started)
        finally:
            del self.mine[row.ref]

    def _until(self, row: OccurrenceRow) -> float:
        return (row.due_at - self.clock.now()) / SECOND

    def _config(self, row: OccurrenceRow) -> FrozenConfig:
        definition = self.definitions[row.job]
        return freeze(definition.overrides, {task.name: task.overrides for task in definition.tasks})

    async def _started(self, row: OccurrenceRow) -> Started | None:
        config = self._config(row)
        shares = [Limit(name, self.settings.limits[name]) for name in config.job.limits]
        if config.job.max_active is not None:
            shares.append(Limit(f"job/{row.job}", config.job.max_active))
        request = StartRequest(
            row.ref,
            row.fence if row.owner == self.number else None,
            row.adjustments,
            to_json(config).decode(),
            config.job.execution_timeout + self.settings.kill_grace,
            config.job.overlap if config.job.overlap is not Overlap.REPLACE else Overlap.SKIP,
            config.job.max_queued,
            tuple(shares),
            tasks=(TaskRow(row.ref, 0, self.definitions[row.job].tasks[0].name, TaskState.RUNNING),),
            attempts=(AttemptRow(row.ref, 0, 1, TaskState.RUNNING, self.clock.now()),),
            late_until=row.due_at + self.settings.late_for,
        )
        while not self.ending.is_set():
            try:
                (answer,) = await self.store.start(self.number, self.revision, [request], self.settings.takeover_after)
            except (StoreUnavailable, StoreFull):
                await asyncio.sleep(_AGAIN_AFTER)
                continue
            return answer if isinstance(answer, Started) else None
        return None

    async def _work(self, row: OccurrenceRow, started: Started) -> None:
        """Its tasks, one after the other, each of which is written before it is run."""
        definition, config, sequence = self.definitions[row.job], self._config(row), started.sequence
        end = OccurrenceState.COMPLETED
        before: tuple[tuple[TaskRow, ...], tuple[AttemptRow, ...]] = ((), ())
        for place, task in enumerate(definition.tasks):
            number, status = 0, TaskState.PENDING
            retries = config.of_task(task.name).retry.max_retries
            while status is not TaskState.SUCCESS and number <= retries:
                number += 1
                if (place, number) != (0, 1):
                    sequence += 1
                    tasks = (*before[0], TaskRow(row.ref, place, task.name, TaskState.RUNNING, number - 1))
                    attempts = (*before[1], AttemptRow(row.ref, place, number, TaskState.RUNNING, self.clock.now()))
                    if not await self._write(OwnerWrite(row.ref, started.fence, sequence, (), tasks, attempts)):
                        return
                key = AttemptKey(row.ref, place, number)
                of_task = config.of_task(task.name)
                timeout = of_task.execution_timeout if of_task.task_timeout is None else of_task.task_timeout
                outcome = await self._run(row, key, task.name, timeout)
                status = _status(outcome)
                result = outcome.result if isinstance(outcome, Succeeded) else None
                ended = AttemptRow(row.ref, place, number, status, 0, self.clock.now())
                before = ((TaskRow(row.ref, place, task.name, status, number - 1, result=result),), (ended,))
            if status is not TaskState.SUCCESS:
                end = OccurrenceState.FAILED
                break
        await self._write(OwnerWrite(row.ref, started.fence, sequence + 1, (Step(end),), *before))

    async def _run(self, row: OccurrenceRow, key: AttemptKey, task: str, wait_for: int) -> Outcome:
        facts = AttemptInfo(
            job=self.names[row.job],
            version=1,
            task=task,
            node=self.name,
            key=row.key,
            attempt=key.number,
            started_at=self.clock.now(),
        )
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.waiting[key] = future
        self.executor.begin([Assignment(key, "auto", {}, facts)])
        for give_up in (self.executor.stop, self.executor.kill):
            done, _ = await asyncio.wait([future], timeout=wait_for / SECOND)
            if done:
                break
            give_up([key])
            wait_for = self.settings.kill_grace
        outcome = await future
        del self.waiting[key]
        return outcome

    async def _write(self, change: OwnerWrite) -> bool:
        while True:
            try:
                (answer,) = await self.store.write(self.number, [change])
            except (StoreUnavailable, StoreFull):
                await asyncio.sleep(_AGAIN_AFTER)
            else:
                return not isinstance(answer, Refused)


def _status(outcome: Outcome) -> TaskState:
    match outcome:
        case Succeeded():
            return TaskState.SUCCESS
        case Failed():
            return TaskState.FAILED
        case Stopped():
            return TaskState.TIMEOUT


plain_life = PlainNode
"""How the world makes one."""
