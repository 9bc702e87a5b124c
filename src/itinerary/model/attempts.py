"""An attempt as executors see it: what to run, with which facts, and the outcome.

    Assignment ─► an executor ─► Report

An outcome is a value. A task may raise, be killed, print ten gigabytes or return something that is not JSON. The
executor turns each of these into an outcome. No failure of a task leaves an executor as an exception.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from itinerary.model.ids import AttemptId, JobId, OccurrenceId, TaskRunId, attempt_id, job_id, task_id, task_run_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.task import JsonObject

__all__ = [
    "Assignment",
    "AttemptInfo",
    "AttemptKey",
    "Ended",
    "Failed",
    "Leftover",
    "Outcome",
    "PodMoved",
    "Report",
    "Stopped",
    "Succeeded",
    "ZoneSpan",
]


class AttemptKey(NamedTuple):
    """The key of an attempt: the occurrence, the place of the task in its job, the number of the attempt."""

    ref: Ref
    place: int
    number: int


class ZoneSpan(msgspec.Struct, frozen=True, gc=False):
    """A time range `[start, end)` with the zone tables that apply in it, by name, as `Zone.to_json` writes them."""

    start: int
    end: int
    tables: dict[str, JsonObject] = {}


class AttemptInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts about its run that a task receives (X9), as plain data.

    The ids are computed on access: each costs a hash.
    """

    job: str
    version: int
    task: str
    node: str
    key: Key
    attempt: int
    started_at: int
    """The start of this attempt."""
    last_run_at: int | None = None
    """The instant of the last occurrence of the job that started before this one."""
    window: Window | None = None
    is_recovery: bool = False
    schedule: JsonObject | None = None
    """The schedule at this version. The instants of the window are computed from it."""
    zones: tuple[ZoneSpan, ...] = ()
    """The zone data by which the instants of the window were expected. UTC needs none."""

    @property
    def is_replay(self) -> bool:
        return self.key.kind is Kind.REPLAY

    @property
    def job_id(self) -> JobId:
        return job_id(self.job)

    @property
    def occurrence_id(self) -> OccurrenceId:
        return self.key.id(self.job_id)

    @property
    def task_run_id(self) -> TaskRunId:
        return task_run_id(self.occurrence_id, task_id(self.job_id, self.task))

    @property
    def attempt_id(self) -> AttemptId:
        return attempt_id(self.task_run_id, self.attempt)


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """An attempt to be made. Its row is written, so it may start."""

    key: AttemptKey
    executor: str
    """The executor to use. `auto` chooses it by the kind of the task."""
    run: JsonObject
    """The definition of the task."""
    facts: AttemptInfo
    argument: object = None
    """The argument of a hook, in place of a context: the occurrence that starts, or the report of its end."""
    fence: int = 0
    """The fence that the owner holds. This fence distinguishes work that outlives its node from the same work adopted
    by another node."""
    has_begun: bool = False
    """True if a lost node already started the attempt. The executor follows that work to its end and does not start it
    again."""


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The attempt succeeded."""

    result: str | None = None
    """The returned value, as JSON."""
    output: str | None = None
    """The captured output. Only its end is kept."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed."""

    error: str
    """The text that people read: a traceback, an exit status."""
    names: tuple[str, ...] = ()
    """The exception's class and its base classes, to be matched with `never_retry`."""
    output: str | None = None


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """The attempt ended on request, or was abandoned. Nothing that an abandoned attempt still does has an effect."""

    abandoned: bool = False
    output: str | None = None
    was_called: bool = True
    """False only if it is certain that the function was not called, the command not started or the request not sent."""


Outcome: TypeAlias = Succeeded | Failed | Stopped


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The end of an attempt. Every assignment gets exactly one, in all cases."""

    key: AttemptKey
    outcome: Outcome


class PodMoved(msgspec.Struct, frozen=True, gc=False):
    """A state change of the pod in which an attempt runs: being created, running, terminating."""

    key: AttemptKey
    state: OccurrenceState
    error: str | None = None
    """The reason why the attempt can no longer succeed although it has not ended. The attempt is stopped and fails with
    this error."""


class Leftover(msgspec.Struct, frozen=True, gc=False):
    """A resource in which an attempt ran, and that remains. Removable as soon as the end of the attempt is durable."""

    key: AttemptKey
    occurrence: OccurrenceId
    """The occurrence that it belongs to. A `Ref` identifies an occurrence in one store only."""
    handle: tuple[str, str, str]
    """The handle to remove it by. For a pod: namespace, name and UID."""
    is_over: bool
    """True if it has ended. Otherwise it runs or waits to run."""
    over_for: int
    """The time since its end, in microseconds."""


Report: TypeAlias = Ended | PodMoved
