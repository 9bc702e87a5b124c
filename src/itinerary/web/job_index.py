"""All jobs by name and by how they stand, kept from one look to the next.

With a hundred thousand jobs nobody can be asked anew each second. A timeline never changes, and a later one shares with
it the entries of every job that was not touched: what is known of those stays known, until the stretch that they are in
ends by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from fnmatch import translate
from typing import Final, NamedTuple

from itinerary.core.timeline.history import FOREVER, Active, Paused, Removed, Stopped, Stretch
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.rows import EntryRow, JobNumber, JobRow
from itinerary.read.jobs import JobState

__all__ = ["JobBook"]

_SEARCHES_MAX: Final = 32
_WILD: Final = re.compile(r"[*?\[]")


class _Known(NamedTuple):
    entries: tuple[EntryRow, ...]
    state: JobState
    until: int
    """When it will be otherwise, if nobody does anything."""


class JobBook:
    """The jobs of one timeline, at one moment."""

    def __init__(self, timeline: Timeline, now: int, before: JobBook | None = None) -> None:
        self.timeline = timeline
        known = {} if before is None else before.known
        self.known: Mapping[JobNumber, _Known] = {
            number: _kept(timeline, number, now, known.get(number)) for number in timeline.jobs
        }
        self._counts = Counter(one.state for one in self.known.values())
        self._valid_until = min((one.until for one in self.known.values()), default=FOREVER)
        self._searches: OrderedDict[str, Sequence[JobRow]] = OrderedDict()

    def is_true(self, timeline: Timeline, now: int) -> bool:
        """Whether it would be the same if it were made now."""
        return timeline.revision == self.timeline.revision and now < self._valid_until

    def state(self, job: JobNumber) -> JobState:
        """How a job stands, as far as its timeline says: one whose schedule is over is active here."""
        return self.known[job].state

    @property
    def counts(self) -> Counter[JobState]:
        """How many stand how."""
        return self._counts.copy()

    def of_state(self, state: JobState) -> frozenset[JobNumber]:
        """Those that stand so."""
        return frozenset(job for job, one in self.known.items() if one.state is state)

    def search(self, pattern: str = "") -> Sequence[JobRow]:
        """Jobs by name, removed ones too: all; those that a pattern such as `etl*` fits; or those with a text in their
        names, whatever its case."""
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
        """The rows of a search after a name, that stand so; whether there are more."""
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
        stretches = timeline.history(job).stretches
    except ItineraryError:
        return _Known(entries, JobState.QUARANTINED, FOREVER)
    stretch = next((one for one in stretches if now < one.end), None)
    if stretch is None:
        return _Known(entries, JobState.REMOVED, FOREVER)
    if now < stretch.start:
        return _Known(entries, JobState.LATER, stretch.start)
    return _Known(entries, _standing(stretch), stretch.end)


def _standing(stretch: Stretch) -> JobState:
    match stretch.standing:
        case Active():
            return JobState.ACTIVE
        case Paused():
            return JobState.PAUSED
        case Stopped():
            return JobState.STOPPED
        case Removed():
            return JobState.REMOVED
