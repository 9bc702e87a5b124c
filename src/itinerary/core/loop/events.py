"""Events that a node publishes to observers: starts, attempts, ends, and load.

    Began, Tried, Finished     the life of an occurrence that runs here
    Settled                    a decision of another component: the sweep, the reaper, the rescuer
    Counted                    the current load, once in each `loop_interval`
    FellBehind                 the node cannot keep up, or keeps up again

No decision depends on events, and the durable facts are in the store. Events are for terminals, metrics and alerts, and
for callers in the same process that wait for an occurrence to end.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from itinerary.model.overload import OverloadExtent
from itinerary.model.policies import Recovery
from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState, TaskState

__all__ = [
    "AttemptEnded",
    "FellBehind",
    "LoadSampled",
    "OccurrenceDecided",
    "OccurrenceEnded",
    "OccurrenceStarted",
    "SchedulerEvent",
]


class OccurrenceStarted(msgspec.Struct, frozen=True, gc=False):
    """The durable start of an occurrence on this node."""

    ref: Ref
    key: Key
    job: str
    due_at: int
    started_at: int
    recovery: Recovery | None = None
    """The recovery strategy of the job, if the occurrence makes up for a missed instant."""


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """The end of an attempt on this node. Its write is in progress."""

    job: str
    task: str
    status: TaskState
    started_at: int | None
    ended_at: int


class OccurrenceEnded(msgspec.Struct, frozen=True, gc=False):
    """The durable end of an occurrence on this node. Its start may have found it skipped or cancelled."""

    ref: Ref
    key: Key
    job: str
    outcome: OccurrenceState
    started_at: int | None
    ended_at: int
    why: str | None = None
    due_at: int | None = None
    attempts: int = 0
    """The number of attempts of its task; with several tasks, the highest number."""


class OccurrenceDecided(msgspec.Struct, frozen=True, gc=False):
    """A durable decision about instants, or the durable end of an occurrence, by a component that did not run it."""

    key: Key
    job: str
    outcome: OccurrenceState
    why: str | None = None
    count: int = 1
    """The number of instants that the decision covers."""


class LoadSampled(msgspec.Struct, frozen=True, gc=False):
    """The current load of the loop."""

    running: int
    """The number of occurrences that hold a slot of this node."""
    retrying: int
    """The number of occurrences that have begun and wait: for a retry, a requirement, or a share of a limit."""


class FellBehind(msgspec.Struct, frozen=True, gc=False):
    """The overload of a node that cannot keep up with due runs.

    Published every few seconds while the overload lasts, and with None at its end.
    """

    behind: OverloadExtent | None


SchedulerEvent: TypeAlias = (
    OccurrenceStarted | AttemptEnded | OccurrenceEnded | OccurrenceDecided | LoadSampled | FellBehind
)
