"""The sweep's decisions: the steps that leave no due instant without a row (protocol rules 19, 20).

    expected by the timeline   less   existing rows and windows   =   missing, with what was claimed and not started
                                                                           │
                 to be skipped: SKIPPED, with who and why     within the grace period: it runs, late
                                            older: by its job's recovery strategy
                                            cannot be enumerated: a gap, with its time and the reason

The sweep processes jobs in the order of their numbers, and each job in the order of instants. The cursor is the current
job. A step writes its rows and moves the cursor in one transaction. To resume, any node reads the existing rows and
begins with that job. Written rows are no longer missing. Every strategy decides by what comes *after* an instant, so
the remaining decisions stay the same. Nothing at or after the plan's end is decided.

A long pause of a job that is due each second would be a row each second. So a pause with more than a thousand skipped
instants, up to now or in its first hour, is one collapsed range. This is one row, which later sweeps extend. For less
frequent jobs, the first thousand instants are rows, and the next one begins the collapsed range. A gap is a collapsed
range from the beginning. Its window counts nothing, since its instants are unknown, and rows inside it are no
contradiction.

Occurrences that were claimed before an outage and have not started are missing too (`unstarted_claims`). The strategy
decides about them together with the instants that have no row, and each row becomes what would have been created. A
compressed window and the claimed rows that it covers are in one step.

A job whose definition cannot be read becomes a gap as well: the watermark moves on, and the reason must be on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.core.recovery.match import GAP, PackedInstants, stands_for_itself, windows_of
from itinerary.core.recovery.strategies import (
    STRETCH_MIN,
    MissingInstants,
    RecoveryTerms,
    late,
    recovered,
    settled,
    settled_each,
)
from itinerary.core.recovery.unstarted_claims import NONE_UNSTARTED, UnstartedClaims
from itinerary.core.timeline.expected import Expected, UnknownRange
from itinerary.core.timeline.history import JobPaused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, RecordError, WindowError
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import ClaimedRow, RangeExtension, SweepPlan, SweepStep
from itinerary.model.text import clean_text, shown
from itinerary.model.writes import ClaimRequest
from itinerary.schedules.instants import MICROSECONDS, ceil_second

__all__ = ["ACTIVE_MAX", "STEP_MAX", "WINDOWS_REACH", "Sweep", "is_decided", "last_step"]

ACTIVE_MAX: Final = 1_000_000
"""The largest number of rows that are searched for unstarted ones."""
STEP_MAX: Final = 2_000
"""The largest number of rows in one step."""
WINDOWS_REACH: Final = 7 * 86_400 * MICROSECONDS
"""The time before a plan in which a collapsed range may have ended and is still extended.

Windows are read from there on.
"""
_FORESEEN: Final = 3_600 * MICROSECONDS
"""The look ahead into a pause.

If this part has too many instants for rows, the pause is a collapsed range from its start.
"""
_SECONDS_AT_ONCE: Final = 20_000_000
"""The limit on jobs times seconds in one enumeration, which is the largest possible number of instants."""


Which: TypeAlias = NDArray[np.bool_]
_Batch: TypeAlias = tuple[Sequence[JobNumber], Expected]
"""A group of jobs, and their expected instants."""


class _Row(NamedTuple):
    """A write of the sweep: a row, or an extension. The writes of a job are ordered by their first instants."""

    at: int
    write: ClaimRequest | ClaimedRow | RangeExtension
    covered: tuple[Ref, ...] = ()
    """The claimed rows inside its window."""
    waiting: tuple[Ref, ...] = ()
    """The older rows that join the queue with it."""

    @property
    def is_queued(self) -> bool:
        """True if the write is a recovery run that queues for the overlap slot of its job."""
        wanted = self.write.becomes if isinstance(self.write, ClaimedRow) else self.write
        return isinstance(wanted, ClaimRequest) and wanted.status is OccurrenceState.QUEUED


def is_decided(plan: SweepPlan, timeline: Timeline, decided: Sequence[Key] = ()) -> bool:
    """True if each expected instant of a plan has a row of its own in `decided`. Then nothing is missing."""
    try:
        expected = timeline.expected_next(plan.start, plan.end)
    except WindowError:
        return False
    there = {(key.job, key.instant) for key in decided if stands_for_itself(key)}
    pairs = zip(expected.jobs.tolist(), expected.instants.tolist(), strict=True)
    return not expected.gaps and all(pair in there for pair in pairs)


def last_step(plan: SweepPlan) -> SweepStep:
    """Return the last step of a plan without missing instants."""
    return SweepStep(fence=plan.fence, step=plan.step + 1, cursor=plan.cursor, is_last=True)


class Sweep:
    """A plan, and all data to carry it out. The same arguments give the same steps."""

    def __init__(
        self,
        plan: SweepPlan,
        timeline: Timeline,
        decided: Sequence[Key],
        windows: Sequence[OccurrenceRow],
        *,
        grace_period: int,
        unstarted: UnstartedClaims = NONE_UNSTARTED,
    ) -> None:
        """Prepare a sweep.

        Args:
            plan: The plan to carry out.
            timeline: The timeline to decide by.
            decided: The keys from the plan's start to its end.
            windows: The rows whose windows end within WINDOWS_REACH before the plan's start, or later.
            grace_period: The largest lateness of an instant that still simply runs.
            unstarted: The occurrences that were due before the plan's end and have not started.
        """
        self._plan, self._timeline = plan, timeline
        self._claimed, self._waiting = unstarted
        self._grace_from = plan.end - grace_period
        self._decided: dict[JobNumber, list[Key]] = {}
        for key in filter(stands_for_itself, decided):
            if key.job not in self._claimed or key.instant not in self._claimed[key.job]:
                self._decided.setdefault(key.job, []).append(key)
        self._windows: dict[JobNumber, list[OccurrenceRow]] = {}
        for row in windows:
            self._windows.setdefault(row.job, []).append(row)

    def steps(self, step_max: int = STEP_MAX) -> Iterator[SweepStep]:
        """Yield the remaining steps of the plan. The last step may be empty."""
        step, cursor = self._plan.step, self._plan.cursor
        rows: list[_Row] = []
        for job, row in self._writes():
            if len(rows) >= step_max:
                step += 1
                yield self._step(step, cursor, rows)
                rows = []
            rows.append(row)
            cursor = str(job)
        yield self._step(step + 1, cursor, rows, is_last=True)

    def _step(self, step: int, cursor: str, rows: Sequence[_Row], *, is_last: bool = False) -> SweepStep:
        wanted: list[ClaimRequest] = []
        extensions: list[RangeExtension] = []
        claimed: list[ClaimedRow] = []
        for row in rows:
            match row.write:
                case ClaimRequest():
                    wanted.append(row.write)
                case RangeExtension():
                    extensions.append(row.write)
                case ClaimedRow():
                    claimed.append(row.write)
                case _:
                    assert_never(row.write)
        return SweepStep(
            fence=self._plan.fence,
            step=step,
            cursor=cursor,
            wanted=tuple(wanted),
            extensions=tuple(extensions),
            claimed=tuple(claimed),
            covered=tuple(ref for row in rows for ref in row.covered),
            waiting=tuple(ref for row in rows for ref in row.waiting),
            is_last=is_last,
        )

    def _writes(self) -> Iterator[tuple[JobNumber, _Row]]:
        first = _job_at(self._plan.cursor)
        jobs = [job for job in sorted(self._timeline.jobs) if job >= first]
        for some, expected in self._expected(jobs):
            for job, rows in self._by_job(some, expected):
                for row in self._in_order(job, rows):
                    yield job, row

    # -- expected instants, a bounded number at a time ---------------------------------------------------------------

    def _expected(self, jobs: Sequence[JobNumber]) -> Iterator[_Batch]:
        start, end = self._plan.start, self._plan.end
        together = max(_SECONDS_AT_ONCE * MICROSECONDS // max(end - start, 1), 1)
        if len(jobs) <= together and len(jobs) == len(self._timeline.jobs):
            yield from self._fitting(jobs, None)
            return
        for low in range(0, len(jobs), together):
            yield from self._fitting(jobs[low : low + together], jobs[low : low + together])

    def _fitting(self, jobs: Sequence[JobNumber], asked: Sequence[JobNumber] | None) -> Iterator[_Batch]:
        start, end = self._plan.start, self._plan.end
        try:
            expected = (
                self._timeline.expected_next(start, end)
                if asked is None
                else self._timeline.expected(start, end, asked)
            )
        except WindowError as error:
            if len(jobs) == 1:
                yield jobs, self._nothing_but_a_gap(jobs[0], str(error))
                return
            half = len(jobs) // 2
            yield from self._fitting(jobs[:half], jobs[:half])
            yield from self._fitting(jobs[half:], jobs[half:])
        else:
            yield jobs, expected

    def _nothing_but_a_gap(self, job: JobNumber, reason: str) -> Expected:
        none = np.empty(0, np.int64)
        start, end = self._plan.start, self._plan.end
        return Expected(start, end, none, none, none, none, ("",), (UnknownRange(job, start, end, 0, reason),))

    # -- missing instants, job by job --------------------------------------------------------------------------------

    def _by_job(self, batch: Sequence[JobNumber], expected: Expected) -> Iterator[tuple[JobNumber, list[_Row]]]:
        claimed = self._claimed.keys() & set(batch) if self._claimed else ()
        if not len(expected) and not expected.gaps and not claimed:
            return  # the usual case while nodes run
        gaps = _joined(expected.gaps)
        missing = np.flatnonzero(self._missing_in(expected))
        jobs, firsts = np.unique(expected.jobs[missing], return_index=True)
        places = dict(zip(jobs.tolist(), np.split(missing, firsts[1:]), strict=True)) if len(jobs) else {}
        for job in sorted({*gaps, *places, *claimed}):
            rows = self._of_job(job, expected, places[job]) if job in places else []
            rows += [row for gap in gaps.get(job, ()) for row in self._gap(gap)]
            yield job, self._with_claimed(rows, self._claimed[job]) if job in self._claimed else rows

    def _with_claimed(self, rows: Sequence[_Row], claimed: Mapping[int, OccurrenceRow]) -> list[_Row]:
        """Return the writes of a job, applied to its claimed rows where these exist.

        A claimed row becomes what was decided, or is covered by a window. Claimed rows without a decision, of a job
        that cannot be enumerated, run.
        """
        found: list[_Row] = []
        left = dict(claimed)
        for row in rows:
            wanted = row.write
            if not isinstance(wanted, ClaimRequest) or wanted.key.request == GAP:
                found.append(row)
                continue
            own, window = left.pop(wanted.key.instant, None), wanted.window
            inside = [] if window is None else [instant for instant in left if window.start <= instant < window.end]
            covered = tuple(left.pop(instant).ref for instant in sorted(inside))
            found.append(_Row(row.at, wanted if own is None else ClaimedRow(own.ref, wanted), covered))
        return found + [_Row(instant, _as_recovery(row)) for instant, row in left.items()]

    def _in_order(self, job: JobNumber, rows: Sequence[_Row]) -> list[_Row]:
        """Return the writes of a job by instant. The first one that queues also brings the older waiting rows."""
        ordered = sorted(rows, key=lambda row: row.at)
        if job not in self._waiting or not (queued := [n for n, row in enumerate(ordered) if row.is_queued]):
            return ordered
        first, last_at = queued[0], ordered[queued[-1]].at
        older = tuple(row.ref for row in self._waiting[job] if row.instant < last_at)
        ordered[first] = ordered[first]._replace(waiting=older)
        return ordered

    def _missing_in(self, expected: Expected) -> Which:
        matching = PackedInstants(expected)
        jobs = set(np.unique(expected.jobs).tolist())
        keys = [key for job in jobs for key in self._decided.get(job, ())]
        rows, _ = matching.rows(keys)
        answering, gaps = windows_of(row for job in jobs for row in self._windows.get(job, ()))
        missing: Which = np.equal(rows + matching.spans(answering + gaps), 0)
        return missing

    def _of_job(self, job: JobNumber, expected: Expected, places: NDArray[np.int64]) -> list[_Row]:
        missing = MissingInstants(expected.instants[places], places, expected.versions[places])
        try:
            policies = {version: self._policy(job, version) for version in sorted(set(missing.versions.tolist()))}
        except ItineraryError as error:
            return self._gap(UnknownRange(job, self._plan.start, self._plan.end, int(missing.versions[-1]), str(error)))
        row = self._timeline.jobs[job]
        skips = expected.skips[places]
        runs, is_late = skips == 0, missing.instants >= self._grace_from
        claimed = self._claimed.get(job, {})
        has_row = missing.among(claimed)
        wanted = recovered(row, missing.where(runs & ~is_late), policies, self._plan.end, claimed)
        wanted += late(row, missing.where(runs & is_late), policies)
        rows: list[_Row] = []
        for number in sorted({*skips.tolist()} - {0}):
            reason, skipped = expected.reasons[number], skips == number
            for block in missing.where(skipped & ~has_row).blocks():
                rows += self._skipped(job, block, policies, reason)
            wanted += settled_each(row, missing.where(skipped & has_row), policies, OccurrenceState.SKIPPED, reason)
        return [_Row(item.key.instant, item) for item in wanted] + rows

    def _policy(self, job: JobNumber, version: int) -> RecoveryTerms:
        config = self._timeline.definition(job, version).config()
        return RecoveryTerms(
            version, self._timeline.schedule(job, version), config.recovery, config.priority, config.overlap
        )

    # -- skipped instants, and gaps ----------------------------------------------------------------------------------

    def _skipped(
        self, job: JobNumber, block: MissingInstants, policies: Mapping[int, RecoveryTerms], reason: str
    ) -> list[_Row]:
        first = int(block.instants[0])
        if (segment := self._open_stretch(job, first, reason)) is not None:
            ref, window = segment
            return [_Row(first, RangeExtension(ref.ref, block.window.end, window.count + len(block)))]
        wanted = settled(
            self._timeline.jobs[job],
            block,
            policies,
            OccurrenceState.SKIPPED,
            reason,
            as_stretch=self._is_long(job, block),
        )
        return [_Row(item.key.instant, item) for item in wanted]

    def _open_stretch(self, job: JobNumber, first: int, reason: str) -> tuple[OccurrenceRow, Window] | None:
        """Return the row of the same pause that ends before this block, if nothing was expected in between."""
        for row in self._windows.get(job, ()):
            window = row.window
            if window is None or row.status is not OccurrenceState.SKIPPED or row.reason != reason:
                continue
            if window.end <= first and not self._count(job, window.end, first):
                return row, window
        return None

    def _is_long(self, job: JobNumber, block: MissingInstants) -> bool:
        """True if the pause that skips this block has too many instants for rows of their own.

        The whole pause counts, across versions. A node that resumes in the middle of a block must reach the same
        decision.
        """
        segment = self._timeline.in_force(job, int(block.instants[0]))
        if segment is None or not isinstance(segment.status, JobPaused):
            return False
        since = segment.status.since
        ends = [
            one.end
            for one in self._timeline.segments(job, since, since + _FORESEEN)
            if isinstance(one.status, JobPaused) and one.status.since == since
        ]
        return self._count(job, since, max([block.window.end, *ends])) > STRETCH_MIN

    def _count(self, job: JobNumber, start: int, end: int) -> int:
        """Return the number of expected instants of the job, or STRETCH_MIN + 1 if there are too many to count."""
        try:
            return len(self._timeline.expected(start, end, [job]))
        except WindowError:
            return STRETCH_MIN + 1

    def _gap(self, gap: UnknownRange) -> list[_Row]:
        """Return the write of a gap.

        A gap that continues stays one row with its first reason, even if later messages differ.
        """
        at = ceil_second(gap.start) * MICROSECONDS
        for row in self._windows.get(gap.job, ()):
            window = row.window
            if window is None or row.request != GAP:
                continue
            if ceil_second(gap.start) <= ceil_second(window.end) and window.start <= gap.start:
                return [] if gap.end <= window.end else [_Row(at, RangeExtension(row.ref, gap.end, 0))]
        if at >= gap.end:
            return []  # the gap contains no whole second, and so no instant
        key = Key(at, gap.job, Kind.SCHEDULED, GAP)
        window = Window(gap.start, gap.end, 0)
        reason = clean_text(f"not decided: {gap.reason}")
        return [_Row(at, ClaimRequest(key, gap.version, at, OccurrenceState.MISSED, window=window, reason=reason))]


def _joined(gaps: Sequence[UnknownRange]) -> dict[JobNumber, list[UnknownRange]]:
    """Return the gaps of each job in order. Adjacent gaps, for example of two versions, become one."""
    by_job: dict[JobNumber, list[UnknownRange]] = {}
    for gap in sorted(gaps):
        found = by_job.setdefault(gap.job, [])
        if found and found[-1].end == gap.start:
            found[-1] = found[-1]._replace(end=gap.end)
        else:
            found.append(gap)
    return by_job


def _as_recovery(row: OccurrenceRow) -> ClaimedRow:
    """Let a claimed row run whose job cannot be enumerated."""
    reason = "recovered: no node was there at its instant, and its job could not be enumerated"
    return ClaimedRow(row.ref, ClaimRequest(row.key, row.version, row.due_at, is_recovery=True, reason=reason))


def _job_at(cursor: str) -> JobNumber:
    """Return the job that a cursor names."""
    try:
        return JobNumber(int(cursor or 0))
    except ValueError:
        raise RecordError(f"{shown(cursor)} is no cursor of a sweep; it is the number of a job") from None
