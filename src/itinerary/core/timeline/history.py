"""The timeline entries of one job, folded into history segments: what was in force, and when (protocol rule 3).

    entries      version 1      pause       resume      version 2 (from then on)      stop
                     │            │            │              │                         │
    segments         │ 1, active  │ 1, paused  │  1, active   │        2, active        │ 2, stopped …

A pause is history and not a flag: a question about it gets the same answer a year later as at the time. The rules:

- An entry acts from its `effective_from` on. If several act from the same instant, the last one made wins.
- A new version supersedes every version that was to take effect at the same time or later. A removal does too: an
  update that was planned before the removal does not bring the job back. A version that is entered after the removal
  does.
- Pause and resume alternate, stop and start alternate; repeating one has no effect. Pausing a paused job keeps the same
  pause, by the same person, and only moves its end. A job that is both stopped and paused counts as stopped, and is
  still paused after a start. A removal ends both.
- A pause with an `until` ends by itself.
- A skip names one instant, and counts if it was entered before that instant.
- A graceful update may name where the instants of its version begin. The version is in force from `effective_from` on,
  and expects nothing before its `first_at`. The last run of the previous version stands for those instants (R7).

An entry may be unreadable: a body that is not JSON, an instant that is no number. Folding then raises a `RecordError`
for this one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from itinerary.core.timeline.definitions import read_definition, read_schedule
from itinerary.errors import RecordError
from itinerary.model.codec import from_json
from itinerary.model.definition import Definition
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.text import clean_text, shown
from itinerary.model.version_subject import read_version_subject
from itinerary.schedules import Schedule
from itinerary.schedules.instants import LATEST, MICROSECONDS, shown_instant

__all__ = [
    "FOREVER",
    "HistorySegment",
    "JobActive",
    "JobHistory",
    "JobPaused",
    "JobRemoved",
    "JobStatus",
    "JobStopped",
    "SkippedInstant",
    "fold",
]

FOREVER: Final = LATEST * MICROSECONDS
"""The end of a segment that no entry ends: the end of the supported time."""


class JobActive(msgspec.Struct, frozen=True, gc=False):
    """The status of a job whose instants run."""


class JobPaused(msgspec.Struct, frozen=True, gc=False):
    """The status of a job that stays scheduled, and whose instants are skipped. None of them is recovered."""

    by: str
    since: int
    reason: str | None = None
    until: int | None = None
    """The end of the pause; None if it lasts until an operator resumes the job."""

    def __str__(self) -> str:
        return _words(f"paused by {self.by} since {shown_instant(self.since)}", self.reason)


class JobStopped(msgspec.Struct, frozen=True, gc=False):
    """The status of a job without expected instants. Nothing is recovered."""

    by: str
    since: int
    reason: str | None = None

    def __str__(self) -> str:
        return _words(f"stopped by {self.by} since {shown_instant(self.since)}", self.reason)


class JobRemoved(msgspec.Struct, frozen=True, gc=False):
    """The status of a job that is gone. Its history stays."""

    by: str
    since: int
    reason: str | None = None

    def __str__(self) -> str:
        return _words(f"removed by {self.by} at {shown_instant(self.since)}", self.reason)


JobStatus: TypeAlias = JobActive | JobPaused | JobStopped | JobRemoved
"""The status of a job: its instants run, are skipped, or are not expected at all."""
_ACTIVE: Final = JobActive()


class HistorySegment(msgspec.Struct, frozen=True, gc=False):
    """A history segment: a time `[start, end)` in which a job has one version and one status."""

    start: int
    end: int
    version: int
    """The version in force, or the last version of a removed job."""
    body: str | None
    """The stored definition of that version."""
    status: JobStatus
    first_at: int = 0
    """The first instant that the version may have. Earlier ones are not expected."""

    @property
    def due_from(self) -> int:
        """The start of the instants in this segment."""
        return max(self.start, self.first_at)

    @property
    def definition(self) -> Definition:
        """The definition of the version. Raises RecordError if it cannot be read."""
        return read_definition(self.body)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the version. Raises an ItineraryError if it cannot be read."""
        return read_schedule(self.body)


class SkippedInstant(msgspec.Struct, frozen=True, gc=False):
    """A named instant that is skipped."""

    instant: int
    by: str
    since: int
    reason: str | None = None

    def __str__(self) -> str:
        return _words(f"skipped by {self.by}", self.reason)


class JobHistory(msgspec.Struct, frozen=True, gc=False):
    """The whole history of a job: segments in order, without gaps from its first version on, and skipped instants."""

    segments: tuple[HistorySegment, ...]
    skips: tuple[SkippedInstant, ...] = ()


def fold(entries: Sequence[EntryRow]) -> JobHistory:
    """Return the history that a job's entries describe. The order of the entries does not matter."""
    if len(entries) == 1 and entries[0].kind is EntryKind.VERSION:
        (only,) = entries  # the case of nearly all jobs, of which there may be 100,000
        first_at = _first_at(only)
        return JobHistory((HistorySegment(only.effective_from, FOREVER, only.version, only.body, _ACTIVE, first_at),))
    by_revision = sorted(entries, key=lambda entry: (entry.revision, entry.line))
    acting = sorted(_not_superseded(by_revision), key=lambda entry: entry.effective_from)
    return JobHistory(tuple(_segments(_Walk().marks(acting))), _skips(by_revision))


def _not_superseded(by_revision: Iterable[EntryRow]) -> list[EntryRow]:
    """Return the entries that have an effect: all except versions that a later entry superseded."""
    versions: list[EntryRow] = []
    others: list[EntryRow] = []
    for entry in by_revision:
        if entry.kind in (EntryKind.VERSION, EntryKind.REMOVE):
            while versions and versions[-1].effective_from >= entry.effective_from:
                versions.pop()
        if entry.kind is EntryKind.VERSION:
            versions.append(entry)
        elif entry.kind not in (EntryKind.SKIP, EntryKind.SOURCE):
            others.append(entry)
    return sorted(versions + others, key=lambda entry: (entry.revision, entry.line))


Mark: TypeAlias = tuple[int, EntryRow | None, JobStatus]
"""An instant, and from then on the version's entry and the status of the job."""


class _Walk:
    """The state of a job while its entries are applied one by one."""

    def __init__(self) -> None:
        self._version: EntryRow | None = None
        self._removed: JobRemoved | None = None
        self._stopped: JobStopped | None = None
        self._paused: JobPaused | None = None

    def marks(self, acting: Iterable[EntryRow]) -> Iterator[Mark]:
        """Yield the status of the job after each entry, and after each pause that ends by itself."""
        for entry in acting:
            yield from self._resumed_before(entry.effective_from)
            self._take(entry)
            yield entry.effective_from, self._version, self._status()
        yield from self._resumed_before(FOREVER)

    def _resumed_before(self, instant: int) -> Iterator[Mark]:
        if self._paused is not None and self._paused.until is not None and self._paused.until <= instant:
            until, self._paused = self._paused.until, None
            yield until, self._version, self._status()

    def _take(self, entry: EntryRow) -> None:
        who_and_why = entry.entered_by, entry.effective_from, entry.reason
        match entry.kind:
            case EntryKind.VERSION:
                self._version, self._removed = entry, None
            case EntryKind.REMOVE:
                self._removed = self._removed or JobRemoved(*who_and_why)
                self._stopped = self._paused = None
            case EntryKind.PAUSE:
                until = _until(entry)
                paused = self._paused or JobPaused(*who_and_why)
                has_ended = until is not None and until <= entry.effective_from
                self._paused = None if has_ended else replace(paused, until=until)
            case EntryKind.RESUME:
                self._paused = None
            case EntryKind.STOP:
                self._stopped = self._stopped or JobStopped(*who_and_why)
            case EntryKind.START:
                self._stopped = None
            case EntryKind.SKIP | EntryKind.ZONE | EntryKind.SOURCE | EntryKind.PRUNE:
                raise AssertionError(f"a {entry.kind} does not change how a job stands")
            case _:
                assert_never(entry.kind)

    def _status(self) -> JobStatus:
        return self._removed or self._stopped or self._paused or _ACTIVE


def _segments(marks: Iterable[Mark]) -> list[HistorySegment]:
    settled = {at: (version, status) for at, version, status in marks}  # the last entry at each instant wins
    found: list[HistorySegment] = []
    for start, following in pairwise((*settled, FOREVER)):
        version, status = settled[start]
        end = min(following, FOREVER)
        if version is None or start >= end:
            continue
        if found and (found[-1].version, found[-1].status) == (version.version, status):
            found[-1] = replace(found[-1], end=end)
        else:
            found.append(HistorySegment(start, end, version.version, version.body, status, _first_at(version)))
    return found


def _first_at(entry: EntryRow) -> int:
    """Return where the instants of a version begin; 0 if they begin when the version takes effect."""
    try:
        return read_version_subject(entry.subject).first_at
    except RecordError as error:
        raise RecordError(f"entry {entry.revision}/{entry.line}: {error}") from None


class _PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    until: int | None = None


def _until(entry: EntryRow) -> int | None:
    return None if entry.body is None else from_json(_PauseBody, entry.body).until


def _skips(by_revision: Iterable[EntryRow]) -> tuple[SkippedInstant, ...]:
    found: dict[int, SkippedInstant] = {}
    for entry in by_revision:
        if entry.kind is EntryKind.SKIP:
            instant = _instant_in(entry)
            if entry.effective_from <= instant:
                found.setdefault(instant, SkippedInstant(instant, entry.entered_by, entry.effective_from, entry.reason))
    return tuple(sorted(found.values(), key=lambda skip: skip.instant))


def _instant_in(entry: EntryRow) -> int:
    """Return the instant that an entry names."""
    try:
        return int(entry.subject)
    except ValueError:
        raise RecordError(
            f"entry {entry.revision}/{entry.line} skips {shown(entry.subject)}, which is no instant in microseconds"
        ) from None


# -- reason texts ----------------------------------------------------------------------------------------------------


def _words(what: str, reason: str | None) -> str:
    # Stores clean the texts that they keep. This text is compared with stored ones, so it is cleaned here too.
    return clean_text(f"{what}: {reason}" if reason else what)
