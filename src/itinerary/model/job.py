"""A job and its tasks, as they are stored (D2).

A stored job holds definitions and nothing that runs. The schedule is its own JSON. The work of a task is JSON, too
(`{"python": "package.module:function"}`, `{"shell": ["gzip", "out.csv"]}`). Overrides contain only what was set. No
code is ever stored (D9): a name is looked up when the task starts. A job with a name that cannot be resolved is
quarantined, not lost.

A change of a job creates its next version. An occurrence that runs keeps the version with which it started.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from itinerary.errors import IdentityError
from itinerary.model.ids import JobId, TaskId, job_id, task_id
from itinerary.model.overrides import NOTHING, Overrides

__all__ = ["Job", "JsonObject", "Task", "new_job"]

JsonObject: TypeAlias = Mapping[str, Any]
"""Plain data that JSON can hold. Read it, do not change it."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A unit of work in a job."""

    id: TaskId
    name: str
    order: int
    """The place in the job, from 0."""
    definition: JsonObject
    """The work to do."""
    overrides: Overrides = NOTHING

    @property
    def outlives_its_node(self) -> bool:
        """True if its work continues without the node that started it: a pod, which another node can adopt (K4)."""
        return "pod" in self.definition


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A schedule, a configuration, and an ordered list of tasks, at one version."""

    id: JobId
    name: str
    version: int = 1
    active: bool = True
    """False if the job is stopped, finished or removed: no further occurrences are expected."""
    paused: bool = False
    """The present status. The timeline of the job has the instants that a pause covered."""
    last_run_at: int | None = None
    """The instant of the last occurrence that started."""
    schedule: JsonObject
    overrides: Overrides = NOTHING
    tasks: tuple[Task, ...] = ()

    def task(self, name: str) -> Task | None:
        """Return the task of that name, or None."""
        return next((task for task in self.tasks if task.name == name), None)

    def with_task(self, name: str, definition: JsonObject, overrides: Overrides = NOTHING) -> "Job":
        """Return the job with one more task at the end.

        Raises:
            IdentityError: The job already has a task of that name.
        """
        if self.task(name) is not None:
            raise IdentityError(f"job {self.name!r} already has a task {name!r}; give this one another name")
        order = max((task.order for task in self.tasks), default=-1) + 1
        task = Task(id=task_id(self.id, name), name=name, order=order, definition=definition, overrides=overrides)
        return msgspec.structs.replace(self, tasks=(*self.tasks, task))


def new_job(name: str, schedule: JsonObject, overrides: Overrides = NOTHING) -> Job:
    """Return the first version of a job, without tasks."""
    return Job(id=job_id(name), name=name, schedule=schedule, overrides=overrides)
