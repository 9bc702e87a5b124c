"""The sweep's requests and answers (protocol rules 19 and 20): the one mechanism by which nothing due is without a row.

    begin a plan ─► SweepPlan ─► SweepStep … ─► the last one moves the watermark

A plan says from where to where, and is stored before anything is done by it. Whoever goes on with it, the same node or
another one, does so with the same end and from the same cursor.
"""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeNumber, Ref
from itinerary.model.writes import Wanted

__all__ = ["ClaimedRow", "Extension", "SweepPlan", "SweepStep"]


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


class ClaimedRow(msgspec.Struct, frozen=True):
    """A row that was claimed before an outage and has not started, and what the recovery strategy makes of it."""

    ref: Ref
    becomes: Wanted
    """What would be created for its instant if it had no row. The row keeps its version, priority and overrides."""


class SweepStep(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a plan, done: rows, stretches and the cursor are written together."""

    fence: int
    step: int
    cursor: str
    wanted: tuple[Wanted, ...] = ()
    """Rows that were missing; they are created as nobody's."""
    extensions: tuple[Extension, ...] = ()
    claimed: tuple[ClaimedRow, ...] = ()
    """Rows that were claimed before an outage. The whole step is refused if one of them is not as it was claimed."""
    covered: tuple[Ref, ...] = ()
    """Rows that were claimed before an outage, and are removed: a window among the other rows answers for them."""
    waiting: tuple[Ref, ...] = ()
    """Older rows of jobs whose recovery runs queue: they join the queue. A row that has started since is left alone."""
    is_last: bool = False
