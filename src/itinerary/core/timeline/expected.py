"""The instants that the versions in force make due, in columns.

Each expected instant is to run, or is to be skipped for a recorded reason. If a job's definition cannot be read or its
schedule misbehaves, a `UnknownRange` with the reason takes the place of its instants. `compiled` finds the instants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from itinerary.model.rows import JobNumber

__all__ = ["Due", "Expected", "UnknownRange", "joined"]

Numbers: TypeAlias = NDArray[np.int64]


class UnknownRange(NamedTuple):
    """A time `[start, end)` in which the expected instants of a job are unknown, with the reason."""

    job: JobNumber
    start: int
    end: int
    version: int
    """The version in force; 0 if even that is unknown."""
    reason: str


class Due(NamedTuple):
    """An expected instant."""

    job: JobNumber
    instant: int
    version: int
    skipped: str | None = None
    """The reason to skip the instant; None if it is to run."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Every expected instant in `[start, end)`, in columns, by job and then by instant."""

    start: int
    end: int
    jobs: Numbers
    instants: Numbers
    versions: Numbers
    skips: Numbers
    """The reason to skip each instant, as a position in `reasons`; 0 if the instant is to run."""
    reasons: tuple[str, ...]
    gaps: tuple[UnknownRange, ...]

    def __len__(self) -> int:
        return len(self.instants)

    def __iter__(self) -> Iterator[Due]:
        columns = (self.jobs.tolist(), self.instants.tolist(), self.versions.tolist(), self.skips.tolist())
        for job, instant, version, skip in zip(*columns, strict=True):
            yield Due(JobNumber(job), instant, version, self.reasons[skip] if skip else None)

    @property
    def is_to_run(self) -> NDArray[np.bool_]:
        """The instants that are to run, as a mask. An index holds these."""
        return np.equal(self.skips, 0)

    def within(self, start: int, end: int) -> Expected:
        """Return the expected instants of `[start, end)`, a part of this window. Allowed only without gaps."""
        assert self.start <= start, "the answer does not reach back that far"
        assert end <= self.end, "the answer does not reach that far ahead"
        assert not self.gaps, "a gap may be due to one instant anywhere in the window"
        inside = (self.instants >= start) & (self.instants < end)
        return Expected(
            start,
            end,
            self.jobs[inside],
            self.instants[inside],
            self.versions[inside],
            self.skips[inside],
            self.reasons,
            (),
        )

    def due(self, place: int) -> Due:
        """Return the instant at a position."""
        skip = int(self.skips[place])
        return Due(
            JobNumber(int(self.jobs[place])),
            int(self.instants[place]),
            int(self.versions[place]),
            self.reasons[skip] if skip else None,
        )


def joined(parts: Sequence[Expected]) -> Expected:
    """Merge several answers for one window, each about other jobs, into one."""
    if len(parts) == 1:
        return parts[0]
    jobs = np.concatenate([part.jobs for part in parts])
    instants = np.concatenate([part.instants for part in parts])
    order = np.lexsort((instants, jobs))
    skips, reasons = [], [""]
    for part in parts:
        skips.append(np.where(part.skips > 0, part.skips + len(reasons) - 1, 0))
        reasons += part.reasons[1:]
    return Expected(
        parts[0].start,
        parts[0].end,
        jobs[order],
        instants[order],
        np.concatenate([part.versions for part in parts])[order],
        np.concatenate(skips)[order],
        tuple(reasons),
        tuple(gap for part in parts for gap in part.gaps),
    )
