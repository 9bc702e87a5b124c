"""The sweep's decisions: from a plan and from what there is, the steps that leave nothing due without a row (protocol
rules 19, 20).

    expected by the timeline   less   rows and windows that stand   =   missing, with what was claimed and not started
                                                                           │
                 to be skipped: SKIPPED, with who and why     younger than the grace period: it runs, late
                                            older: through its job's recovery strategy
                                            cannot be enumerated at all: a gap, from when to when, and why

It goes job by job in the order of their numbers, and through each in the order of instants. The cursor is the job that
it has come to. A step writes its rows and moves the cursor together, so whoever goes on, the same node or another,
reads what there is and begins with that job. What is written of it already is no longer missing; and since every
strategy decides by what comes *after* an instant, the rest is decided as it would have been. Nothing at or after the
plan's end is decided.

The long pause of a job that is due each second would be a row each second. So the skipped instants of a pause that has
more than a thousand of them, up to now or in its first hour, are one stretch: one row, which later sweeps extend. Of a
job that is due more rarely the first thousand are rows, and the next one begins the stretch. A gap is a stretch from
the beginning. Its window counts nothing, since nobody knows what lies in it, and rows inside it are no contradiction.

What was claimed before an outage and has not started is missing too (`overlooked`). The strategy decides about it with
the instants that have no row, and its row becomes what would have been created. A compressed window and the claimed
rows that it covers are in one step.

What can go wrong: a job whose definition cannot be read. Its time becomes a gap as well, for the watermark moves on and
somebody will ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from itinerary.core.recovery.match import GAP, Matching, stands_for_itself, windows_of
from itinerary.core.recovery.strategies import STRETCH_MIN, Missing, Policy, late, recovered, settled, settled_each
from itinerary.core.recovery.unstarted_claims import NONE_UNSTARTED, Unstarted
from itinerary.core.timeline.expected import Expected, Gap
from itinerary.core.timeline.history import Paused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, RecordError, WindowError
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import ClaimedRow, Extension, SweepPlan, SweepStep
from itinerary.model.text import clean_text, shown
from itinerary.model.writes import Wanted
from itinerary.schedules.instants import MICROSECONDS, ceil_second

__all__ = ["ACTIVE_MAX", "STEP_MAX", "WINDOWS_REACH", "Sweep", "is_decided", "last_step"]

ACTIVE_MAX: Final = 1_000_000
"""The most rows that are looked through for those that have not started."""
STEP_MAX: Final = 2_000
"""The most rows that one step writes."""
WINDOWS_REACH: Final = 7 * 86_400 * MICROSECONDS
"""How far before a plan a stretch may have ended that is still extended: windows are read from there on."""
_FORESEEN: Final = 3_600 * MICROSECONDS
"""How far a pause is looked ahead: if so much of it is too much for rows, it is a stretch from the beginning."""
_SECONDS_AT_ONCE: Final = 20_000_000
"""Jobs times seconds of the window that are enumerated together: the most instants that there could be."""


Which: TypeAlias = NDArray[np.bool_]
_Batch: TypeAlias = tuple[Sequence[JobNumber], Expected]
"""Some jobs, and what they expected."""


class _Row(NamedTuple):
    """One write: a row, or more of a stretch. In a job they are ordered by the instant that they begin with."""

    at: int
    write: Wanted | ClaimedRow | Extension
    covered: tuple[Ref, ...] = ()
    """Claimed rows that lie in its window."""
    waiting: tuple[Ref, ...] = ()
    """Older rows that join the queue with it."""

    @property
    def is_queued(self) -> bool:
        """True if it is a recovery run that queues for the overlap slot of its job."""
        wanted = self.write.becomes if isinstance(self.write, ClaimedRow) else self.write
        return isinstance(wanted, Wanted) and wanted.status is OccurrenceState.QUEUED


def is_decided(plan: SweepPlan, timeline: Timeline, decided: Sequence[Key] = ()) -> bool:
    """Whether each instant that was expected in a plan has a row of its own among these: then nothing is missing,
    whatever windows there are."""
    try:
        expected = timeline.expected_next(plan.start, plan.end)
    except WindowError:
        return False
    there = {(key.job, key.instant) for key in decided if stands_for_itself(key)}
    pairs = zip(expected.jobs.tolist(), expected.instants.tolist(), strict=True)
    return not expected.gaps and all(pair in there for pair in pairs)


def last_step(plan: SweepPlan) -> SweepStep:
    """The end of a plan of which nothing is missing."""
    return SweepStep(fence=plan.fence, step=plan.step + 1, cursor=plan.cursor, is_last=True)


class Sweep:
    """A plan, and all that is needed to work it off. The same arguments give the same steps."""

    def __init__(
        self,
        plan: SweepPlan,
        timeline: Timeline,
        decided: Sequence[Key],
        windows: Sequence[OccurrenceRow],
        *,
        grace_period: int,
        unstarted: Unstarted = NONE_UNSTARTED,
    ) -> None:
        """`decided` are the keys from the plan's start to its end, `windows` those that end within WINDOWS_REACH before
        its start, or later; `unstarted` is what was due before the plan's end and has not started."""
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
        """What is left of the plan, step by step. The last step has nothing after it, and may be empty."""
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
        wanted: list[Wanted] = []
        extensions: list[Extension] = []
        claimed: list[ClaimedRow] = []
        for row in rows:
            match row.write:
                case Wanted():
                    wanted.append(row.write)
                case Extension():
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

    # -- what was expected, a bounded number of instants at a time ---------------------------------------------------

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
        return Expected(start, end, none, none, none, none, ("",), (Gap(job, start, end, 0, reason),))

    # -- what is missing of it, job by job ---------------------------------------------------------------------------

    def _by_job(self, batch: Sequence[JobNumber], expected: Expected) -> Iterator[tuple[JobNumber, list[_Row]]]:
        claimed = self._claimed.keys() & set(batch) if self._claimed else ()
        if not len(expected) and not expected.gaps and not claimed:
            return  # as it is nearly always, live
        gaps = _joined(expected.gaps)
        missing = np.flatnonzero(self._missing_in(expected))
        jobs, firsts = np.unique(expected.jobs[missing], return_index=True)
        places = dict(zip(jobs.tolist(), np.split(missing, firsts[1:]), strict=True)) if len(jobs) else {}
        for job in sorted({*gaps, *places, *claimed}):
            rows = self._of_job(job, expected, places[job]) if job in places else []
            rows += [row for gap in gaps.get(job, ()) for row in self._gap(gap)]
            yield job, self._with_claimed(rows, self._claimed[job]) if job in self._claimed else rows

    def _with_claimed(self, rows: Sequence[_Row], claimed: Mapping[int, OccurrenceRow]) -> list[_Row]:
        """The writes of a job, of which some are about rows that exist: these become what was decided, or are covered
        by a window. Claimed rows of a job that cannot be enumerated run."""
        found: list[_Row] = []
        left = dict(claimed)
        for row in rows:
            wanted = row.write
            if not isinstance(wanted, Wanted) or wanted.key.request == GAP:
                found.append(row)
                continue
            own, window = left.pop(wanted.key.instant, None), wanted.window
            inside = [] if window is None else [instant for instant in left if window.start <= instant < window.end]
            covered = tuple(left.pop(instant).ref for instant in sorted(inside))
            found.append(_Row(row.at, wanted if own is None else ClaimedRow(own.ref, wanted), covered))
        return found + [_Row(instant, _as_recovery(row)) for instant, row in left.items()]

    def _in_order(self, job: JobNumber, rows: Sequence[_Row]) -> list[_Row]:
        """The writes of a job by instant. With the first that queues come the older rows which wait."""
        ordered = sorted(rows, key=lambda row: row.at)
        if job not in self._waiting or not (queued := [n for n, row in enumerate(ordered) if row.is_queued]):
            return ordered
        first, last_at = queued[0], ordered[queued[-1]].at
        older = tuple(row.ref for row in self._waiting[job] if row.instant < last_at)
        ordered[first] = ordered[first]._replace(waiting=older)
        return ordered

    def _missing_in(self, expected: Expected) -> Which:
        matching = Matching(expected)
        jobs = set(np.unique(expected.jobs).tolist())
        keys = [key for job in jobs for key in self._decided.get(job, ())]
        rows, _ = matching.rows(keys)
        answering, gaps = windows_of(row for job in jobs for row in self._windows.get(job, ()))
        missing: Which = np.equal(rows + matching.spans(answering + gaps), 0)
        return missing

    def _of_job(self, job: JobNumber, expected: Expected, places: NDArray[np.int64]) -> list[_Row]:
        missing = Missing(expected.instants[places], places, expected.versions[places])
        try:
            policies = {version: self._policy(job, version) for version in sorted(set(missing.versions.tolist()))}
        except ItineraryError as error:
            return self._gap(Gap(job, self._plan.start, self._plan.end, int(missing.versions[-1]), str(error)))
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

    def _policy(self, job: JobNumber, version: int) -> Policy:
        config = self._timeline.definition(job, version).config()
        return Policy(version, self._timeline.schedule(job, version), config.recovery, config.priority, config.overlap)

    # -- what is skipped, and what nobody knows ----------------------------------------------------------------------

    def _skipped(self, job: JobNumber, block: Missing, policies: Mapping[int, Policy], reason: str) -> list[_Row]:
        first = int(block.instants[0])
        if (stretch := self._open_stretch(job, first, reason)) is not None:
            ref, window = stretch
            return [_Row(first, Extension(ref.ref, block.window.end, window.count + len(block)))]
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
        """The row of the same pause that ends where this block begins: nothing was expected in between."""
        for row in self._windows.get(job, ()):
            window = row.window
            if window is None or row.status is not OccurrenceState.SKIPPED or row.reason != reason:
                continue
            if window.end <= first and not self._count(job, window.end, first):
                return row, window
        return None

    def _is_long(self, job: JobNumber, block: Missing) -> bool:
        """Whether the pause that skips these has skipped more, with them, than shall have rows of their own.

        It is looked at whole, through all versions that it goes through: what is left of a block for whoever goes on
        with it begins later, and must be taken for the same.
        """
        stretch = self._timeline.in_force(job, int(block.instants[0]))
        if stretch is None or not isinstance(stretch.standing, Paused):
            return False
        since = stretch.standing.since
        ends = [
            one.end
            for one in self._timeline.stretches(job, since, since + _FORESEEN)
            if isinstance(one.standing, Paused) and one.standing.since == since
        ]
        return self._count(job, since, max([block.window.end, *ends])) > STRETCH_MIN

    def _count(self, job: JobNumber, start: int, end: int) -> int:
        """How many instants the job expected; more than enough if there are too many to count."""
        try:
            return len(self._timeline.expected(start, end, [job]))
        except WindowError:
            return STRETCH_MIN + 1

    def _gap(self, gap: Gap) -> list[_Row]:
        """A gap that goes on is one row, with the reason that it began with; later messages may differ."""
        at = ceil_second(gap.start) * MICROSECONDS
        for row in self._windows.get(gap.job, ()):
            window = row.window
            if window is None or row.request != GAP:
                continue
            if ceil_second(gap.start) <= ceil_second(window.end) and window.start <= gap.start:
                return [] if gap.end <= window.end else [_Row(at, Extension(row.ref, gap.end, 0))]
        if at >= gap.end:
            return []  # no whole second, and so no instant, lies in it
        key = Key(at, gap.job, Kind.SCHEDULED, GAP)
        window = Window(gap.start, gap.end, 0)
        reason = clean_text(f"not decided: {gap.reason}")
        return [_Row(at, Wanted(key, gap.version, at, OccurrenceState.MISSED, window=window, reason=reason))]


def _joined(gaps: Sequence[Gap]) -> dict[JobNumber, list[Gap]]:
    """The gaps of each job in order; what goes on, through two versions say, is one."""
    by_job: dict[JobNumber, list[Gap]] = {}
    for gap in sorted(gaps):
        found = by_job.setdefault(gap.job, [])
        if found and found[-1].end == gap.start:
            found[-1] = found[-1]._replace(end=gap.end)
        else:
            found.append(gap)
    return by_job


def _as_recovery(row: OccurrenceRow) -> ClaimedRow:
    """Let a claimed row run, of which no schedule says anything."""
    reason = "recovered: no node was there at its instant, and its job could not be enumerated"
    return ClaimedRow(row.ref, Wanted(row.key, row.version, row.due_at, is_recovery=True, reason=reason))


def _job_at(cursor: str) -> JobNumber:
    """The job that a cursor stands at."""
    try:
        return JobNumber(int(cursor or 0))
    except ValueError:
        raise RecordError(f"{shown(cursor)} is no cursor of a sweep; it is the number of a job") from None
