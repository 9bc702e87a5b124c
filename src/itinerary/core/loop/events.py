"""What a node tells whoever wants to watch: what began, what was tried, what came of it, and how busy it is.

    Began, Tried, Finished     the life of an occurrence that runs here
    Settled                    what somebody else ended: the sweep, the reaper, the rescuer
    Counted                    how much is in hand, once in each `loop_interval`
    FellBehind                 the node cannot keep up, or does so again

Nothing depends on it. What is durable is in the store; this is for a terminal, for metrics and alerts, and for those in
the same program who wait for an occurrence to end.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from itinerary.model.overload import Behind
from itinerary.model.policies import Recovery
from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState, TaskState

__all__ = ["Began", "Counted", "FellBehind", "Finished", "News", "Settled", "Tried"]


class Began(msgspec.Struct, frozen=True, gc=False):
    """An occurrence has started here: that is durable."""

    ref: Ref
    key: Key
    job: str
    due_at: int
    started_at: int
    recovery: Recovery | None = None
    """The strategy of its job, if it makes up for an instant that was missed."""


class Tried(msgspec.Struct, frozen=True, gc=False):
    """An attempt of a task has ended here; that is being written."""

    job: str
    task: str
    status: TaskState
    started_at: int | None
    ended_at: int


class Finished(msgspec.Struct, frozen=True, gc=False):
    """An occurrence has ended here, or was found to be skipped or cancelled by its start: that is durable."""

    ref: Ref
    key: Key
    job: str
    outcome: OccurrenceState
    started_at: int | None
    ended_at: int
    why: str | None = None
    due_at: int | None = None
    attempts: int = 0
    """How many attempts its task took; of several tasks, the most."""


class Settled(msgspec.Struct, frozen=True, gc=False):
    """Instants that were decided, or an occurrence that was ended, by somebody who did not run it: that is durable."""

    key: Key
    job: str
    outcome: OccurrenceState
    why: str | None = None
    count: int = 1
    """How many instants it answers for."""


class Counted(msgspec.Struct, frozen=True, gc=False):
    """How much the loop has in hand."""

    running: int
    """Occurrences that hold a slot of this node."""
    retrying: int
    """Occurrences that have begun and wait: to be tried again, for a requirement, for a share of a limit."""


class FellBehind(msgspec.Struct, frozen=True, gc=False):
    """The node cannot keep up with what is due: said every few seconds while it lasts, and None at its end."""

    behind: Behind | None


News: TypeAlias = Began | Tried | Finished | Settled | Counted | FellBehind
