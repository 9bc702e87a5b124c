"""One attempt as executors see it: what to run, what to tell it, and what came of it.

    Assignment ─► an executor ─► Report

An outcome is a value. That a task raised, was killed, printed ten gigabytes or returned something that is not JSON is
for the executor to turn into one; nothing that a task does comes out of an executor as an exception.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from itinerary.model.ids import AttemptId, JobId, OccurrenceId, TaskRunId, attempt_id, job_id, task_id, task_run_id
from itinerary.model.job import JsonObject
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState

__all__ = [
    "Assignment",
    "AttemptKey",
    "Ended",
    "Facts",
    "Failed",
    "Leftover",
    "Moved",
    "Outcome",
    "Report",
    "Stopped",
    "Succeeded",
    "ZoneSpan",
]


class AttemptKey(NamedTuple):
    """One try of one task of one occurrence."""

    ref: Ref
    place: int
    number: int


class ZoneSpan(msgspec.Struct, frozen=True, gc=False):
    """A time `[start, end)` with the tables that zones have in it, as `Zone.to_json` writes them, by name."""

    start: int
    end: int
    tables: dict[str, JsonObject] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a task is told about its run (X9), as plain data. Ids cost a hash each, and are made when asked for."""

    job: str
    version: int
    task: str
    node: str
    key: Key
    attempt: int
    started_at: int
    """When this attempt began."""
    last_run_at: int | None = None
    """The instant of the last occurrence of the job that started before this one."""
    window: Window | None = None
    is_recovery: bool = False
    schedule: JsonObject | None = None
    """The schedule at this version: where there is a window, its instants are read off this."""
    zones: tuple[ZoneSpan, ...] = ()
    """The window, in the zone data by which its instants were expected; UTC needs none."""

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
    """An attempt to be made: its row is written, and it may begin."""

    key: AttemptKey
    executor: str
    """Which executor is to do it; `auto` leaves that to what the task is."""
    run: JsonObject
    """What to run: a task's definition."""
    facts: Facts
    argument: object = None
    """What a hook is given in place of a context: the occurrence that starts, or the report of its end."""
    fence: int = 0
    """What the occurrence is held by: whatever outlives a node, and its adoption by another, is told apart by it."""
    has_begun: bool = False
    """Another node began it, and is gone: what that left is to be followed to its end, and not begun again."""


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """It did what it should."""

    result: str | None = None
    """What it returned, as JSON."""
    output: str | None = None
    """What it printed, of which the end is kept."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """It did not."""

    error: str
    """What a person should read: a traceback, an exit status."""
    names: tuple[str, ...] = ()
    """The exception's class and those it inherits from, to be matched with `never_retry`."""
    output: str | None = None


class Stopped(msgspec.Struct, frozen=True, gc=False):
    """It was asked to end, and has; or it was given up, and whatever it still does counts for nothing."""

    abandoned: bool = False
    output: str | None = None
    was_called: bool = True
    """False only if it is certain that its function was never called, its command not started, its request not sent."""


Outcome: TypeAlias = Succeeded | Failed | Stopped


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt is over. There is one of these for each assignment, whatever happens."""

    key: AttemptKey
    outcome: Outcome


class Moved(msgspec.Struct, frozen=True, gc=False):
    """What an attempt runs in has changed its state: a pod is being created, runs, is being ended."""

    key: AttemptKey
    state: OccurrenceState
    error: str | None = None
    """Why nothing can come of it any more, while it is not over: it is to be stopped, and has failed for this."""


class Leftover(msgspec.Struct, frozen=True, gc=False):
    """Something that an executor left behind: what an attempt ran in, and can be removed once its end is durable."""

    key: AttemptKey
    occurrence: OccurrenceId
    """Whose it is. The number of an occurrence means something in one store only."""
    handle: tuple[str, str, str]
    """What it is removed by: for a pod its namespace, name and UID."""
    is_over: bool
    """Whether it has come to its end; else it still runs, or waits to."""
    over_for: int
    """Since when, in microseconds."""


Report: TypeAlias = Ended | Moved
