"""What an audit asks of a store: occurrences with all that must agree with them, a page at a time (U6).

Each answer is read in one transaction, so what stands in it was so at one moment: a page of a store that is being
written to has no half-done work in it. Two pages are of two moments.

    Inspect     occurrences of a window of instants, in the order of their keys, each with what is said of it elsewhere
    Pointers    a table that leads to occurrences, along its key, each entry with the row that it leads to
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
    LineRow,
    OccurrenceRow,
    Ref,
    ShareRow,
    SlotRow,
    TransitionRow,
    WaitingRow,
    WindowRow,
)

__all__ = ["EVIDENCE_PAGE", "Entry", "Evidence", "Inspect", "Inspected", "Pointed", "PointerTable", "Pointers"]

EVIDENCE_PAGE: Final = 4_000
"""How many occurrences or entries one page has: few enough that reading it is nothing to a store that is in use, and so
many that what all of a job's occurrences share is not read for each few of them."""

Entry: TypeAlias = ActiveRow | LineRow | WaitingRow | WindowRow | ShareRow | SlotRow


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """An occurrence, and what the other tables say of it."""

    row: OccurrenceRow
    config: str | None
    """What it was started with."""
    kept: tuple[TransitionRow, ...]
    """The lines of its trail that are kept: all but those that the row itself says (see `trails`)."""
    active: ActiveRow | LineRow | None
    """Of one that stands in line: its place there. Of one that has ended nobody asks: the table itself is looked at."""
    waiting: WaitingRow | None
    """The same: None of one that has ended."""
    window: WindowRow | None
    shares: tuple[str, ...]
    """The limits that it says it holds a share of, and does."""
    listed: Ref | None
    """Who is at its place in its job's history."""
    slot: SlotRow | None

    @property
    def trail(self) -> tuple[TransitionRow, ...]:
        """All lines of its trail, in order."""
        return whole_trail(self.row, self.kept)

    @property
    def is_plain(self) -> bool:
        """Whether it was made, started and completed, and nothing else is said of it: nearly always. Then its trail is
        read off the row, and there is nothing in it that could contradict the row."""
        return not self.kept and is_plain_life(self.row)


class Inspected(msgspec.Struct, frozen=True):
    """A page of occurrences."""

    now: int
    """The store's time, when it was read."""
    found: tuple[Evidence, ...]
    next: Key | None
    """Where the next page begins; None when there are no more."""


class Inspect(Query[Inspected], frozen=True):
    """The occurrences of `[start, end)`, from a key on; it may have been on the page before."""

    start: int
    end: int
    begin: Key | None = None
    limit: int = EVIDENCE_PAGE


class PointerTable(StrEnum):
    """A table whose rows lead to occurrences."""

    ACTIVE = "active"
    LINES = "lines"
    WAITING = "waiting"
    WINDOWS = "windows"
    SHARES = "shares"
    SLOTS = "slots"


class Pointed(msgspec.Struct, frozen=True):
    """A page of such a table: its rows, each with the occurrence that it leads to, if that is there."""

    found: tuple[tuple[Entry, OccurrenceRow | None], ...]
    next: tuple[int | str, ...] | None


class Pointers(Query[Pointed], frozen=True):
    """The rows of such a table from a key on; it may have been on the page before. Empty slots are left out."""

    table: PointerTable
    begin: tuple[int | str, ...] = ()
    limit: int = EVIDENCE_PAGE
