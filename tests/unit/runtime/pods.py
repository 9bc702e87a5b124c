"""Pods for nodes in virtual time: a cluster that goes on whatever becomes of its nodes, and executors that reach it.

It does what a cluster does, as far as nodes can tell: pods are known by name, outlive who made them, end by themselves
and stay to be looked at. It counts how often each was made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from itinerary.model.attempts import (
    Assignment,
    AttemptKey,
    Ended,
    Failed,
    Outcome,
    PodMoved,
    Report,
    Stopped,
    Succeeded,
)
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition, Requirement
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import Overrides
from itinerary.model.states import OccurrenceState
from itinerary.model.task import Task
from itinerary.schedules import every
from tests.unit.runtime.world import World

POD = {"pod": {"image": "local/work:1"}}


class Pod:
    """One of them."""

    def __init__(self) -> None:
        self.state = OccurrenceState.CONTAINER_CREATING
        self.outcome: Outcome | None = None
        self.fence = 0
        self.is_followed_by: ClusterExecutor | None = None


class VirtualCluster:
    """All pods, by name."""

    def __init__(self, creating: float = 1.0, takes: float = 10.0) -> None:
        self.creating, self.takes = creating, takes
        self.pods: dict[str, Pod] = {}
        self.made: Counter[str] = Counter()
        self.deleted: list[str] = []
        self.trouble: str | None = None

    def make(self, name: str) -> None:
        self.made[name] += 1
        self.pods[name] = Pod()
        if self.trouble is None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.creating, self._move, name)
            loop.call_later(self.creating + self.takes, self._finish, name)

    def delete(self, name: str) -> None:
        self.deleted.append(name)
        pod = self.pods.pop(name)
        if pod.is_followed_by is not None:
            pod.is_followed_by.over(name, None)

    def _move(self, name: str) -> None:
        if (pod := self.pods.get(name)) is not None:
            pod.state = OccurrenceState.RUNNING
            if pod.is_followed_by is not None:
                pod.is_followed_by.moved(name, pod.state)

    def _finish(self, name: str) -> None:
        if (pod := self.pods.get(name)) is not None:
            pod.outcome = Succeeded()
            if pod.is_followed_by is not None:
                pod.is_followed_by.over(name, pod.outcome)


class ClusterExecutor:
    """One node's way to the cluster; what is no pod it lets another executor run."""

    def __init__(
        self,
        cluster: VirtualCluster,
        others: Any,
        *,
        is_cut_off: bool = False,
        on_stop: Callable[[], object] = lambda: None,
    ) -> None:
        self.cluster, self.others, self.is_cut_off, self.on_stop = cluster, others, is_cut_off, on_stop
        self.mine: dict[str, Assignment] = {}
        self.stopped: list[AttemptKey] = []

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self.report = report
        await self.others.open(report)

    async def close(self) -> None:
        for name in list(self.mine):
            self._let_go(name)
        await self.others.close()

    def begin(self, assignments: Sequence[Assignment]) -> None:
        self.others.begin([one for one in assignments if "pod" not in one.run])
        for assignment in assignments:
            if "pod" in assignment.run and not self.is_cut_off:
                self._begin(assignment)

    def _begin(self, assignment: Assignment) -> None:
        name = str(assignment.facts.attempt_id)
        if name not in self.cluster.pods:
            if assignment.has_begun:
                self.report([Ended(assignment.key, Failed("its pod was deleted"))])
                return
            self.cluster.make(name)
        pod = self.cluster.pods[name]
        assert assignment.fence > pod.fence, "who follows a pod has a higher fence than who did before"
        pod.fence, pod.is_followed_by, self.mine[name] = assignment.fence, self, assignment
        if pod.outcome is not None:
            self.over(name, pod.outcome)
        else:
            self.moved(name, pod.state)

    def moved(self, name: str, state: OccurrenceState) -> None:
        self.report([PodMoved(self.mine[name].key, state, self.cluster.trouble)])

    def over(self, name: str, outcome: Outcome | None) -> None:
        assignment = self.mine.pop(name)
        outcome = outcome or (Stopped() if assignment.key in self.stopped else Failed("its pod was deleted"))
        self.report([Ended(assignment.key, outcome)])

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        self.others.stop(attempts)
        for name, assignment in list(self.mine.items()):
            if assignment.key in attempts:
                self.stopped.append(assignment.key)
                self.on_stop()
                asyncio.get_running_loop().call_later(1.0, self.cluster.delete, name)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        self.others.kill(attempts)
        for name, assignment in list(self.mine.items()):
            if assignment.key in attempts:
                self._let_go(name)

    def _let_go(self, name: str) -> None:
        self.mine.pop(name)
        if name in self.cluster.pods:
            self.cluster.pods[name].is_followed_by = None


async def register_pods(
    world: World, *tasks: tuple[str, dict[str, Any]], requires: tuple[Requirement, ...] = (), **overrides: Any
) -> None:
    """A job, due once, ten seconds after the world began; of one pod, or of these tasks."""
    listed = tuple(
        Task(id=task_id(job_id("job"), name), name=name, order=order, definition=definition)
        for order, (name, definition) in enumerate(tasks or (("main", POD),))
    )
    schedule = every("24h", start="2026-03-28T12:00:10Z").to_json()
    definition = Definition(schedule=schedule, tasks=listed, overrides=Overrides(**overrides), requires=requires)
    await world.enter("job", to_json(definition).decode())
