"""The rescuer: what becomes of the work of nodes that are dead (PROTOCOL 16, 17).

A node is dead when it has said that it leaves, or when its heartbeat counter has not changed during a whole timeout on
the observer's own clock. The observation starts anew whenever the observer itself has been out of touch: else the first
node back from an outage of the store would declare all others dead. One that was taken for dead and is heard of again
was only frozen, or cut off: what was taken from it stays taken, and it is watched like any other.

What a dead node had not started is released, and anybody may start it. What it was running is `orphaned`: nobody knows
how far it came.

A heartbeat speaks of those who left within the last hour. One that left before that, when nobody else was there, and
left work behind, is found by looking back once: at who has work, and is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from itinerary.errors import StoreError
from itinerary.model.nodes import Beat
from itinerary.model.queries import Active, Details, Nodes
from itinerary.model.rows import AttemptRow, NodeNumber, NodeRow, OccurrenceRow, TaskRow
from itinerary.model.settings import Settings
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import Intervention
from itinerary.ports import Clock, Store

__all__ = ["Rescuer"]

MISSES_MAX: Final = 3
"""How many heartbeats a node may miss before it is taken for dead."""
_ACTIVE_MAX: Final = 1_000_000
_AT_ONCE: Final = 1_000
_LOOKS: Final = 3
"""How often what a dead node has is looked at, until nothing is left."""


class Rescuer:
    """Watches the other nodes."""

    def __init__(self, store: Store, node: NodeNumber, settings: Settings, clock: Clock, log: Any) -> None:
        self._store, self._node, self._clock, self._log = store, node, clock, log
        self._timeout = settings.node_heartbeat_interval * MISSES_MAX
        self._seen: dict[NodeNumber, tuple[int, int]] = {}
        self._heard_at = clock.elapsed()
        self._dead: dict[NodeNumber, str] = {}
        self._has_dead = asyncio.Event()
        self._rescued: set[NodeNumber] = set()
        self._has_looked_back = False

    def hear(self, beat: Beat, *, was_out_of_touch: bool = False) -> frozenset[NodeNumber]:
        """The answer to a heartbeat has come. Returns who is dead."""
        now = self._clock.elapsed()
        if was_out_of_touch or now - self._heard_at > self._timeout // 2:
            self._seen = {number: (counter, now) for number, (counter, _) in self._seen.items()}
            self._dead.clear()
            self._has_looked_back = False
        self._heard_at = now
        for other in beat.nodes:
            if other.number != self._node:
                self._judge(other, now)
        if self._dead or not self._has_looked_back:
            self._has_dead.set()
        return frozenset(self._dead) | self._rescued

    def _judge(self, other: NodeRow, now: int) -> None:
        counter, since = self._seen.get(other.number, (-1, now))
        if counter != other.counter:
            since = now
            self._dead.pop(other.number, None)
            if other.left_at is None:
                self._rescued.discard(other.number)
        self._seen[other.number] = other.counter, since
        is_dead = other.left_at is not None or now - since >= self._timeout
        if is_dead and other.number not in self._rescued:
            self._dead[other.number] = other.name

    async def run(self) -> None:
        """Take from the dead, for ever. If the store does not answer, that is for the next heartbeat to begin again:
        whoever seemed dead before may be well by then."""
        while True:
            await self._has_dead.wait()
            self._has_dead.clear()
            if not self._has_looked_back:
                await self._look_back()
            for number, name in list(self._dead.items()):
                if number not in self._dead:
                    continue  # it has been heard of meanwhile
                try:
                    await self._rescue(number, name)
                except StoreError as error:
                    self._log.warning("rescue.failed", node=name, error=str(error), hint="it is tried again")
                else:
                    self._dead.pop(number, None)
                    self._rescued.add(number)

    async def _look_back(self) -> None:
        """Find who left long ago, and has work still."""
        try:
            owners = {row.owner for row in await self._store.read(Active(limit=_ACTIVE_MAX))}
            nodes = await self._store.read(Nodes())
        except StoreError as error:
            self._log.warning("rescue.failed", node=None, error=str(error), hint="it is tried again")
            return
        self._has_looked_back = True
        for node in nodes:
            if node.left_at is not None and node.number in owners and node.number != self._node:
                self._dead.setdefault(node.number, node.name)

    async def _rescue(self, number: NodeNumber, name: str) -> None:
        """Take everything from a node that is dead, then say that it is gone. What it had not started is looked at
        twice: it may have started between the first look and its release, if the node was not quite dead."""
        released = orphaned = 0
        for _ in range(_LOOKS):
            rows = await self._store.read(Active(limit=_ACTIVE_MAX))
            theirs = [row for row in rows if row.owner == number or _is_nobodys(row)]
            if not theirs:
                break
            for first in range(0, len(theirs), _AT_ONCE):
                running = await self._take(theirs[first : first + _AT_ONCE], name)
                orphaned += running
                released += len(theirs[first : first + _AT_ONCE]) - running
        if released or orphaned:
            self._log.warning("node.rescued", node=name, orphaned=orphaned, released=released)
        await self._store.leave(number)

    async def _take(self, theirs: Sequence[OccurrenceRow], name: str) -> int:
        """Take these from a node that is dead. Returns how many of them it was running."""
        details = await self._store.read(Details(tuple(row.ref for row in theirs if row.started_at is not None)))
        interventions = [_released(row, name) for row in theirs if row.started_at is None]
        interventions += [_orphaned(one.row, one.tasks, one.attempts, name) for one in details]
        await self._store.intervene(self._node, interventions)
        return len(details)


def _is_nobodys(row: OccurrenceRow) -> bool:
    """Whether it runs, and nobody has it: its node was declared dead in the very moment in which it started it."""
    return row.owner is None and row.started_at is not None and row.status is not OccurrenceState.RETRYING


def _released(row: OccurrenceRow, name: str) -> Intervention:
    return Intervention(row.ref, row.fence, None, f"node {name} is gone")


def _orphaned(
    row: OccurrenceRow, tasks: tuple[TaskRow, ...], attempts: tuple[AttemptRow, ...], name: str
) -> Intervention:
    why = f"node {name} is gone, and nobody knows how far it came"
    return Intervention(
        row.ref,
        row.fence,
        OccurrenceState.ORPHANED,
        why,
        tasks=tuple(_failed_task(task, why) for task in tasks if task.status not in TASK_FINAL),
        attempts=tuple(
            AttemptRow(row.ref, one.place, one.number, TaskState.FAILED, one.started_at, None, why, one.output)
            for one in attempts
            if one.status not in TASK_FINAL
        ),
    )


def _failed_task(task: TaskRow, why: str) -> TaskRow:
    status = TaskState.SKIPPED if task.status is TaskState.PENDING else TaskState.FAILED
    return TaskRow(task.ref, task.place, task.name, status, task.retries, None, why, task.result)
