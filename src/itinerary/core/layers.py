"""Many jobs' schedules, compiled once and enumerated over any window: how it is found what is expected.

    histories ─► pieces ─► compiled columns ─► Expected
                 one for each stretch in which something is due: its job, from, to, version, schedule

All schedules of a layer are evaluated together, and each instant is then held against the from and to of its piece. A
job that was paused twice is five pieces, a job that nothing ever happened to is one, and both go the same way.

One job never harms the others. A definition that cannot be read, a schedule that misbehaves: that job has a gap in
place of its instants, and the rest goes on. Schedules that others wrote are asked one by one, for the same reason. A
window with more instants than one call may return is the asker's affair, and raises WindowError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.core.expected import Expected, Gap
from itinerary.core.stretches import Active, History, Paused, Removed, Stopped, Stretch
from itinerary.core.trust import check_usable, is_untrusted
from itinerary.errors import ItineraryError, RecordError
from itinerary.model.rows import JobNumber
from itinerary.schedules import Schedule, ScheduleTable, ZoneSource, enumerate_many

__all__ = ["Layer"]

Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Many jobs, compiled for windows in `[since, until)`. Immutable; build it with `Layer.of`."""

    since: int
    until: int
    _jobs: Numbers
    _starts: Numbers
    _ends: Numbers
    _versions: Numbers
    _skips: Numbers
    _table: ScheduleTable
    _untrusted: tuple[tuple[int, ScheduleTable], ...]
    """Pieces with somebody else's schedule in them, by row, each in a table of its own."""
    _reasons: tuple[str, ...]
    _gaps: tuple[Gap, ...]
    _named: Mapping[JobNumber, Mapping[int, int]]
    """The instants of each job that are skipped by name, and the places of their reasons."""

    @classmethod
    def of(
        cls,
        histories: Iterable[tuple[JobNumber, History | RecordError]],
        since: int,
        until: int,
        zones: ZoneSource,
    ) -> Layer:
        """Compile what these jobs expect in `[since, until)`."""
        pieces = _Pieces(since, until, zones)
        for job, history in histories:
            pieces.add(job, history)
        starts, ends, versions, skips = (
            np.array([getattr(row, name) for row in pieces.rows], np.int64)
            for name in ("start", "end", "version", "skip")
        )
        return cls(
            since,
            until,
            np.array([row.job for row in pieces.rows], np.int64),
            starts,
            ends,
            versions,
            skips,
            ScheduleTable.compile([row.schedule for row in pieces.rows[: pieces.trusted_count]], zones),
            tuple(
                (number, ScheduleTable.compile([row.schedule], zones))
                for number, row in enumerate(pieces.rows)
                if number >= pieces.trusted_count
            ),
            pieces.reasons,
            tuple(pieces.gaps),
            pieces.named,
        )

    def expected(self, start: int, end: int, without: Iterable[JobNumber] = ()) -> Expected:
        """What is expected in `[start, end)`, but for jobs that are better asked elsewhere."""
        assert self.since <= start, "the layer does not reach back that far"
        assert end <= self.until, "the layer does not reach that far ahead"
        rows, instants = enumerate_many(self._table, start, end)
        all_rows, all_instants = [rows], [instants]
        gaps = [gap for gap in self._gaps if gap.start < end and start < gap.end]
        for row, table in self._untrusted:
            low, high = max(start, int(self._starts[row])), min(end, int(self._ends[row]))
            try:
                _, instants = enumerate_many(table, low, max(low, high))
            except ItineraryError as error:
                gaps.append(Gap(self._job(row), low, high, int(self._versions[row]), str(error)))
            else:
                all_rows.append(np.full(len(instants), row, np.int64))
                all_instants.append(instants)
        rows, instants = np.concatenate(all_rows), np.concatenate(all_instants)
        kept = (instants >= self._starts[rows]) & (instants < self._ends[rows])
        left_out = set(without)
        if left_out:
            kept &= ~np.isin(self._jobs, list(left_out))[rows]
        rows, instants = rows[kept], instants[kept]
        order = np.lexsort((instants, self._jobs[rows]))
        rows, instants = rows[order], instants[order]
        return self._marked(
            Expected(
                start,
                end,
                self._jobs[rows],
                instants,
                self._versions[rows],
                self._skips[rows],
                self._reasons,
                tuple(_within(gap, start, end) for gap in gaps if gap.job not in left_out),
            )
        )

    def _job(self, row: int) -> JobNumber:
        return JobNumber(int(self._jobs[row]))

    def _marked(self, expected: Expected) -> Expected:
        """With the instants that are skipped by name; in a pause it is the pause that skips them."""
        for job, named in self._named.items():
            low, high = np.searchsorted(expected.jobs, (job, job + 1))
            for instant, reason in named.items():
                place = low + int(np.searchsorted(expected.instants[low:high], instant))
                if place < high and expected.instants[place] == instant and expected.skips[place] == 0:
                    expected.skips[place] = reason
        return expected


class _Piece(NamedTuple):
    job: JobNumber
    start: int
    end: int
    version: int
    skip: int
    schedule: Schedule


class _Pieces:
    """The rows of a layer while it is built: first those with trusted schedules, then the others."""

    def __init__(self, since: int, until: int, zones: ZoneSource) -> None:
        self._since, self._until, self._zones = since, until, zones
        self._trusted: list[_Piece] = []
        self._untrusted: list[_Piece] = []
        self._places: dict[str, int] = {"": 0}
        self._known: dict[int, tuple[Schedule, bool]] = {}
        """Schedules that were looked at, by identity: thousands of jobs share a few hundred of them."""
        self.gaps: list[Gap] = []
        self.named: dict[JobNumber, dict[int, int]] = {}

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._places)

    @property
    def rows(self) -> Sequence[_Piece]:
        return self._trusted + self._untrusted

    @property
    def trusted_count(self) -> int:
        return len(self._trusted)

    def add(self, job: JobNumber, history: History | RecordError) -> None:
        if isinstance(history, RecordError):
            self.gaps.append(Gap(job, self._since, self._until, 0, str(history)))
            return
        for stretch in history.stretches:
            if stretch.start < self._until and self._since < stretch.end:
                self._add_stretch(job, stretch)
        for skip in history.skips:
            if self._since <= skip.instant < self._until:
                self.named.setdefault(job, {})[skip.instant] = self._reason(str(skip))

    def _add_stretch(self, job: JobNumber, stretch: Stretch) -> None:
        match stretch.standing:
            case Active():
                skip = 0
            case Paused():
                skip = self._reason(str(stretch.standing))
            case Stopped() | Removed():
                return
            case _:
                assert_never(stretch.standing)
        try:
            schedule = stretch.schedule
            is_untrusted = self._checked(schedule)
        except ItineraryError as error:
            self.gaps.append(Gap(job, stretch.start, stretch.end, stretch.version, str(error)))
            return
        rows = self._untrusted if is_untrusted else self._trusted
        rows.append(_Piece(job, stretch.start, stretch.end, stretch.version, skip, schedule))

    def _checked(self, schedule: Schedule) -> bool:
        """Whether others wrote it, or a part of it. Raises if it is not complete, or in a zone that nobody knows."""
        known = self._known.get(id(schedule))
        if known is None:
            check_usable(schedule, self._zones)
            known = self._known[id(schedule)] = (schedule, is_untrusted(schedule))
        return known[1]

    def _reason(self, words: str) -> int:
        # One pause that goes on through two versions is one reason.
        return self._places.setdefault(words, len(self._places))


def _within(gap: Gap, start: int, end: int) -> Gap:
    return gap._replace(start=max(gap.start, start), end=min(gap.end, end))
