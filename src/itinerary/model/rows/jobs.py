"""The rows of a job: the job, its timeline, its overlap slot, its history. Also the rows that exist only once."""

from __future__ import annotations

from enum import StrEnum

from itinerary.model.rows.keys import JobNumber, NodeNumber, Ref, Row

__all__ = [
    "ConfigRow",
    "EntryKind",
    "EntryRow",
    "HistoryChunkRow",
    "JobRow",
    "LimitRow",
    "OverlapSlotRow",
    "ShareRow",
    "StoreMetaRow",
    "SweepRow",
]


class JobRow(Row, frozen=True):
    """A job: its number, and the facts that do not depend on its timeline."""

    number: JobNumber
    name: str
    registered_at: int
    version: int
    """The newest version, in force or not."""
    history_floor: int
    """The instant below which a missing row has no meaning: rows have been pruned, or the job was not registered
    yet."""
    last_run_at: int | None = None
    """The instant of the last started occurrence whose row has been pruned (protocol rule 22)."""


class EntryKind(StrEnum):
    """The kind of a timeline entry (protocol rule 3)."""

    VERSION = "version"
    """A new definition of the job takes effect."""
    PAUSE = "pause"
    """The instants of the job are skipped from then on."""
    RESUME = "resume"
    STOP = "stop"
    """The job expects no instants from then on."""
    START = "start"
    REMOVE = "remove"
    """The job is removed. A later version restores it."""
    SKIP = "skip"
    """A single named instant is skipped."""
    ZONE = "zone"
    """New transitions of a time zone take effect (protocol rule 5)."""
    SOURCE = "source"
    """Another file or program declares the job from then on."""
    PRUNE = "prune"
    """An operator removed old history. This changes no job. The subject has what was kept."""


class EntryRow(Row, frozen=True):
    """An entry on the timeline. Entries are read in the order of revisions, and never changed."""

    revision: int
    line: int
    """The number within its revision: several entries may be made at once."""
    job: JobNumber
    kind: EntryKind
    request: str
    """The request key. Two requests with the same key are one request."""
    effective_from: int
    entered_at: int
    entered_by: str
    version: int
    """The job's newest version after this entry."""
    subject: str = ""
    """The zone, or the skipped instant. For a version: a `VersionSubject`."""
    body: str | None = None
    """The definition, or the zone's transitions, as JSON."""
    reason: str | None = None


class OverlapSlotRow(Row, frozen=True):
    """The overlap slot of a job. The row always exists. The occurrence that it names runs, or is about to."""

    job: JobNumber
    ref: Ref | None = None
    fence: int = 0
    has_queue: bool = False
    """True if the overlap queue may have entries. Set with the first entry, cleared when the queue is found empty."""
    count: int = 0
    """The number of ended occurrences of the job. The newest part of its history is stored here, too."""
    recent: bytes = b""
    """The last few ended occurrences, which are not in a history chunk yet."""
    last_run_at: int | None = None
    """The latest instant of the job's scheduled occurrences that started. None: none started. If there is history, None
    means unknown: that history is older than this field."""


class HistoryChunkRow(Row, frozen=True):
    """An older part of a job's history: a full history chunk that no longer changes."""

    job: JobNumber
    number: int
    refs: bytes


class ConfigRow(Row, frozen=True):
    """A frozen configuration, stored once for all occurrences that started with it."""

    number: int
    digest: str
    body: str


class LimitRow(Row, frozen=True):
    """A named limit. The row exists to be locked."""

    name: str


class ShareRow(Row, frozen=True):
    """A share of a limit that an occurrence holds."""

    name: str
    ref: Ref


class StoreMetaRow(Row, frozen=True):
    """The single row with the newest revision of the timeline."""

    one: int
    revision: int = 0


class SweepRow(Row, frozen=True):
    """The single row of the sweep (protocol rule 19): the watermark, and the plan in progress."""

    one: int
    watermark: int
    owner: NodeNumber | None = None
    fence: int = 0
    step: int = 0
    plan_from: int | None = None
    plan_to: int | None = None
    cursor: str = ""
