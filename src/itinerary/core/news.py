"""What the loop tells whoever wants to watch: what began, and what came of it.

Nothing depends on it. What is durable is in the store; this is for a terminal, for metrics, and for those in the same
program who wait for an occurrence to end.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState

__all__ = ["Began", "Finished", "News"]


class Began(msgspec.Struct, frozen=True, gc=False):
    """An occurrence has started here: that is durable."""

    ref: Ref
    key: Key
    job: str
    due_at: int
    started_at: int


class Finished(msgspec.Struct, frozen=True, gc=False):
    """An occurrence has ended here, or was found to be skipped or queued by its start: that is durable."""

    ref: Ref
    key: Key
    job: str
    outcome: OccurrenceState
    started_at: int | None
    ended_at: int
    why: str | None = None


News: TypeAlias = Began | Finished
