"""The scheduled run index: the due runs of all jobs for the next few minutes.

    one run  =  one int64      │ seconds since the first run │ job's number │

A job's number is its position in a table sorted by id. So sorting these integers gives the specified order: by instant,
then by job id. A million runs take 8 MB and sort in milliseconds; finding a window of them takes two binary searches.

The index is rebuilt whole and swapped: one assignment of a reference to a finished, immutable snapshot. A reader takes
that reference once, so it never locks. Its answer comes from one whole snapshot even while another thread swaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from itinerary.errors import WindowError
from itinerary.schedules.instants import LATEST, MICROSECONDS, InstantLike, ceil_second, microseconds_of

__all__ = ["DueRuns", "JobTable", "RunPairs", "ScheduledRun", "ScheduledRunIndex", "ScheduledRuns"]

_KEY_BITS: Final = 63
_NARROW_MAX: Final = 2**32 - 1


ScheduledRun: TypeAlias = tuple[str, int]
"""A due instant of a job: the job's id, and microseconds since the epoch.

A query returns hundreds of these plain pairs. A named tuple would cost four times as much.
"""


class JobTable:
    """Job ids in order. A job's number is its position here, and is valid as long as the table is."""

    __slots__ = ("_ids", "ids", "numbers")

    ids: NDArray[np.object_]
    """The ids by number, as an array for bulk lookup."""
    numbers: Mapping[str, int]
    """The number of each id."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = sorted(ids)
        self.numbers = {job: number for number, job in enumerate(self._ids)}
        self.ids = np.array(self._ids, object)
        assert len(self.numbers) == len(self._ids), "a job is in the table twice"

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, number: int) -> str:
        return self._ids[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def number(self, job: str) -> int:
        """Return the job's number."""
        return self.numbers[job]


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledRuns:
    """Many runs in columns, unsorted: the job's number in `jobs`, and the instant in microseconds."""

    jobs: JobTable
    numbers: NDArray[np.int64]
    instants: NDArray[np.int64]

    def __post_init__(self) -> None:
        assert len(self.numbers) == len(self.instants), "each number goes with an instant"
        assert not len(self.numbers) or 0 <= self.numbers.min() <= self.numbers.max() < len(self.jobs), (
            "known jobs only"
        )

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, InstantLike]]) -> ScheduledRuns:
        """Make columns of (job, instant) pairs.

        There may be a million pairs, so each step is one call that processes a whole column inside the interpreter. A
        loop over the pairs takes three times as long.
        """
        listed = pairs if isinstance(pairs, list | tuple) else list(pairs)
        by_appearance: defaultdict[str, int] = defaultdict(count().__next__)
        appearances = _look_up_all(by_appearance, tuple(map(itemgetter(0), listed)))
        jobs = JobTable(by_appearance)
        numbers = _look_up_all(jobs.numbers, tuple(by_appearance))
        return cls(jobs, numbers.take(appearances), _instants_of(listed))


def _instants_of(pairs: Sequence[tuple[str, InstantLike]]) -> NDArray[np.int64]:
    """Return the instants of pairs. `int.__trunc__` accepts only an `int`, and a `bool`, which reads as 0 or 1."""
    try:
        found = np.fromiter(map(int.__trunc__, map(itemgetter(1), pairs)), np.int64, len(pairs))
    except TypeError:  # a datetime, or not an instant
        return np.array([microseconds_of(instant) for _, instant in pairs], np.int64)
    if ((found == 0) | (found == 1)).any():
        return np.array([microseconds_of(instant) for _, instant in pairs], np.int64)
    return found


def _look_up_all(numbers: Mapping[str, int], jobs: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the number of each job. One `itemgetter` for all jobs takes half the time of single lookups."""
    if len(jobs) < 2:  # an itemgetter of one key does not return a tuple
        return np.array([numbers[job] for job in jobs], np.int64)
    return np.fromiter(itemgetter(*jobs)(numbers), np.int64, len(jobs))


class DueRuns(Sequence[ScheduledRun]):
    """The answer to a query: runs in order, as columns for bulk decisions and as pairs for single ones.

    The answer belongs to one snapshot, and does not change when the index is swapped.
    """

    __slots__ = ("_ids", "instants", "numbers")

    def __init__(self, ids: NDArray[np.object_], numbers: NDArray[np.int64], instants: NDArray[np.int64]) -> None:
        self._ids = ids
        self.numbers = numbers
        self.instants = instants

    def __len__(self) -> int:
        return len(self.instants)

    def __iter__(self) -> Iterator[ScheduledRun]:
        return iter(self._pairs(slice(None)))

    @overload
    def __getitem__(self, at: int) -> ScheduledRun: ...
    @overload
    def __getitem__(self, at: slice) -> list[ScheduledRun]: ...
    def __getitem__(self, at: int | slice) -> ScheduledRun | list[ScheduledRun]:
        if isinstance(at, slice):
            return self._pairs(at)
        return self._ids[self.numbers[at]], int(self.instants[at])

    def _pairs(self, at: slice) -> list[ScheduledRun]:
        return list(zip(self._ids.take(self.numbers[at]).tolist(), self.instants[at].tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list | tuple | DueRuns) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


RunPairs: TypeAlias = ScheduledRuns | Iterable[tuple[str, InstantLike]]
"""The input of an index."""


class _Snapshot:
    """A finished index: sorted keys, and the job ids that they refer to."""

    __slots__ = ("_base", "_bits", "_ids", "_keys", "_none", "first")

    def __init__(self, runs: ScheduledRuns) -> None:
        seconds = runs.instants // MICROSECONDS
        if not (seconds * MICROSECONDS == runs.instants).all():
            raise WindowError("an instant is not a whole second; instants are whole seconds")
        self._ids = runs.jobs.ids
        self._bits = max(len(runs.jobs) - 1, 1).bit_length()
        self._base = int(seconds.min()) if len(seconds) else 0
        seconds -= self._base
        # All microseconds of an int64 fit beside a million jobs, and the supported years beside half a billion.
        assert not len(seconds) or int(seconds.max()) >> (_KEY_BITS - self._bits) == 0
        seconds <<= self._bits
        seconds |= runs.numbers
        self._keys = _sort_keys(seconds)
        self._keys.flags.writeable = False
        self.first = next(iter(self._runs(self._keys[:1])), None)
        self._none = self._runs(self._keys[:0])

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes

    def query(self, start: int, end: int) -> DueRuns:
        """Return the runs of the seconds `[start, end)`."""
        low = self._keys.searchsorted(max(start - self._base, 0) << self._bits)
        high = self._keys.searchsorted(max(end - self._base, 0) << self._bits)
        return self._none if low == high else self._runs(self._keys[low:high])

    def next_from(self, start: int) -> int:
        """Return the first second with a run, from `start` on; LATEST if there is none."""
        low = self._keys.searchsorted(max(start - self._base, 0) << self._bits)
        return LATEST if low == len(self._keys) else (int(self._keys[low]) >> self._bits) + self._base

    def _runs(self, keys: NDArray[np.int64]) -> DueRuns:
        instants = keys >> self._bits
        instants += self._base
        instants *= MICROSECONDS
        return DueRuns(self._ids, keys & ((1 << self._bits) - 1), instants)


def _sort_keys(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort keys of 0 or more. An hour of 10,000 jobs fits in 32-bit keys, which sort in two thirds of the time."""
    if len(keys) and int(keys.max()) <= _NARROW_MAX:
        narrow = keys.astype(np.uint32)
        narrow.sort()
        return narrow.astype(np.int64)
    keys.sort()
    return keys


class ScheduledRunIndex:
    """The due runs by time. Readers never lock; `swap` replaces everything at once."""

    __slots__ = ("_snapshot",)

    def __init__(self, runs: RunPairs = ()) -> None:
        self._snapshot = _Snapshot(_columns(runs))

    def query(self, start: InstantLike, end: InstantLike) -> DueRuns:
        """Return the runs in `[start, end)`, by instant and then by job id."""
        return self._snapshot.query(ceil_second(start), ceil_second(end))

    def next_from(self, start: InstantLike) -> int:
        """Return the first instant with a run, from `start` on, in microseconds.

        Returns:
            The instant, or the end of the supported time if there is none.
        """
        return self._snapshot.next_from(ceil_second(start)) * MICROSECONDS

    def peek(self) -> ScheduledRun | None:
        """Return the earliest run, or None."""
        return self._snapshot.first

    def __len__(self) -> int:
        return len(self._snapshot)

    @property
    def nbytes(self) -> int:
        """The memory that the runs take, in bytes."""
        return self._snapshot.nbytes

    def swap(self, runs: RunPairs) -> None:
        """Replace everything. Current readers continue with the old snapshot."""
        self._snapshot = _Snapshot(_columns(runs))


def _columns(runs: RunPairs) -> ScheduledRuns:
    return runs if isinstance(runs, ScheduledRuns) else ScheduledRuns.of(runs)
