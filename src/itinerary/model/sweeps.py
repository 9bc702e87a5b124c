"""The sweep's requests and answers (PROTOCOL 19 and 20): the one mechanism by which nothing due is without a row.

    begin a plan ─► SweepPlan ─► SweepStep … ─► the last one moves the watermark

A plan says from where to where, and is stored before anything is done by it. Whoever goes on with it, the same node or
another one, does so with the same end and from the same cursor.
"""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeNumber, Ref
from itinerary.model.writes import Wanted

__all__ = ["Extension", "SweepPlan", "SweepStep"]


class SweepPlan(msgspec.Struct, frozen=True):
    """A stretch of time to be decided, and how far that is."""

    start: int
    end: int
    cursor: str
    """Whatever the sweeper wrote there with its last step."""
    step: int
    """The number of its last step; the next one has one more."""
    owner: NodeNumber
    fence: int


class Extension(msgspec.Struct, frozen=True):
    """A stretch of skipped or missed instants that goes on: its new end, and how many it holds by then."""

    ref: Ref
    end: int
    count: int


class SweepStep(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a plan, done: rows, stretches and the cursor are written together."""

    fence: int
    step: int
    cursor: str
    wanted: tuple[Wanted, ...] = ()
    """Rows that were missing; they are created as nobody's."""
    extensions: tuple[Extension, ...] = ()
    is_last: bool = False
