"""What the loop answers to those who ask it (L6)."""

from __future__ import annotations

import msgspec

from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Change

__all__ = ["ActiveOccurrence", "JobStanding", "Loan", "LoopStatistics", "Told"]


class Told(msgspec.Struct, frozen=True):
    """Whether what was asked for is being done, and if not, why not."""

    done: bool
    why: str = ""


class ActiveOccurrence(msgspec.Struct, frozen=True):
    """One occurrence, as the loop has it. What it waits for is told apart (O8)."""

    ref: Ref
    key: Key
    job: str
    state: OccurrenceState
    started_at: int | None
    last_heartbeat_at: int | None
    misses: int
    waits_for: str = ""
    """A slot of this node, and its place in line; a retry, and which; a requirement; a share of a limit."""


class JobStanding(msgspec.Struct, frozen=True):
    """A job, as the loop has it."""

    job: str
    version: int
    active: tuple[ActiveOccurrence, ...]


class LoopStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How the loop is."""

    iterations: int
    active: int
    index_size: int
    waiting: int
    free_slots: int
    unwritten: int
    """Updates that are not durable yet."""


class Loan(msgspec.Struct, frozen=True):
    """What a task's transaction writes (D6): one of the two, and nothing else is written meanwhile."""

    success: Change
    failure: Change
