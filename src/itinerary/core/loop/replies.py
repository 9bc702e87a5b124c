"""Answers of the loop to requests and queries (L6)."""

from __future__ import annotations

import msgspec

from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import OwnerWrite

__all__ = ["ActiveOccurrence", "JobOverview", "LoopStatistics", "RequestReply", "WriteGrant"]


class RequestReply(msgspec.Struct, frozen=True):
    """The answer to a request: whether it is being carried out, and if not, why not."""

    done: bool
    why: str = ""


class ActiveOccurrence(msgspec.Struct, frozen=True):
    """An occurrence as the loop knows it. The reasons to wait are kept apart (O8)."""

    ref: Ref
    key: Key
    job: str
    state: OccurrenceState
    started_at: int | None
    last_heartbeat_at: int | None
    misses: int
    waits_for: str = ""
    """A slot of this node and the queue position; a retry and its number; a requirement; a share of a limit."""


class JobOverview(msgspec.Struct, frozen=True):
    """The status of a job on this node."""

    job: str
    version: int
    active: tuple[ActiveOccurrence, ...]


class LoopStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the loop."""

    iterations: int
    active: int
    index_size: int
    waiting: int
    free_slots: int
    unwritten: int
    """The number of updates that are not durable yet."""


class WriteGrant(msgspec.Struct, frozen=True):
    """The two possible writes of a task transaction (D6), of which it makes one.

    Nothing else is written until the transaction ends.
    """

    success: OwnerWrite
    failure: OwnerWrite
