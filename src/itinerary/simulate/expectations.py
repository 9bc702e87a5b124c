"""What the world expects of its jobs: the instants of each, and when it is paused, by what people did and nothing else.

It is kept by whoever changes a job, when the change is made, from the job's schedules themselves. Nothing of it goes
through the timeline that nodes and audits read. Which zone data counts is told by whoever sees that it is entered; what
that data says is known from where the world has it, and not from what was stored.
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
"""The instants of a schedule in `[start, end)`, in the zones of that source."""


class Expectations:
    """Of all jobs, up to the present."""

    def __init__(self, sources: Mapping[str, ZoneSource] | None = None) -> None:
        """`sources` are the releases of zone data that there are in this world, by name."""
        self._sources = sources or {}
        self._zones: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        """From when on a zone is as in a release."""
        self._schedules: defaultdict[JobNumber, list[tuple[int, int, InstantsOf]]] = defaultdict(list)
        """From when to when a job has these instants."""
        self._owed: dict[JobNumber, list[int]] = {}
        self._paused: defaultdict[JobNumber, list[tuple[int, int | None]]] = defaultdict(list)

    @property
    def owed(self) -> Mapping[JobNumber, Sequence[int]]:
        """The instants of each job, in order. Those of a pause are among them: that they are skipped is on record."""
        return self._owed

    def between(self, start: int, end: int) -> Iterator[tuple[JobNumber, int]]:
        """All that is owed in `[start, end)`."""
        for job, instants in self._owed.items():
            for instant in instants[bisect_left(instants, start) : bisect_left(instants, end)]:
                yield job, instant

    def scheduled(self, job: JobNumber, start: int, end: int, instants_of: InstantsOf) -> None:
        """From `start` on, to the end of the day, a job has these instants, whatever it had before."""
        before = [(low, min(high, start), known) for low, high, known in self._schedules[job] if low < start]
        self._schedules[job] = [*before, (start, max(start, end), instants_of)]
        self._enumerate(job)

    def zone_entered(self, name: str, release: str, start: int) -> str | None:
        """A zone is as in that release from `start` on. Returns what is wrong with that, if something is."""
        known = self._zones[name]
        before = known[-1][1] if known else ""
        known.append((start, release))
        for job in self._schedules:
            self._enumerate(job)
        if before >= release:
            return f"the table of {name} in zone data {release} took the place of that in {before}"
        return None

    def _enumerate(self, job: JobNumber) -> None:
        """Find out what a job owes: from one change of a zone to the next, by what each zone is then."""
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
        """A job is paused."""
        self._paused[job].append((start, None))

    def resumed(self, job: JobNumber, end: int) -> None:
        """It goes on."""
        start, _ = self._paused[job].pop()
        self._paused[job].append((start, end))

    def why_not(self, job: JobNumber, instant: int) -> str | None:
        """Why an occurrence of this instant must not start now. Of a job that the world does not know it cannot say."""
        if job not in self._owed:
            return None
        instants = self._owed[job]
        place = bisect_left(instants, instant)
        if place == len(instants) or instants[place] != instant:
            return "its job does not have this instant any more"
        if any(start <= instant and (end is None or instant < end) for start, end in self._paused[job]):
            return "its job is paused then"
        return None
