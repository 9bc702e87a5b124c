"""Changes to the timeline (protocol rules 3 and 4), as values: what is asked for, and what is answered.

    NewEntry ─► Entered | Denied

Versions, pauses, removal, calendars and zone data are entries on one timeline, each with the instant from which it
counts. A call makes all of its entries under one new revision, and everything that acts by an older revision is refused
from then on. What the change means for occurrences that exist and have not started is decided in the same transaction:
a `Judge` is shown them, and says for each whether it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from itinerary.model.rows import EntryKind, EntryRow, JobNumber, OccurrenceRow, Ref

__all__ = ["Denial", "Denied", "Entered", "Judge", "NewEntry", "Verdict", "VerdictKind"]


class NewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that shall be so from an instant on."""

    job: str
    """The job's name; empty for a calendar or a zone, which concern all jobs."""
    kind: EntryKind
    request: str
    """What makes two requests the same one: the second is answered as the first, and changes nothing."""
    by: str
    """Who asks."""
    effective_from: int | None = None
    """None: from now on."""
    from_version: int | None = None
    """Of a version: the one that it was made from, 0 for a job that is new. Anything else is refused as stale."""
    revision: int | None = None
    """The revision of the timeline that it was decided by; if there is another by then it is refused. None: whatever
    has been entered meanwhile, it shall be so."""
    subject: str = ""
    body: str | None = None
    reason: str | None = None


class Entered(msgspec.Struct, frozen=True):
    """It stands."""

    job: JobNumber
    revision: int
    version: int
    effective_from: int


class Denial(StrEnum):
    """Why an entry was not made."""

    STALE = "stale"
    """The job has another version by now: read it, and make the change from there."""
    EARLY = "early"
    """It would change what is decided already: `effective_from` lies before the watermark or the present."""
    UNKNOWN = "unknown"
    """There is no such job, and never was: one that was removed is known."""
    MOVED = "moved"
    """The timeline has another revision by now: read it, and decide again."""


class Denied(msgspec.Struct, frozen=True):
    """It was not made, and nothing else of the same call was."""

    job: str
    why: Denial
    version: int
    """The job's newest version, 0 if there is none."""
    earliest: int
    """The first instant that a change may count from."""


class VerdictKind(StrEnum):
    """What becomes of an occurrence that has not started."""

    KEEP = "keep"
    """It stays, under the version named."""
    WITHDRAW = "withdraw"
    """It is cancelled, and a later version may bring it back."""
    RESTORE = "restore"
    """It had been withdrawn, and is brought back under the version named."""
    CANCEL = "cancel"
    """It is cancelled for good: its job was removed."""


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of one occurrence; one that gets no verdict is left alone."""

    ref: Ref
    kind: VerdictKind
    version: int
    why: str


Judge = Callable[[Sequence[OccurrenceRow], Sequence[EntryRow]], Sequence[Verdict]]
"""A pure function: it is shown what has not started, and what was withdrawn, with the entries as they are made. It may
be asked twice."""
