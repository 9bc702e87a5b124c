"""The states of an occurrence, and the one table that says how each is entered and left.

    created ─► prerun ─► pending ─► (condition ⇄ action) ─► container_creating ─► running ─► terminating ─► completed
                 │        ▲   ▲                                                     │
                 └► queued┘   └──────────────────── retrying ◄──────────────────────┘

    instead of running: skipped, missed          instead of completed: completed_with_errors, failed_stale
    from everywhere that is not final: failed, cancelled, orphaned

What can go wrong is a state that changes behind the table's back: a late result that revives an orphan, a second
cancel, a queued occurrence that is started twice. So nobody assigns a state. `advance(current, new)` is the only way to
the next one, and it refuses what the table does not hold.

Final states are never left, with one exception. An update (R7) cancels the instants that it removes, and a later
version that has them again must be able to bring them back: `cancelled` goes to `prerun`, and only when the update
itself asks (`by_update=True`). That it was an update that cancelled this one, before it started, is for the update to
check: what a person cancelled stays cancelled.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from itinerary.errors import IllegalTransition

__all__ = [
    "CREATED_AS",
    "FINAL",
    "TASK_FINAL",
    "TRANSITIONS",
    "OccurrenceState",
    "TaskState",
    "advance",
    "mermaid",
    "shown_state",
]


class OccurrenceState(StrEnum):
    """Where an occurrence is."""

    PRERUN = "prerun"
    """Claimed ahead of its instant; takes configuration updates and cancellation."""
    QUEUED = "queued"
    """Its job is still running, and it waits for its turn; owned by nobody."""
    PENDING = "pending"
    """Due, and waiting for a slot or a limit; also before each retry."""
    CONDITION_PENDING = "condition_pending"
    """Its conditions will be checked, now or again after a wait."""
    CONDITION_RUNNING = "condition_running"
    """Its conditions are being checked."""
    ACTION_PENDING = "action_pending"
    """A condition is unmet, and what to do about it will be done."""
    ACTION_RUNNING = "action_running"
    """What to do about the unmet condition is being done."""
    CONTAINER_CREATING = "container_creating"
    """A pod is on its way."""
    RUNNING = "running"
    """A task runs, or the next one is about to."""
    TERMINATING = "terminating"
    """The last of its work is being ended."""
    RETRYING = "retrying"
    """An attempt failed, and the next one waits for its time."""

    COMPLETED = "completed"
    """Every task succeeded."""
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    """Every task had its turn, and some failed."""
    FAILED = "failed"
    """A task failed for good, or its execution timeout passed."""
    FAILED_STALE = "failed_stale"
    """It overran its execution timeout, nobody ended it, and the reaper did."""
    CANCELLED = "cancelled"
    """A person, a shutdown, a replacement or an update ended it."""
    ORPHANED = "orphaned"
    """Its node died, or went silent, while it ran."""
    SKIPPED = "skipped"
    """It was decided that it should not run: overlap, pause, condition."""
    MISSED = "missed"
    """Nobody was there at its instant, and its job's recovery strategy does not run it later."""


class TaskState(StrEnum):
    """Where a task run is, or an attempt. Only a task run can be `skipped`."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


def _transitions() -> Mapping[OccurrenceState, frozenset[OccurrenceState]]:
    s = OccurrenceState
    written = {
        s.PRERUN: {s.PENDING, s.QUEUED, s.SKIPPED, s.MISSED},
        s.QUEUED: {s.PENDING, s.SKIPPED},
        s.PENDING: {s.CONDITION_PENDING, s.CONTAINER_CREATING, s.RUNNING, s.QUEUED},
        s.CONDITION_PENDING: {s.CONDITION_RUNNING},
        s.CONDITION_RUNNING: {s.ACTION_PENDING, s.CONTAINER_CREATING, s.RUNNING},
        s.ACTION_PENDING: {s.ACTION_RUNNING},
        s.ACTION_RUNNING: {s.CONDITION_PENDING, s.CONTAINER_CREATING, s.RUNNING, s.SKIPPED},
        s.CONTAINER_CREATING: {s.RUNNING, s.TERMINATING, s.RETRYING},
        s.RUNNING: {
            s.CONTAINER_CREATING,
            s.TERMINATING,
            s.RETRYING,
            s.COMPLETED,
            s.COMPLETED_WITH_ERRORS,
            s.FAILED_STALE,
        },
        s.TERMINATING: {s.COMPLETED, s.COMPLETED_WITH_ERRORS, s.RETRYING, s.FAILED_STALE},
        s.RETRYING: {s.PENDING},
    }
    everywhere = {s.FAILED, s.CANCELLED, s.ORPHANED}
    return MappingProxyType({state: frozenset(written[state] | everywhere if state in written else ()) for state in s})


CREATED_AS: Final = frozenset(
    {OccurrenceState.PRERUN, OccurrenceState.QUEUED, OccurrenceState.SKIPPED, OccurrenceState.MISSED}
)
"""The states in which a row may come into being."""

TRANSITIONS: Final = _transitions()
"""From each state, the states that may follow; nothing follows a final one."""

FINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
"""The states that are never left, but for `cancelled` by an update."""

TASK_FINAL: Final = frozenset(TaskState) - {TaskState.PENDING, TaskState.RUNNING}
"""The states in which a task run or an attempt ends."""

_RESTORED_BY_UPDATE: Final = (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)


def advance(current: OccurrenceState | None, new: OccurrenceState, *, by_update: bool = False) -> OccurrenceState:
    """The new state, if the table allows it; `current` is None for a row that does not exist yet."""
    allowed = CREATED_AS if current is None else TRANSITIONS[current]
    if new in allowed or (by_update and (current, new) == _RESTORED_BY_UPDATE):
        return new
    if current is None:
        raise IllegalTransition(f"an occurrence cannot be created as {new}; allowed: {_listed(allowed)}")
    if current in FINAL:
        raise IllegalTransition(f"an occurrence cannot go from {current} to {new}: {current} is final")
    raise IllegalTransition(f"an occurrence cannot go from {current} to {new}; allowed: {_listed(allowed)}")


def shown_state(in_flight: Iterable[OccurrenceState], *, more: bool) -> OccurrenceState:
    """What an occurrence of several tasks shows (O8), from the state of each task that has begun and not ended.

    `running` if any runs, else `container_creating` if any is being created, else `retrying`. `more` says that tasks
    are still to begin: then it goes on `running` between two of them, and while the pod of one is being ended, because
    `terminating` leads to the end and not back. A task keeps `retrying` until its next attempt begins; the occurrence
    passes through `pending` on its way from there.
    """
    states = frozenset(in_flight)
    if strange := states.difference(_BY_PRECEDENCE):
        raise IllegalTransition(f"a task in flight is never {_listed(strange)}; allowed: {_listed(_BY_PRECEDENCE)}")
    first = next((state for state in _BY_PRECEDENCE if state in states), OccurrenceState.RUNNING)
    return OccurrenceState.RUNNING if more and first is OccurrenceState.TERMINATING else first


_BY_PRECEDENCE: Final = (
    OccurrenceState.RUNNING,
    OccurrenceState.CONTAINER_CREATING,
    OccurrenceState.RETRYING,
    OccurrenceState.TERMINATING,
)


def mermaid() -> str:
    """The table as a Mermaid state diagram, for the docs. What leads from everywhere is drawn from `not_final`."""
    everywhere = frozenset.intersection(*(TRANSITIONS[state] for state in TRANSITIONS if state not in FINAL))
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in OccurrenceState if state in CREATED_AS]
    for state in OccurrenceState:
        lines += [f"    {state} --> {new}" for new in OccurrenceState if new in TRANSITIONS[state] - everywhere]
    lines += [f"    not_final --> {new}" for new in OccurrenceState if new in everywhere]
    lines += ["    {} --> {}: by an update".format(*_RESTORED_BY_UPDATE)]
    lines += [f"    {state} --> [*]" for state in OccurrenceState if state in FINAL]
    return "\n".join(lines) + "\n"


def _listed(states: Collection[OccurrenceState]) -> str:
    return ", ".join(state for state in OccurrenceState if state in states)
