"""What all who look share: the store's timeline and time, names of jobs, and wall clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from itinerary.core.timeline.history import Removed, Stretch
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, NotThere
from itinerary.jobs.undeclared import source_of
from itinerary.model.queries import Standing, Status
from itinerary.model.rows import EntryKind, JobNumber, JobRow
from itinerary.model.text import shown
from itinerary.ports import Store
from itinerary.read.timeline_view import instead_of
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.schedules.zones import UTC_NAME
from itinerary.stores.paging import read_timeline

__all__ = ["Ground", "at", "moment", "seconds"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def at(instant: int) -> datetime:
    """An instant as programs are shown it."""
    return _EPOCH + timedelta(microseconds=instant)


def moment(instant: int | None) -> datetime | None:
    """The same, of one that may not be known."""
    return None if instant is None else at(instant)


def seconds(start: int | None, end: int | None) -> float | None:
    """How long something took, for programs; None if it is not known."""
    return None if start is None or end is None else (end - start) / SECOND


class Ground:
    """A store's timeline, as of one moment. Read it with `Ground.of`."""

    def __init__(self, store: Store, timeline: Timeline, status: Status) -> None:
        self.store, self.timeline, self.status = store, timeline, status
        self.now = status.now

    @classmethod
    async def of(cls, store: Store) -> Ground:
        """What the store says now. Settings of the machine that looks have no part in it."""
        timeline = await read_timeline(store.read)
        return cls(store, timeline, await store.read(Standing()))

    def named(self, pattern: str | None = None, *, removed: bool = False) -> list[JobRow]:
        """Jobs by name: those that a pattern such as `etl*` fits, or all; those that were removed only if asked."""
        rows = [row for row in self.timeline.jobs.values() if pattern is None or fnmatchcase(row.name, pattern)]
        found = rows if removed else [row for row in rows if not self.is_removed(row.number)]
        return sorted(found, key=lambda row: row.name)

    def job(self, name: str) -> JobRow:
        """The job of that name. Raises NotThere where there is none, with the name that was perhaps meant."""
        found = next((row for row in self.timeline.jobs.values() if row.name == name), None)
        if found is None:
            names = [row.name for row in self.named()]
            raise NotThere(f"there is no job {shown(name)} in {self.store.url}; {instead_of(name, names)}")
        return found

    def is_removed(self, job: JobNumber) -> bool:
        """Whether a job is gone, as of now. Nearly all jobs never were, which their entries say at once."""
        if all(entry.kind is not EntryKind.REMOVE for entry in self.timeline.entries(job)):
            return False
        try:
            stretch = self.timeline.in_force(job, self.now)
        except ItineraryError:
            return False
        return stretch is not None and isinstance(stretch.standing, Removed)

    def stretch(self, job: JobNumber) -> Stretch | None:
        """What is in force for a job now; or next, if its first version is still to come. Raises RecordError."""
        history = self.timeline.history(job)
        found = self.timeline.in_force(job, self.now)
        return found or next((stretch for stretch in history.stretches if stretch.start > self.now), None)

    def source(self, job: JobNumber, version: int) -> str | None:
        """The file or program that declared a job, up to one of its versions; None if none is known."""
        return source_of([entry for entry in self.timeline.entries(job) if entry.version <= version])

    def next_runs(self, job: JobNumber, count: int) -> list[int]:
        """The next instants that are to run; of a job that is paused without an end, its next instants.

        Raises an ItineraryError if what is in force cannot be read.
        """
        found: list[int] = []
        while len(found) < count:
            following = self.timeline.next_instant(job, found[-1] if found else self.now)
            if following is None:
                break
            found.append(following)
        return found

    def offset(self, zone: str, instant: int) -> int:
        """By how many seconds a zone's clocks are ahead of UTC at an instant; 0 if the store has no table of it."""
        try:
            table = self.timeline.zones.table(zone, instant)
        except ItineraryError:
            return 0
        return table.reading(Moment(instant // SECOND)) - instant // SECOND

    def zone_of(self, stretch: Stretch | None) -> str:
        """The zone in which a job's instants are shown: its schedule's own."""
        try:
            return UTC_NAME if stretch is None else stretch.schedule.tz or UTC_NAME
        except ItineraryError:
            return UTC_NAME

    def zone_of_job(self, job: JobNumber) -> str:
        """The same, of what is in force for a job; UTC if that cannot be read."""
        try:
            return self.zone_of(self.stretch(job))
        except ItineraryError:
            return UTC_NAME
