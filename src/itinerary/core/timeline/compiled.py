"""The schedules of many jobs, compiled once and enumerated over any window to find the expected instants.

    histories ─► pieces ─► compiled columns ─► Expected
                 one for each segment with due instants: its job, from, to, version, schedule

All schedules of a layer are enumerated together, and each instant is then compared with the from and to of its piece. A
job that was paused twice is five pieces, and an unchanged job is one. Where the table of one of its zones changes, a
piece ends and the next one begins. Pieces with the same zone data are compiled together. There is nearly always one
such group, and one more for each change of zone data within the layer.

One job never harms the others. A job whose definition cannot be read, or whose schedule misbehaves, has a gap in place
of its instants. For the same reason, custom schedules are enumerated one by one. A window with more instants than one
call may return raises WindowError: the caller has to shorten it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.core.timeline.expected import Expected, UnknownRange
from itinerary.core.timeline.history import HistorySegment, JobActive, JobHistory, JobPaused, JobRemoved, JobStopped
from itinerary.core.timeline.schedule_checks import check_usable, is_untrusted
from itinerary.core.timeline.zone_history import SteadySpan, ZoneBook
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
    _parts: tuple[_Part, ...]
    _reasons: tuple[str, ...]
    _gaps: tuple[UnknownRange, ...]
    _named: Mapping[JobNumber, Mapping[int, int]]
    """The instants of each job that are skipped by name, and the positions of their reasons."""
    zones: frozenset[str]
    """The time zones that the jobs depend on, with a table or without."""

    @classmethod
    def of(
        cls,
        histories: Iterable[tuple[JobNumber, JobHistory | RecordError]],
        since: int,
        until: int,
        zones: ZoneBook,
    ) -> Layer:
        """Compile the schedules of these jobs for `[since, until)`."""
        pieces = _Pieces(since, until, zones)
        for job, history in histories:
            pieces.add(job, history)
        parts = pieces.parts()
        rows = [row for _, group, _ in parts for row in group]
        starts, ends, versions, skips = (
            np.array([getattr(row, name) for row in rows], np.int64) for name in ("start", "end", "version", "skip")
        )
        return cls(
            since,
            until,
            np.array([row.job for row in rows], np.int64),
            starts,
            ends,
            versions,
            skips,
            tuple(_compiled(parts)),
            pieces.reasons,
            tuple(pieces.gaps),
            pieces.named,
            pieces.zones(),
        )

    def expected(self, start: int, end: int, without: Iterable[JobNumber] = ()) -> Expected:
        """Return the expected instants in `[start, end)`, without the jobs in `without`.

        Raises:
            WindowError: There are more instants than one call returns.
        """
        assert self.since <= start, "the layer does not reach back that far"
        assert end <= self.until, "the layer does not reach that far ahead"
        all_rows, all_instants = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        gaps = [gap for gap in self._gaps if gap.start < end and start < gap.end]
        for part in self._parts:
            low, high = max(start, part.start), min(end, part.end)
            if low >= high:
                continue
            try:
                rows, instants = enumerate_many(part.table, low, high)
            except ItineraryError as error:
                if part.is_trusted:
                    raise
                gaps.append(UnknownRange(self._job(part.first), low, high, int(self._versions[part.first]), str(error)))
            else:
                all_rows.append(rows + part.first)
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
        """Mark the instants that are skipped by name. Within a pause, the pause stays the reason."""
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


class _Part(NamedTuple):
    """Pieces that are enumerated together: the rows from `first` on."""

    first: int
    start: int
    end: int
    """The end of the time in which any of the pieces has instants."""
    table: ScheduleTable
    is_trusted: bool
    """False for a piece with a custom schedule, which has a table of its own."""


_Group: TypeAlias = tuple[ZoneSource, Sequence[_Piece], bool]
"""Pieces with the same zone tables, and whether they are trusted."""


def _compiled(groups: Iterable[_Group]) -> Iterator[_Part]:
    first = 0
    for zones, rows, is_trusted in groups:
        table = ScheduleTable.compile([row.schedule for row in rows], zones)
        yield _Part(first, min(row.start for row in rows), max(row.end for row in rows), table, is_trusted)
        first += len(rows)


class _Known(NamedTuple):
    """A schedule that was checked."""

    schedule: Schedule
    is_untrusted: bool
    zones: frozenset[str]


class _Pieces:
    """The rows of a layer while it is built: trusted schedules by zone data, custom ones one by one."""

    def __init__(self, since: int, until: int, zones: ZoneBook) -> None:
        self._since, self._until, self._zones = since, until, zones
        self._trusted: dict[int, tuple[ZoneSource, list[_Piece]]] = {}
        self._untrusted: list[tuple[ZoneSource, _Piece]] = []
        self._places: dict[str, int] = {"": 0}
        self._known: dict[int, _Known] = {}
        """Schedules by identity: thousands of jobs share a few hundred of them."""
        self._usable: set[tuple[int, int]] = set()
        """Schedules, each with the number of a span in which all of its zones were found."""
        self.gaps: list[UnknownRange] = []
        self.named: dict[JobNumber, dict[int, int]] = {}

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(self._places)

    def zones(self) -> frozenset[str]:
        return frozenset[str]().union(*(known.zones for known in self._known.values()))

    def parts(self) -> list[_Group]:
        """Return all rows, in groups that are compiled together."""
        trusted: list[_Group] = [(zones, rows, True) for zones, rows in self._trusted.values()]
        return trusted + [(zones, [row], False) for zones, row in self._untrusted]

    def add(self, job: JobNumber, history: JobHistory | RecordError) -> None:
        if isinstance(history, RecordError):
            self.gaps.append(UnknownRange(job, self._since, self._until, 0, str(history)))
            return
        for segment in history.segments:
            if segment.due_from < min(self._until, segment.end) and self._since < segment.end:
                self._add_stretch(job, segment)
        for skip in history.skips:
            if self._since <= skip.instant < self._until:
                self.named.setdefault(job, {})[skip.instant] = self._reason(str(skip))

    def _add_stretch(self, job: JobNumber, segment: HistorySegment) -> None:
        match segment.status:
            case JobActive():
                skip = 0
            case JobPaused():
                skip = self._reason(str(segment.status))
            case JobStopped() | JobRemoved():
                return
            case _:
                assert_never(segment.status)
        try:
            known = self._looked_at(segment.schedule)
        except ItineraryError as error:
            self.gaps.append(UnknownRange(job, segment.due_from, segment.end, segment.version, str(error)))
            return
        for span in self._zones.spans(known.zones, max(segment.due_from, self._since), segment.end):
            try:
                self._check(known, span)
            except ItineraryError as error:
                self.gaps.append(UnknownRange(job, span.start, span.end, segment.version, str(error)))
            else:
                self._add_piece(known, span, _Piece(job, span.start, span.end, segment.version, skip, known.schedule))

    def _add_piece(self, known: _Known, span: SteadySpan, piece: _Piece) -> None:
        if known.is_untrusted:
            self._untrusted.append((span.zones, piece))
        elif span.number in self._trusted:
            self._trusted[span.number][1].append(piece)
        else:
            self._trusted[span.number] = (span.zones, [piece])

    def _looked_at(self, schedule: Schedule) -> _Known:
        """Return a checked schedule. Raises ScheduleError if it is not complete."""
        known = self._known.get(id(schedule))
        if known is None:
            schedule.require_ready()
            known = self._known[id(schedule)] = _Known(schedule, is_untrusted(schedule), schedule.zone_names())
        return known

    def _check(self, known: _Known, span: SteadySpan) -> None:
        """Raise if a part of the schedule is not complete, or its zone has no table."""
        found = (id(known.schedule), span.number)
        if found not in self._usable:
            check_usable(known.schedule, span.zones)
            self._usable.add(found)

    def _reason(self, words: str) -> int:
        # A pause that lasts through two versions is one reason.
        return self._places.setdefault(words, len(self._places))


def _within(gap: UnknownRange, start: int, end: int) -> UnknownRange:
    return gap._replace(start=max(gap.start, start), end=min(gap.end, end))
