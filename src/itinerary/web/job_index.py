"""An index of all jobs by name and by state, which is kept between requests.

With a hundred thousand jobs, the states cannot be computed each second. A timeline is immutable, and a later one shares
the entries of every unchanged job. So the state of such a job remains valid until its current history segment ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from fnmatch import translate
from typing import Final, NamedTuple

from itinerary.core.timeline.history import FOREVER, HistorySegment, JobActive, JobPaused, JobRemoved, JobStopped
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.rows import EntryRow, JobNumber, JobRow
from itinerary.read.jobs import JobState

__all__ = ["JobIndex"]

_SEARCHES_MAX: Final = 32
_WILD: Final = re.compile(r"[*?\[]")


class _Known(NamedTuple):
    entries: tuple[EntryRow, ...]
    state: JobState
    until: int
    """When the state changes without a new entry."""


class JobIndex:
    """The jobs of one timeline, at one moment."""

    def __init__(self, timeline: Timeline, now: int, before: JobIndex | None = None) -> None:
        self.timeline = timeline
        known = {} if before is None else before.known
        self.known: Mapping[JobNumber, _Known] = {
            number: _kept(timeline, number, now, known.get(number)) for number in timeline.jobs
        }
        self._counts = Counter(one.state for one in self.known.values())
        self._valid_until = min((one.until for one in self.known.values()), default=FOREVER)
        self._searches: OrderedDict[str, Sequence[JobRow]] = OrderedDict()

    def is_true(self, timeline: Timeline, now: int) -> bool:
        """True if an index that is built now would be the same."""
        return timeline.revision == self.timeline.revision and now < self._valid_until

    def state(self, job: JobNumber) -> JobState:
        """Return the state of a job by its timeline: a job whose schedule has ended is active here."""
        return self.known[job].state

    @property
    def counts(self) -> Counter[JobState]:
        """The number of jobs by state."""
        return self._counts.copy()

    def of_state(self, state: JobState) -> frozenset[JobNumber]:
        """Return the jobs in a state."""
        return frozenset(job for job, one in self.known.items() if one.state is state)

    def search(self, pattern: str = "") -> Sequence[JobRow]:
        """Return jobs by name, removed ones included.

        Args:
            pattern: Empty for all jobs; a pattern such as `etl*`; or a part of the name, in any case.
        """
        if pattern in self._searches:
            self._searches.move_to_end(pattern)
            return self._searches[pattern]
        everything = sorted(self.timeline.jobs.values(), key=lambda row: row.name) if not pattern else self.search()
        if _WILD.search(pattern):
            fits = re.compile(translate(pattern)).match
            found: Sequence[JobRow] = [row for row in everything if fits(row.name)]
        elif pattern:
            wanted = pattern.casefold()
            found = [row for row in everything if wanted in row.name.casefold()]
        else:
            found = everything
        self._searches[pattern] = found
        while len(self._searches) > _SEARCHES_MAX:
            del self._searches[next(one for one in self._searches if one)]
        return found

    def page(
        self, rows: Sequence[JobRow], states: Collection[JobState], after: str, limit: int
    ) -> tuple[list[JobRow], bool]:
        """Return the rows of a search after a name that are in one of the states, and whether more follow."""
        found: list[JobRow] = []
        for place in range(bisect_right(rows, after, key=lambda row: row.name) if after else 0, len(rows)):
            if self.known[rows[place].number].state in states:
                if len(found) == limit:
                    return found, True
                found.append(rows[place])
        return found, False


def _kept(timeline: Timeline, job: JobNumber, now: int, known: _Known | None) -> _Known:
    entries = timeline.entries(job)
    if known is not None and known.entries is entries and now < known.until:
        return known
    try:
        segments = timeline.history(job).segments
    except ItineraryError:
        return _Known(entries, JobState.QUARANTINED, FOREVER)
    segment = next((one for one in segments if now < one.end), None)
    if segment is None:
        return _Known(entries, JobState.REMOVED, FOREVER)
    if now < segment.start:
        return _Known(entries, JobState.LATER, segment.start)
    return _Known(entries, _status(segment), segment.end)


def _status(segment: HistorySegment) -> JobState:
    match segment.status:
        case JobActive():
            return JobState.ACTIVE
        case JobPaused():
            return JobState.PAUSED
        case JobStopped():
            return JobState.STOPPED
        case JobRemoved():
            return JobState.REMOVED
