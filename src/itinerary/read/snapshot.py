"""A snapshot of a store for all readers: its timeline and time, job names, and time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from itinerary.core.timeline.history import HistorySegment, JobRemoved
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, NotFoundError
from itinerary.jobs.undeclared import source_of
from itinerary.model.queries import Status, StoreStatusQuery
from itinerary.model.rows import EntryKind, JobNumber, JobRow
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.read.timeline_view import instead_of
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.schedules.zones import UTC_NAME
from itinerary.stores.paging import read_timeline

__all__ = ["StoreSnapshot", "at", "moment", "seconds"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def at(instant: int) -> datetime:
    """Return an instant, in microseconds, as a datetime."""
    return _EPOCH + timedelta(microseconds=instant)


def moment(instant: int | None) -> datetime | None:
    """Return an instant as a datetime; None if it is not known."""
    return None if instant is None else at(instant)


def seconds(start: int | None, end: int | None) -> float | None:
    """Return a duration in seconds; None if it is not known."""
    return None if start is None or end is None else (end - start) / SECOND


class StoreSnapshot:
    """A store with its timeline and status at one instant. Read it with `StoreSnapshot.of`."""

    def __init__(self, store: Store, timeline: Timeline, status: Status) -> None:
        self.store, self.timeline, self.status = store, timeline, status
        self.now = status.now

    @classmethod
    async def of(cls, store: Store) -> StoreSnapshot:
        """Read the store now. Settings of the reading machine have no influence."""
        timeline = await read_timeline(store.read)
        return cls(store, timeline, await store.read(StoreStatusQuery()))

    def named(self, pattern: str | None = None, *, removed: bool = False) -> list[JobRow]:
        """Return jobs by name. `pattern` such as `etl*` filters them; `removed` includes removed jobs."""
        rows = [row for row in self.timeline.jobs.values() if pattern is None or fnmatchcase(row.name, pattern)]
        found = rows if removed else [row for row in rows if not self.is_removed(row.number)]
        return sorted(found, key=lambda row: row.name)

    def job(self, name: str) -> JobRow:
        """Return the job of that name. Raises NotFoundError if there is none, with the closest name."""
        found = next((row for row in self.timeline.jobs.values() if row.name == name), None)
        if found is None:
            names = [row.name for row in self.named()]
            raise NotFoundError(f"there is no job {shown(name)} in {self.store.url}; {instead_of(name, names)}")
        return found

    def is_removed(self, job: JobNumber) -> bool:
        """True if a job is removed now. For nearly all jobs the entries answer that without more work."""
        if all(entry.kind is not EntryKind.REMOVE for entry in self.timeline.entries(job)):
            return False
        try:
            segment = self.timeline.in_force(job, self.now)
        except ItineraryError:
            return False
        return segment is not None and isinstance(segment.status, JobRemoved)

    def segment(self, job: JobNumber) -> HistorySegment | None:
        """Return the history segment in force; else the first future one. Raises RecordError."""
        history = self.timeline.history(job)
        found = self.timeline.in_force(job, self.now)
        return found or next((segment for segment in history.segments if segment.start > self.now), None)

    def source(self, job: JobNumber, version: int) -> str | None:
        """Return the file or program that declared a job, up to a version; None if it is not known."""
        return source_of([entry for entry in self.timeline.entries(job) if entry.version <= version])

    def next_runs(self, job: JobNumber, count: int) -> list[int]:
        """Return the next instants that will run; for a job that is paused without an end, its next instants.

        Raises:
            ItineraryError: The definition in force cannot be read.
        """
        found: list[int] = []
        while len(found) < count:
            following = self.timeline.next_instant(job, found[-1] if found else self.now)
            if following is None:
                break
            found.append(following)
        return found

    def offset(self, zone: str, instant: int) -> int:
        """Return the UTC offset of a zone at an instant, in seconds; 0 if the store has no table for it."""
        try:
            table = self.timeline.zones.table(zone, instant)
        except ItineraryError:
            return 0
        return table.reading(Moment(instant // SECOND)) - instant // SECOND

    def zone_of(self, segment: HistorySegment | None) -> str:
        """Return the zone in which a job's instants are shown: that of its schedule."""
        try:
            return UTC_NAME if segment is None else segment.schedule.tz or UTC_NAME
        except ItineraryError:
            return UTC_NAME

    def zone_of_job(self, job: JobNumber) -> str:
        """Return the zone in which a job's instants are shown; UTC if its definition cannot be read."""
        try:
            return self.zone_of(self.segment(job))
        except ItineraryError:
            return UTC_NAME
