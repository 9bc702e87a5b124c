"""A job and its tasks, as they are stored (D2).

Both hold definitions and nothing that runs: the schedule as its own JSON, what a task does as JSON (`{"python":
"package.module:function"}`, `{"shell": ["gzip", "out.csv"]}`), and overrides with only what was set. No code is ever
stored (D9): a name is looked up when the task starts, and a job whose name leads nowhere is quarantined, not lost.

A job changes by becoming its next version. What runs keeps the version it started with.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from itinerary.errors import IdentityError
from itinerary.model.ids import JobId, TaskId, job_id, task_id
from itinerary.model.overrides import NOTHING, Overrides

__all__ = ["Job", "JsonObject", "Task", "new_job"]

JsonObject: TypeAlias = Mapping[str, Any]
"""Plain data that JSON can hold, to be read and not changed."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One unit of work in a job."""

    id: TaskId
    name: str
    order: int
    """Its place in the job, from 0."""
    definition: JsonObject
    """What it runs."""
    overrides: Overrides = NOTHING

    @property
    def outlives_its_node(self) -> bool:
        """Whether what it runs goes on without the node that began it: a pod, which another node can adopt (K4)."""
        return "pod" in self.definition


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A schedule, a configuration, and an ordered list of tasks, at one version."""

    id: JobId
    name: str
    version: int = 1
    active: bool = True
    """False once it is stopped, finished or removed: nothing is expected of it."""
    paused: bool = False
    """As of now. Which instants a pause covered is on the job's timeline."""
    last_run_at: int | None = None
    """The instant of the last occurrence that started."""
    schedule: JsonObject
    overrides: Overrides = NOTHING
    tasks: tuple[Task, ...] = ()

    def task(self, name: str) -> Task | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)

    def with_task(self, name: str, definition: JsonObject, overrides: Overrides = NOTHING) -> "Job":
        """The job with one more task, at the end."""
        if self.task(name) is not None:
            raise IdentityError(f"job {self.name!r} already has a task {name!r}; give this one another name")
        order = max((task.order for task in self.tasks), default=-1) + 1
        task = Task(id=task_id(self.id, name), name=name, order=order, definition=definition, overrides=overrides)
        return msgspec.structs.replace(self, tasks=(*self.tasks, task))


def new_job(name: str, schedule: JsonObject, overrides: Overrides = NOTHING) -> Job:
    """The first version of a job, without tasks as yet."""
    return Job(id=job_id(name), name=name, schedule=schedule, overrides=overrides)
