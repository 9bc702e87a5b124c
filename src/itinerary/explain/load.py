"""Read everything that the store knows about a job and an instant, and explain it.

The store is read in a few queries: one occurrence with all its details, the last thousand occurrences of the job, and
all known nodes. The timeline says which instants were expected. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from itinerary.core.recovery.match import GAP
from itinerary.core.timeline import history as segments
from itinerary.core.timeline.expected import Due, UnknownRange
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, NodeError, WindowError
from itinerary.explain.causes import Cause, RunResult
from itinerary.explain.context import ExplainContext, OccurrenceContext, RunOnNode
from itinerary.explain.delays import begin_of
from itinerary.explain.explanation import Explanation, Fact
from itinerary.explain.formatting import LocalTime
from itinerary.explain.instants import (
    explained_due,
    explained_gap,
    explained_never,
    never_shown,
    why_not_due,
)
from itinerary.explain.job_status import standing_words
from itinerary.explain.node_presence import NodePresence
from itinerary.explain.occurrences import explained_occurrence
from itinerary.explain.time_argument import NEAR, IntendedInstant, due_at, meant, next_due, previous_due, zone_of
from itinerary.explain.verdict import Verdict
from itinerary.model.occurrence import Kind
from itinerary.model.queries import (
    PAGE_MAX,
    ActiveQuery,
    ByKeyQuery,
    ByRefQuery,
    Detail,
    DetailsQuery,
    HistoryQuery,
    LimitUseQuery,
    NodesQuery,
    Status,
    StoreStatusQuery,
)
from itinerary.model.reasons import ReasonKind, named_occurrences, read_reason
from itinerary.model.rows import JobRow, Key, OccurrenceRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import DAY, EARLIEST, LATEST, Moment
from itinerary.schedules.suggestions import did_you_mean
from itinerary.stores.paging import occurrences_of, read_timeline, windows_after

__all__ = ["explain", "explain_occurrence"]

_FIRST: Final = EARLIEST + 2 * DAY
_LAST: Final = LATEST - 2 * DAY
"""Two days less than the supported range, since a local time may be before or after the same time in UTC."""
_NODES_MAX: Final = 10_000
_HOLDERS_MAX: Final = 20
_OTHERS_MAX: Final = 20
"""The number of occurrences named by an audit trail whose details are read."""


async def explain(store: Store, job: str, when: Moment | None = None, timeline: Timeline | None = None) -> Explanation:
    """Explain why a job ran, ran late, or did not run at a time.

    Args:
        store: The store to read from.
        job: The name of the job.
        when: The time of the question. A local time is on the clock of the job's zone. None: the last time that the job
            ran or should have run.
        timeline: The timeline of the store, if the caller has read it already.

    Raises:
        NodeError: The store has no such job.
        WindowError: The time is outside the supported years.
    """
    if when is not None and not _FIRST <= when.seconds < _LAST:
        raise WindowError(f"{when} lies outside of the supported years 1900 to 2199")
    timeline = await read_timeline(store.read) if timeline is None else timeline
    row = _job(timeline, job)
    return await _Asking(store, timeline, row, await store.read(StoreStatusQuery())).answer(when)


async def explain_occurrence(store: Store, timeline: Timeline, status: Status, row: OccurrenceRow) -> Explanation:
    """Explain one occurrence, for a caller that has already read the occurrence and the timeline."""
    return await _Asking(store, timeline, timeline.jobs[row.job], status).about(row)


def _ran(detail: Detail) -> RunOnNode:
    begun = begin_of(detail)
    ends = [attempt.ended_at for attempt in detail.attempts]
    until = None if None in ends else max((end for end in ends if end is not None), default=None)
    return RunOnNode(None if begun is None else begun.node, until)


def _job(timeline: Timeline, name: str) -> JobRow:
    by_name = {row.name: row for row in timeline.jobs.values()}
    if name in by_name:
        return by_name[name]
    hint = did_you_mean(name, by_name, otherwise="see how it is spelt, or which store is asked")
    raise NodeError(f"there is no job {name!r} in the store; {hint}")


class _Asking:
    """A question about one job."""

    def __init__(self, store: Store, timeline: Timeline, job: JobRow, status: Status) -> None:
        self._store, self._timeline, self._job, self._status = store, timeline, job, status
        self._rows: Mapping[Ref, OccurrenceRow] = {}
        self._has_all_active = False

    async def answer(self, when: Moment | None) -> Explanation:
        ended = await self._store.read(HistoryQuery(self._job.number, limit=PAGE_MAX))
        active = await self._store.read(ActiveQuery(self._job.number, limit=PAGE_MAX))
        self._rows = {row.ref: row for row in (*ended.rows, *active)}
        self._has_all_active = len(active) < PAGE_MAX
        attendance = NodePresence(await self._store.read(NodesQuery(_NODES_MAX)), self._status.now)
        if when is None:
            return await self._newest(attendance)
        asked = meant(self._timeline, self._job.number, when)
        return await self._at(self._context(asked.instant, attendance), asked)

    async def about(self, row: OccurrenceRow) -> Explanation:
        same_instant = await occurrences_of(self._store.read, self._job.number, row.instant)
        active = await self._store.read(ActiveQuery(self._job.number, limit=PAGE_MAX))
        self._rows = {one.ref: one for one in (*same_instant, *active)}
        self._has_all_active = len(active) < PAGE_MAX
        attendance = NodePresence(await self._store.read(NodesQuery(_NODES_MAX)), self._status.now)
        return await self._found(self._context(row.instant, attendance), row, row.instant)

    def _context(self, about: int, attendance: NodePresence) -> ExplainContext:
        time = LocalTime(zone_of(self._timeline, self._job.number, about), about)
        now = self._status.now
        return ExplainContext(
            self._job, self._timeline, now, self._status.watermark, attendance, time, self._following()
        )

    def _following(self) -> int | None:
        try:
            return self._timeline.next_run(self._job.number, self._status.now)
        except ItineraryError:
            return None  # the answer explains the error

    # -- the newest occurrence -----------------------------------------------------------------------------------------

    async def _newest(self, attendance: NodePresence) -> Explanation:
        """Explain the last instant that ran or should have run; if there is none, the first that is to come."""
        now = self._status.now
        due = [row.due_at for row in self._rows.values() if row.due_at <= now]
        last = max(self._rows.values(), key=lambda row: (row.due_at <= now, row.due_at), default=None) if due else None
        try:
            expected = previous_due(self._timeline, self._job.number, now + 1)
        except ItineraryError as error:
            return explained_gap(self._context(now, attendance), now - now % SECOND, str(error))
        if last is not None and (expected is None or last.instant >= expected):
            context = self._with_outlook(self._context(last.instant, attendance))
            return await self._found(context, last, last.instant)
        about = expected if expected is not None else self._following()
        if about is None:
            return self._nothing(self._context(now, attendance))
        return await self._at(self._with_outlook(self._context(about, attendance)), IntendedInstant(about))

    def _with_outlook(self, context: ExplainContext) -> ExplainContext:
        """Return the scene with a closing sentence if nothing is to come."""
        try:
            segment = self._timeline.in_force(self._job.number, context.now)
            if segment is None or context.following is not None:
                return context
            segment.schedule.require_ready()
        except ItineraryError:
            return context  # the upcoming instants are unknown, and the answer says why
        if isinstance(segment.status, segments.JobActive):
            return replace(context, outlook="It has no instant left.")
        stands = standing_words(segment.status, context)
        return replace(context, outlook=f"Nothing is to come: {stands.replace('was', 'is', 1)}.", stands=stands)

    def _nothing(self, context: ExplainContext) -> Explanation:
        gap = due_at(self._timeline, self._job.number, context.now)
        if isinstance(gap, UnknownRange):
            return explained_gap(context, context.now - context.now % SECOND, gap)
        why = Verdict(RunResult.NOT_DUE, Cause.SCHEDULE, "is not due, has never been, and will not be")
        return explained_never(self._with_outlook(context), (None, None), why, (), context.now)

    # -- an instant ----------------------------------------------------------------------------------------------------

    async def _at(self, context: ExplainContext, asked: IntendedInstant, *, is_near: bool = False) -> Explanation:
        instant = asked.instant - asked.instant % SECOND
        if asked.missing is not None and due_at(self._timeline, self._job.number, instant) is not None:
            context = replace(context, notes=(*context.notes, _missing_words(context, asked.missing, instant)))
        row = await self._row_at(instant)
        if row is not None:
            return await self._found(context, row, instant)
        try:
            due = due_at(self._timeline, self._job.number, instant)
        except ItineraryError as error:
            return explained_gap(context, instant, str(error))
        if isinstance(due, UnknownRange):
            return explained_gap(context, instant, due)
        if isinstance(due, Due):
            return explained_due(context, due)
        return await self._not_due(context, asked, instant, is_near=is_near)

    async def _row_at(self, instant: int) -> OccurrenceRow | None:
        """Return the row that covers an instant: its own, a window around it, or else a run requested at that time."""
        key = Key(instant, self._job.number, Kind.SCHEDULED)
        own = (await self._store.read(ByKeyQuery((key,)))).get(key)
        if own is not None:
            return own
        windows = [row for row in await windows_after(self._store.read, instant) if _covers(row, self._job, instant)]
        if not self._is_expected(instant):
            windows = [row for row in windows if row.request == GAP]  # a window covers due instants, not every second
        if windows:
            return min(windows, key=lambda row: row.request == GAP)
        asked_for = [row for row in self._rows.values() if row.instant - row.instant % SECOND == instant]
        return max(asked_for, key=lambda row: row.ref, default=None)

    def _is_expected(self, instant: int) -> bool:
        try:
            return isinstance(due_at(self._timeline, self._job.number, instant), Due)
        except ItineraryError:
            return False

    async def _not_due(
        self, context: ExplainContext, asked: IntendedInstant, instant: int, *, is_near: bool
    ) -> Explanation:
        try:
            why = why_not_due(context, instant)
            around = (
                previous_due(self._timeline, self._job.number, instant),
                next_due(self._timeline, self._job.number, instant),
            )
        except ItineraryError as error:
            return explained_gap(context, instant, str(error))
        if asked.missing is not None and why is None:
            why = never_shown(context, asked.missing, instant)
        if why is None and not is_near:
            nearest = self._nearest(instant, around)
            if nearest is not None:
                found = context.time.brief(nearest)
                note = f"Nothing is due at {context.time.brief(instant)}; the nearest instant is {found}."
                return await self._at(
                    replace(context, notes=(*context.notes, note)), IntendedInstant(nearest), is_near=True
                )
        return explained_never(context, around, why, tuple(self._beside(context, around)), instant)

    def _nearest(self, instant: int, around: Iterable[int | None]) -> int | None:
        there = [row.instant - row.instant % SECOND for row in self._rows.values() if not row.kind.is_by_schedule]
        near = [one for one in (*around, *there) if one is not None and abs(one - instant) <= NEAR]
        return min(near, key=lambda one: (abs(one - instant), one), default=None)

    def _beside(self, context: ExplainContext, around: Iterable[int | None]) -> Iterable[Fact]:
        """Yield the status of the runs before and after the instant."""
        by_instant = {row.instant: row for row in self._rows.values() if row.kind.is_by_schedule}
        for instant in around:
            if instant is not None and (row := by_instant.get(instant)) is not None:
                yield context.fact(instant, f"{row.status.value.replace('_', ' ')} ({context.run_id(row)})")

    # -- an occurrence -------------------------------------------------------------------------------------------------

    async def _found(self, context: ExplainContext, row: OccurrenceRow, instant: int) -> Explanation:
        details = await self._store.read(DetailsQuery((row.ref,)))
        if not details:
            raise NodeError(
                f"{context.job.name} at {context.time.full(instant)} was forgotten while it was read; ask again"
            )
        detail = details[0]
        texts = [line.why for line in detail.transitions]
        named = {ref for text in (*texts, row.reason, row.cancelled_by) for ref in named_occurrences(text)}
        again = [one for one in self._rows.values() if _is_again(one, row, instant)]
        others = await self._store.read(ByRefQuery(tuple(sorted(named))))
        found = OccurrenceContext(
            context,
            instant,
            detail,
            others=others,
            ran=await self._ran(others),
            line=self._line(),
            holders=await self._holders(detail.row),
            again=sorted(again, key=lambda one: one.ref),
        )
        return explained_occurrence(found)

    async def _ran(self, others: Iterable[Ref]) -> dict[Ref, RunOnNode]:
        """Return the node and the end of other runs.

        Their rows do not say: an orphaned row has no owner, and an end may be written long after it happened.
        """
        refs = tuple(others)[:_OTHERS_MAX]
        details = await self._store.read(DetailsQuery(refs)) if refs else ()
        return {detail.row.ref: _ran(detail) for detail in details}

    def _line(self) -> list[OccurrenceRow]:
        """Return the occurrences in the queue; empty if the job has more active occurrences than were read."""
        if not self._has_all_active:
            return []
        return sorted(
            (row for row in self._rows.values() if row.status is OccurrenceState.QUEUED), key=lambda row: row.key
        )

    async def _holders(self, row: OccurrenceRow) -> dict[str, Sequence[OccurrenceRow]]:
        """Return the runs that hold the limit that the occurrence waits for."""
        reason = read_reason(row.reason)
        if row.status in FINAL or reason is None or reason.kind is not ReasonKind.LIMIT or reason.name is None:
            return {}
        refs = await self._store.read(LimitUseQuery(reason.name, _HOLDERS_MAX))
        rows = await self._store.read(ByRefQuery(tuple(refs)))
        return {reason.name: [rows[ref] for ref in refs if ref in rows]}


def _covers(row: OccurrenceRow, job: JobRow, instant: int) -> bool:
    window = row.window
    return (
        window is not None
        and row.job == job.number
        and row.kind.is_by_schedule
        and window.start <= instant < window.end
    )


def _is_again(one: OccurrenceRow, row: OccurrenceRow, instant: int) -> bool:
    return one.ref != row.ref and one.instant == instant and one.kind in (Kind.REPLAY, Kind.BACKFILL)


def _missing_words(context: ExplainContext, reading: str, instant: int) -> str:
    shows = "never showed" if instant <= context.now else "never shows"
    return f"The clock of {context.time.zone.name} {shows} {reading}: it goes on at {context.time.brief(instant)}."
