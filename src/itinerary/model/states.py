"""The states of an occurrence, and the one table of their transitions.

    created ─► prerun ─► pending ─► (condition ⇄ action) ─► container_creating ─► running ─► terminating ─► completed
                 │        ▲   ▲                                                     │
                 └► queued┘   └──────────────────── retrying ◄──────────────────────┘

    instead of running: skipped, missed          instead of completed: completed_with_errors, failed_stale
    from every state that is not final: failed, cancelled, orphaned

The danger is a change of state that bypasses the table. Examples are a late result that revives an orphan, a second
cancel, a queued occurrence that starts twice. So no code assigns a state. `advance(current, new)` is the only way to
the next state, and it refuses a transition that is not in the table.

Final states are never left, with one exception. An update (R7) cancels the instants that it removes. A later version
with these instants must be able to restore them. So `cancelled` goes to `prerun`, but only on request of an update
(`by_update=True`). The update must check that an update cancelled this occurrence before its start. An occurrence that
a person cancelled stays cancelled.
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
    """The state of an occurrence."""

    PRERUN = "prerun"
    """Claimed before its instant. Accepts configuration updates and cancellation."""
    QUEUED = "queued"
    """Waiting in the overlap queue while its job is still running. No node owns it."""
    PENDING = "pending"
    """Due, and waiting for a slot or a limit. Also before each retry."""
    CONDITION_PENDING = "condition_pending"
    """Waiting for the check of its conditions, or for the next check."""
    CONDITION_RUNNING = "condition_running"
    """Its conditions are being checked."""
    ACTION_PENDING = "action_pending"
    """Waiting for the action on an unmet condition."""
    ACTION_RUNNING = "action_running"
    """The action on the unmet condition is running."""
    CONTAINER_CREATING = "container_creating"
    """A pod is being created."""
    RUNNING = "running"
    """A task is running, or the next one is about to start."""
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
    """The reaper ended it: it exceeded its execution timeout, and no node ended it."""
    CANCELLED = "cancelled"
    """A person, a shutdown, a replacement or an update ended it."""
    ORPHANED = "orphaned"
    """Its node died, or went silent, while it ran."""
    SKIPPED = "skipped"
    """A rule decided that it does not run: overlap, pause, condition."""
    MISSED = "missed"
    """No node was running at its instant, and the recovery strategy of its job does not run it later."""


class TaskState(StrEnum):
    """The state of a task run, or of an attempt. Only a task run can be `skipped`."""

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
"""The states in which a row may be created."""

TRANSITIONS: Final = _transitions()
"""The states that may follow each state. No state follows a final one."""

FINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
"""The final states. Only an update can leave one of them: `cancelled`."""

TASK_FINAL: Final = frozenset(TaskState) - {TaskState.PENDING, TaskState.RUNNING}
"""The states in which a task run or an attempt ends."""

_RESTORED_BY_UPDATE: Final = (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)


def advance(current: OccurrenceState | None, new: OccurrenceState, *, by_update: bool = False) -> OccurrenceState:
    """Return the new state if the table allows the transition.

    Args:
        current: The present state. None for a row that does not exist yet.
        new: The next state.
        by_update: True if an update restores an occurrence that it cancelled.

    Raises:
        IllegalTransition: The table does not have this transition.
    """
    allowed = CREATED_AS if current is None else TRANSITIONS[current]
    if new in allowed or (by_update and (current, new) == _RESTORED_BY_UPDATE):
        return new
    if current is None:
        raise IllegalTransition(f"an occurrence cannot be created as {new}; allowed: {_listed(allowed)}")
    if current in FINAL:
        raise IllegalTransition(f"an occurrence cannot go from {current} to {new}: {current} is final")
    raise IllegalTransition(f"an occurrence cannot go from {current} to {new}; allowed: {_listed(allowed)}")


def shown_state(in_flight: Iterable[OccurrenceState], *, more: bool) -> OccurrenceState:
    """Return the state that an occurrence of several tasks shows (O8).

    `running` if any runs, else `container_creating` if any is being created, else `retrying`. With `more`, the
    occurrence stays `running` between two tasks and while the pod of one is being ended, because `terminating` only
    leads to the end. A task stays `retrying` until its next attempt starts. The occurrence passes through `pending` on
    that way.

    Args:
        in_flight: The states of the tasks that have started and not ended.
        more: True if tasks have not started yet.

    Raises:
        IllegalTransition: A started task cannot have one of these states.
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
    """Return the table as a Mermaid state diagram, for the docs. Transitions from every state start at `not_final`."""
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
