"""The queries of an audit: pages of occurrences with all data that must agree with them (U6).

The store reads each answer in one transaction, so a page is consistent even while nodes write. Two pages are from two
moments.

    InspectQuery     occurrences in a window of instants, in key order, each with what other tables say about it
    PointersQuery    a table that refers to occurrences, in key order, each entry with the row that it refers to
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from itinerary.model.audit_trail import is_plain_life, whole_trail
from itinerary.model.queries import Query
from itinerary.model.rows import (
    ActiveRow,
    Key,
    OccurrenceRow,
    OverlapQueueRow,
    OverlapSlotRow,
    Ref,
    ShareRow,
    TransitionRow,
    WaitingRow,
    WindowRow,
)

__all__ = [
    "EVIDENCE_PAGE",
    "Entry",
    "Evidence",
    "InspectQuery",
    "InspectedPage",
    "PointerPage",
    "PointerTable",
    "PointersQuery",
]

EVIDENCE_PAGE: Final = 4_000
"""The occurrences or entries on one page. Small enough not to disturb a store in use. Large enough that data shared by
all occurrences of a job is not read too often."""

Entry: TypeAlias = ActiveRow | OverlapQueueRow | WaitingRow | WindowRow | ShareRow | OverlapSlotRow


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """An occurrence, and what the other tables say about it."""

    row: OccurrenceRow
    config: str | None
    """The frozen configuration with which it started."""
    kept: tuple[TransitionRow, ...]
    """The stored lines of its audit trail, without those that the row itself implies (see `audit_trail`)."""
    active: ActiveRow | OverlapQueueRow | None
    """Its active row, or its entry in the overlap queue if it is queued. Not read if it has ended: `PointersQuery`
    checks these tables."""
    waiting: WaitingRow | None
    """Its entry in the waiting table. None if it has ended."""
    window: WindowRow | None
    shares: tuple[str, ...]
    """The limits of which its row lists a share and of which it holds one."""
    listed: Ref | None
    """The occurrence at its place in the history of its job."""
    slot: OverlapSlotRow | None

    @property
    def trail(self) -> tuple[TransitionRow, ...]:
        """The complete audit trail, in order."""
        return whole_trail(self.row, self.kept)

    @property
    def is_plain(self) -> bool:
        """True if it was created, started and completed without any stored line, as nearly all are.

        The trail is then derived from the row and cannot contradict it.
        """
        return not self.kept and is_plain_life(self.row)


class InspectedPage(msgspec.Struct, frozen=True):
    """A page of occurrences."""

    now: int
    """The store's time of the read."""
    found: tuple[Evidence, ...]
    next: Key | None
    """The start of the next page. None on the last page."""


class InspectQuery(Query[InspectedPage], frozen=True):
    """Query for the occurrences of `[start, end)` from a key on. The first one may already be on the page before."""

    start: int
    end: int
    begin: Key | None = None
    limit: int = EVIDENCE_PAGE


class PointerTable(StrEnum):
    """A table whose rows refer to occurrences."""

    ACTIVE = "active"
    OVERLAP_QUEUE = "overlap_queue"
    WAITING = "waiting"
    WINDOWS = "windows"
    SHARES = "shares"
    OVERLAP_SLOTS = "overlap_slots"


class PointerPage(msgspec.Struct, frozen=True):
    """A page of a pointer table: its rows, each with the occurrence that it refers to, if that exists."""

    found: tuple[tuple[Entry, OccurrenceRow | None], ...]
    next: tuple[int | str, ...] | None


class PointersQuery(Query[PointerPage], frozen=True):
    """Query for the rows of a pointer table from a key on.

    The first one may already be on the page before. Empty overlap slots are left out.
    """

    table: PointerTable
    begin: tuple[int | str, ...] = ()
    limit: int = EVIDENCE_PAGE
