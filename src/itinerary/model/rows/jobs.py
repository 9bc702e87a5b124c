"""A job's rows: what it is, its timeline, its place to run in, its history; and the rows that there is one of."""

from __future__ import annotations

from enum import StrEnum

from itinerary.model.rows.keys import JobNumber, NodeNumber, Ref, Row

__all__ = [
    "BooksRow",
    "ChapterRow",
    "ConfigRow",
    "EntryKind",
    "EntryRow",
    "JobRow",
    "LimitRow",
    "ShareRow",
    "SlotRow",
    "SweepRow",
]


class JobRow(Row, frozen=True):
    """A job: its number, and what is the same whatever its timeline says."""

    number: JobNumber
    name: str
    registered_at: int
    version: int
    """The newest version, in force or not."""
    history_floor: int
    """Below this instant an absent row means nothing: rows have been pruned, or it was not registered yet."""
    last_run_at: int | None = None
    """The instant of the last started occurrence whose row has been pruned (protocol rule 22)."""


class EntryKind(StrEnum):
    """What a timeline entry says (protocol rule 3)."""

    VERSION = "version"
    """The job is defined like this, from then on."""
    PAUSE = "pause"
    """Its instants are skipped, from then on."""
    RESUME = "resume"
    STOP = "stop"
    """It expects nothing, from then on."""
    START = "start"
    REMOVE = "remove"
    """It is gone; a later version brings it back."""
    SKIP = "skip"
    """One named instant is skipped."""
    CALENDAR = "calendar"
    """A named calendar of dates and blackouts reads like this, from then on."""
    ZONE = "zone"
    """A time zone's transitions read like this, from then on (protocol rule 5)."""
    SOURCE = "source"
    """Another file or program declares the job, from then on."""
    PRUNE = "prune"
    """An operator had old history removed. It changes no job; the subject says what was kept."""


class EntryRow(Row, frozen=True):
    """One entry on the timeline. They are read in the order of revisions, and never changed."""

    revision: int
    line: int
    """Several entries may be made at once, under one revision."""
    job: JobNumber
    kind: EntryKind
    request: str
    """What makes two requests for it the same one."""
    effective_from: int
    entered_at: int
    entered_by: str
    version: int
    """The job's newest version after it."""
    subject: str = ""
    """The calendar or zone that it is about, the instant that is skipped. Of a version, a `VersionSubject`."""
    body: str | None = None
    """The definition, the calendar, the zone's transitions: JSON."""
    reason: str | None = None


class SlotRow(Row, frozen=True):
    """A job's place to run in. The row is always there; whoever is named in it runs, or is about to."""

    job: JobNumber
    ref: Ref | None = None
    fence: int = 0
    has_line: bool = False
    """Whether others may stand in line for it: set with the first that does, cleared when nobody is found there."""
    count: int = 0
    """How many of the job's occurrences have ended: the newest part of its history is kept here too."""
    recent: bytes = b""
    """The last few of those, which are not in a chapter yet."""
    last_run_at: int | None = None
    """The latest instant among the job's scheduled occurrences that started. None: none did; or, if there is history,
    it is not known, since that was written before this was kept."""


class ChapterRow(Row, frozen=True):
    """An older part of a job's history, full and closed."""

    job: JobNumber
    number: int
    refs: bytes


class ConfigRow(Row, frozen=True):
    """A frozen configuration, kept once however many occurrences were started with it."""

    number: int
    digest: str
    body: str


class LimitRow(Row, frozen=True):
    """A named limit; the row is there to be locked."""

    name: str


class ShareRow(Row, frozen=True):
    """One share of a limit, held by an occurrence."""

    name: str
    ref: Ref


class BooksRow(Row, frozen=True):
    """The one row that says how far the timeline is."""

    one: int
    revision: int = 0


class SweepRow(Row, frozen=True):
    """The one row of the sweep (protocol rule 19): up to where all is decided, and the plan that is being worked
    off."""

    one: int
    watermark: int
    owner: NodeNumber | None = None
    fence: int = 0
    step: int = 0
    plan_from: int | None = None
    plan_to: int | None = None
    cursor: str = ""
