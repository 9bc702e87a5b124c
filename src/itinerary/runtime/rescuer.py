"""The rescuer: what becomes of the work of nodes that are dead (PROTOCOL 16, 17).

A node is dead when it has said that it leaves, or when its heartbeat counter has not changed during a whole timeout on
the observer's own clock. The observation starts anew whenever the observer itself has been out of touch: else the first
node back from an outage of the store would declare all others dead.

What a dead node had not started is released, and anybody may start it. What it was running is `orphaned`: nobody knows
how far it came.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from itinerary.errors import StoreError
from itinerary.model.nodes import Beat
from itinerary.model.queries import Active, Details
from itinerary.model.rows import AttemptRow, NodeNumber, OccurrenceRow, TaskRow
from itinerary.model.settings import Settings
from itinerary.model.states import TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import Intervention
from itinerary.ports import Clock, Store
from itinerary.runtime.patience import Patience

__all__ = ["Rescuer"]

MISSES_MAX: Final = 3
"""How many heartbeats a node may miss before it is taken for dead."""
_ACTIVE_MAX: Final = 10_000


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

    def hear(self, beat: Beat) -> frozenset[NodeNumber]:
        """The answer to a heartbeat has come. Returns who is dead."""
        now = self._clock.elapsed()
        if now - self._heard_at > self._timeout // 2:
            self._seen.clear()  # it was this node that was out of touch
        self._heard_at = now
        for other in beat.nodes:
            if other.number == self._node or other.number in self._rescued:
                continue
            counter, since = self._seen.get(other.number, (-1, now))
            if counter != other.counter:
                since = now
                self._dead.pop(other.number, None)
            self._seen[other.number] = other.counter, since
            if other.left_at is not None or now - since >= self._timeout:
                self._dead[other.number] = other.name
        if self._dead:
            self._has_dead.set()
        return frozenset(self._dead) | self._rescued

    async def run(self) -> None:
        """Take from the dead, for ever."""
        patience = Patience("rescuer", self._log)
        while True:
            await self._has_dead.wait()
            self._has_dead.clear()
            for number, name in list(self._dead.items()):
                try:
                    await self._rescue(patience, number, name)
                except StoreError as error:
                    self._log.error("rescue.failed", node=name, error=str(error), hint="it is tried again")
                else:
                    self._dead.pop(number, None)
                    self._rescued.add(number)

    async def _rescue(self, patience: Patience, number: NodeNumber, name: str) -> None:
        rows = await patience.ask(lambda: self._store.read(Active(limit=_ACTIVE_MAX)), "rescue")
        theirs = [row for row in rows if row.owner == number]
        started = tuple(row.ref for row in theirs if row.started_at is not None)
        details = await patience.ask(lambda: self._store.read(Details(started)), "rescue")
        interventions = [_released(row, name) for row in theirs if row.started_at is None]
        interventions += [_orphaned(one.row, one.tasks, one.attempts, name) for one in details]
        if interventions:
            await patience.ask(lambda: self._store.intervene(self._node, interventions), "rescue")
            self._log.warning(
                "node.rescued", node=name, orphaned=len(details), released=len(interventions) - len(details)
            )
        await patience.ask(lambda: self._store.leave(number), "rescue")


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
