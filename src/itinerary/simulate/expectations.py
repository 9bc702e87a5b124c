"""What the world expects of its jobs: the instants of each, and when it is paused, by what people did and nothing else.

It is kept by whoever changes a job, when the change is made, from the job's schedules themselves. Nothing of it goes
through the timeline that nodes and audits read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from itinerary.model.rows import JobNumber

__all__ = ["Expectations"]


class Expectations:
    """Of all jobs, up to the present."""

    def __init__(self) -> None:
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

    def scheduled(self, job: JobNumber, start: int, instants: Sequence[int]) -> None:
        """From `start` on a job has these instants, whatever it had before."""
        before = self._owed.get(job, [])
        self._owed[job] = [*before[: bisect_left(before, start)], *instants]

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
