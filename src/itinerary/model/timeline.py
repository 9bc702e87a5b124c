"""Changes of the timeline (protocol rules 3 and 4), as values: request and answer.

    TimelineEntryRequest ─► EntryAccepted | EntryRejected

Versions, pauses, removal, calendars and zone data are entries on one timeline. Each entry has the instant from which it
takes effect. A call makes all of its entries under one new revision. From then on the store refuses every action that
is based on an older revision. The same transaction decides about existing occurrences that have not started: an
`UnstartedReconciler` receives them and decides for each whether it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from itinerary.model.rows import EntryKind, EntryRow, JobNumber, OccurrenceRow, Ref

__all__ = [
    "EntryAccepted",
    "EntryRefusal",
    "EntryRejected",
    "TimelineEntryRequest",
    "UnstartedDecision",
    "UnstartedReconciler",
    "VerdictKind",
]


class TimelineEntryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a timeline entry that takes effect from an instant on."""

    job: str
    """The job's name. Empty for a calendar or a zone, which concern all jobs."""
    kind: EntryKind
    request: str
    """The request key. A second request with the same key gets the first answer and changes nothing."""
    by: str
    """The requester."""
    effective_from: int | None = None
    """The instant from which the entry takes effect. None: from now on."""
    from_version: int | None = None
    """The version that this version was made from, 0 for a new job. Another number is refused as stale."""
    revision: int | None = None
    """The revision of the timeline on which the change is based. The store refuses it if there is a newer one. None:
    make the change at any revision."""
    subject: str = ""
    body: str | None = None
    reason: str | None = None


class EntryAccepted(msgspec.Struct, frozen=True):
    """The answer to an entry that was made."""

    job: JobNumber
    revision: int
    version: int
    effective_from: int


class EntryRefusal(StrEnum):
    """The reason why an entry was refused."""

    STALE = "stale"
    """The job has a newer version: read it, and make the change from there."""
    EARLY = "early"
    """The entry would change decided instants: `effective_from` is before the watermark or the present."""
    UNKNOWN = "unknown"
    """The job does not exist and never did. A removed job is known."""
    MOVED = "moved"
    """The timeline has a newer revision: read it, and decide again."""


class EntryRejected(msgspec.Struct, frozen=True):
    """A refused entry. No entry of the same call was made."""

    job: str
    why: EntryRefusal
    version: int
    """The job's newest version, 0 if there is none."""
    earliest: int
    """The first instant from which a change may take effect."""


class VerdictKind(StrEnum):
    """The decision about an occurrence that has not started."""

    KEEP = "keep"
    """The occurrence stays, under the given version."""
    WITHDRAW = "withdraw"
    """The occurrence is cancelled. A later version may restore it."""
    RESTORE = "restore"
    """The occurrence had been withdrawn, and is restored under the given version."""
    CANCEL = "cancel"
    """The occurrence is cancelled for good: its job was removed."""


class UnstartedDecision(msgspec.Struct, frozen=True):
    """The decision about one occurrence. An occurrence without a verdict is left alone."""

    ref: Ref
    kind: VerdictKind
    version: int
    why: str


UnstartedReconciler = Callable[[Sequence[OccurrenceRow], Sequence[EntryRow]], Sequence[UnstartedDecision]]
"""A pure function that receives the unstarted and the withdrawn occurrences, with the new entries. The store may call
it twice."""
