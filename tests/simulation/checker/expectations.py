"""The expected instants and the pauses of each job, derived only from the changes that operators make.

The simulated operators update the expectations with each change of a job, directly from the job's schedules. Nothing
here goes through the timeline that nodes and audits read. The commit checker reports which zone data release takes
effect. The content of a release comes from the world, not from the store.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from itinerary.model.rows import JobNumber
from itinerary.schedules import Zone, ZoneSource, packaged_zone

__all__ = ["Expectations", "InstantsOf"]

InstantsOf: TypeAlias = Callable[[int, int, ZoneSource], Sequence[int]]
"""A function that returns the instants of a schedule in `[start, end)`, with the zones of a source."""


class Expectations:
    """The expectations for all jobs, up to now."""

    def __init__(self, sources: Mapping[str, ZoneSource] | None = None) -> None:
        """Create empty expectations. `sources` are the zone data releases of this world, by name."""
        self._sources = sources or {}
        self._zones: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        """The releases of each zone, each with its first moment."""
        self._schedules: defaultdict[JobNumber, list[tuple[int, int, InstantsOf]]] = defaultdict(list)
        """The schedules of each job: start, end, and the function for the instants."""
        self._owed: dict[JobNumber, list[int]] = {}
        self._paused: defaultdict[JobNumber, list[tuple[int, int | None]]] = defaultdict(list)

    @property
    def owed(self) -> Mapping[JobNumber, Sequence[int]]:
        """The instants of each job, in order. Paused instants are included: the store has them as skipped."""
        return self._owed

    def between(self, start: int, end: int) -> Iterator[tuple[JobNumber, int]]:
        """Yield all expected instants in `[start, end)`, with their jobs."""
        for job, instants in self._owed.items():
            for instant in instants[bisect_left(instants, start) : bisect_left(instants, end)]:
                yield job, instant

    def scheduled(self, job: JobNumber, start: int, end: int, instants_of: InstantsOf) -> None:
        """Replace the instants of a job from `start` until `end`, the end of the day."""
        before = [(low, min(high, start), known) for low, high, known in self._schedules[job] if low < start]
        self._schedules[job] = [*before, (start, max(start, end), instants_of)]
        self._enumerate(job)

    def zone_entered(self, name: str, release: str, start: int) -> str | None:
        """Use a release for a zone from `start` on. Return a message if the release is not newer."""
        known = self._zones[name]
        before = known[-1][1] if known else ""
        known.append((start, release))
        for job in self._schedules:
            self._enumerate(job)
        if before >= release:
            return f"the table of {name} in zone data {release} took the place of that in {before}"
        return None

    def _enumerate(self, job: JobNumber) -> None:
        """Compute the expected instants of a job, with the zone data in effect between two zone changes."""
        changes = sorted({start for known in self._zones.values() for start, _ in known[1:]})
        found: list[int] = []
        for low, high, instants_of in self._schedules[job]:
            cuts = [low, *(at for at in changes if low < at < high), high]
            for start, end in pairwise(cuts):
                found += instants_of(start, end, partial(self._zone, start))
        self._owed[job] = found

    def _zone(self, instant: int, name: str) -> Zone:
        known = self._zones[name]
        if not known:
            return packaged_zone(name)
        begun = [release for start, release in known if start <= instant] or [known[0][1]]
        return self._sources[begun[-1]](name)

    def paused(self, job: JobNumber, start: int) -> None:
        """Add a pause of a job that begins at `start`."""
        self._paused[job].append((start, None))

    def resumed(self, job: JobNumber, end: int) -> None:
        """End the pause of a job."""
        start, _ = self._paused[job].pop()
        self._paused[job].append((start, end))

    def why_not(self, job: JobNumber, instant: int) -> str | None:
        """Return why an occurrence must not start, or None if it may, or if the job is unknown."""
        if job not in self._owed:
            return None
        instants = self._owed[job]
        place = bisect_left(instants, instant)
        if place == len(instants) or instants[place] != instant:
            return "its job does not have this instant any more"
        if any(start <= instant and (end is None or instant < end) for start, end in self._paused[job]):
            return "its job is paused then"
        return None
