"""Requests and answers of the sweep, which ensures that every due instant has a row (protocol rules 19 and 20).

    begin a plan ─► SweepPlan ─► SweepStep … ─► the last one moves the watermark

A plan has a start and an end, and is stored before any of its steps. The same or another node resumes it with the same
end and from the same cursor.
"""

from __future__ import annotations

import msgspec

from itinerary.model.rows import NodeNumber, Ref
from itinerary.model.writes import ClaimRequest

__all__ = ["ClaimedRow", "RangeExtension", "SweepPlan", "SweepStep"]


class SweepPlan(msgspec.Struct, frozen=True):
    """A time range to be decided, and its progress."""

    start: int
    end: int
    cursor: str
    """The text that the sweeper wrote with its last step."""
    step: int
    """The number of its last step. The next one is one higher."""
    owner: NodeNumber
    fence: int


class RangeExtension(msgspec.Struct, frozen=True):
    """A collapsed range of skipped or missed instants that grows: its new end, and its new count."""

    ref: Ref
    end: int
    count: int


class ClaimedRow(msgspec.Struct, frozen=True):
    """A row that was claimed before an outage and has not started, with the decision of the recovery strategy."""

    ref: Ref
    becomes: ClaimRequest
    """The row that would be created for its instant if there were none. The existing row keeps its version, priority
    and overrides."""


class SweepStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan. Rows, collapsed ranges and the cursor are written together."""

    fence: int
    step: int
    cursor: str
    wanted: tuple[ClaimRequest, ...] = ()
    """Rows that were missing. The store creates them without an owner."""
    extensions: tuple[RangeExtension, ...] = ()
    claimed: tuple[ClaimedRow, ...] = ()
    """Rows that were claimed before an outage. The store refuses the whole step if one of them has changed since its
    claim."""
    covered: tuple[Ref, ...] = ()
    """Rows that were claimed before an outage and are removed, because a window of another row covers them."""
    waiting: tuple[Ref, ...] = ()
    """Older rows that join the overlap queue, of jobs whose recovery runs queue. A row that has started since is left
    alone."""
    is_last: bool = False
