"""The audit of a store, page by page.

    the timeline, the windows                     read first
    pointer tables                                active, waiting, shares, slots: small tables, as they are now
    occurrences of the window, in order ─┬─► row_consistency: each for itself
                                         ├─► queue_order: each against those before it
                                         └─► coverage: one piece of time after the other, against what was expected

Each page is read in one transaction, so the audit sees no half-done work on a store in use. Comparisons across pages
concern the past, which does not change: the window ends at or before the watermark. New timeline entries take effect
later. Only pruning still changes the past. So instants that seem lost are checked again, with the current floors of the
histories.

Memory is bounded: it holds a page of occurrences, the keys of a piece, the overlap queues, and all windows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from itinerary.audit.coverage import NOT_RUN, CoverageCheck, DecidedRow, outcome_of
from itinerary.audit.findings import AuditFinding, AuditFindings, Check
from itinerary.audit.queue_order import OverlapQueueOrder
from itinerary.audit.row_consistency import check_entry, check_evidence, is_sound
from itinerary.core.recovery.audit import AuditReport, audit, excused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ConfigError, WindowError
from itinerary.model.audit_queries import EVIDENCE_PAGE, Entry, Evidence, InspectQuery, PointersQuery, PointerTable
from itinerary.model.queries import ByKeyQuery, StoreStatusQuery
from itinerary.model.rows import JobNumber, JobRow, Key, OccurrenceRow, Ref
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant
from itinerary.stores.paging import jobs_after, read_timeline

__all__ = ["DECIDED_WITHIN", "AuditProgress", "AuditResult", "NotLookedAt", "audit_store", "audit_window"]

_PIECE: Final = 86_400 * SECOND
DECIDED_WITHIN: Final = 60 * SECOND
"""The time that a store may take to decide what is due. After that an audit reports it as undecided."""
_COUNTED_MAX: Final = 100_000
"""The most undecided instants that are counted."""
_PIECE_ROWS: Final = 50_000
"""The most rows, or the longest time, that are compared at once with what was expected."""


class AuditProgress(msgspec.Struct, frozen=True):
    """The progress of an audit."""

    start: int
    upto: int
    end: int
    occurrences: int


class NotLookedAt(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the window that an audit cannot judge: the store has not decided everything in it yet."""

    start: str
    """The start of the part. Everything before it is decided."""
    end: str
    expected: int
    """The number of instants that were due in it."""
    is_more: bool = False
    """True if there are more than `expected`: counting stopped."""


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit, as `--json` prints it."""

    start: str
    end: str
    occurrences: int
    """The number of examined occurrences."""
    expected: int
    matched: int
    lost: int
    doubled: int
    unknown: int
    unexpected: int
    wrong: int
    """The number of other faults: trails, indexes, held slots and shares, overlap queues."""
    findings: tuple[AuditFinding, ...]
    gaps: tuple[str, ...]
    """Jobs whose expected instants are unknown, with the reason."""
    outcomes: dict[str, int] = {}
    """The number of decided instants, by outcome. An instant in the window of another row has the outcome of that
    row."""
    not_run: int = 0
    """The number of instants for which nothing ever ran: skipped, missed, ended before their start, or lost."""
    not_looked_at: NotLookedAt | None = None
    """The part of the window that is not decided yet. None: the whole window was examined."""

    @property
    def is_complete(self) -> bool:
        """True if the whole window was examined."""
        return self.not_looked_at is None

    @property
    def is_clean(self) -> bool:
        """True if nothing is lost, doubled or wrong."""
        return not (self.lost or self.doubled or self.unexpected or self.wrong)


async def audit_store(
    store: Store,
    start: int | None = None,
    end: int | None = None,
    handle: Callable[[AuditProgress], None] = lambda _: None,
) -> AuditResult:
    """Audit the decided part of `[start, end)`, and report the undecided part.

    Args:
        store: The store to audit.
        start: The start of the window. None: the earliest start of any job's history.
        end: The end of the window, exclusive. None: now, less the minute that the store may take to decide what is due.
        hear: Called with the progress of the audit.

    Returns:
        The result. `not_looked_at` is the part of the window after the watermark: undecided instants are not lost, but
            cannot be judged.

    Raises:
        ConfigError: The window starts after the end of the decided part.
    """
    status = await store.read(StoreStatusQuery())
    upto = status.watermark if end is None else min(end, status.watermark)
    if start is not None and start >= upto and end is not None:
        raise ConfigError(
            f"everything is decided up to {shown_instant(status.watermark)}, and the window begins at "
            f"{shown_instant(start)}; audit an earlier window"
        )
    found = await audit_window(store, start, upto, handle)
    begin = upto if start is None else max(start, upto)
    behind = await _not_looked_at(store, begin, end, status.now)
    return found if behind is None else msgspec.structs.replace(found, not_looked_at=behind)


async def _not_looked_at(store: Store, start: int, end: int | None, now: int) -> NotLookedAt | None:
    """Return the part of the window after the watermark.

    A store decides what is due within seconds. So a window without an explicit end ends a minute ago. The window is
    complete if nothing was due between the watermark and that time.
    """
    last = now - DECIDED_WITHIN if end is None else end
    if last <= start:
        return None
    expected, is_more = _count_due(await read_timeline(store.read), start, min(last, now))
    if not expected and end is None:
        return None
    return NotLookedAt(start=shown_instant(start), end=shown_instant(last), expected=expected, is_more=is_more)


def _count_due(timeline: Timeline, start: int, end: int) -> tuple[int, bool]:
    """Return the number of instants that were due in `[start, end)`, and whether there are more than were counted."""
    count, piece = 0, _PIECE
    while start < end:
        if count >= _COUNTED_MAX:
            return count, True
        upto = min(start + piece, end)
        try:
            count += len(timeline.expected(start, upto))
        except WindowError:
            if piece <= SECOND:
                return count, True
            piece //= 2
            continue
        start = upto
    return count, False


async def audit_window(
    store: Store, start: int | None, end: int, handle: Callable[[AuditProgress], None] = lambda _: None
) -> AuditResult:
    """Audit `[start, end)`, in which everything should be decided, independent of the watermark."""
    timeline = await read_timeline(store.read)
    if start is None:
        start = min((job.history_floor for job in timeline.jobs.values()), default=end)
    return await _Audit(store, timeline, min(start, end), end, handle).run()


class _Audit:
    """An audit in progress."""

    def __init__(
        self, store: Store, timeline: Timeline, start: int, end: int, handle: Callable[[AuditProgress], None]
    ) -> None:
        self._store, self._timeline, self._handle = store, timeline, handle
        self._start, self._end = start, end
        self._findings = AuditFindings(timeline.jobs)
        self._lines = OverlapQueueOrder(self._findings)
        self._floors = _floors(timeline.jobs.values())
        self._count = 0
        self._upto = start
        """The end of the part in which instants have been compared."""
        self._decided: list[DecidedRow] = []
        """Rows that were read and not compared yet, in order."""
        self._instants = CoverageCheck(start, end, (), self._findings)

    async def run(self) -> AuditResult:
        windows = await self._entries(PointerTable.WINDOWS, (self._start + 1,))
        self._instants = CoverageCheck(self._start, self._end, windows, self._findings)
        for table in PointerTable:
            if table is not PointerTable.WINDOWS:
                await self._entries(table)
        await self._rows()
        sums, findings, outcomes = self._instants.sums, self._findings, self._instants.outcomes
        return AuditResult(
            start=shown_instant(self._start),
            end=shown_instant(self._end),
            occurrences=self._count,
            **msgspec.structs.asdict(sums),
            wrong=findings.count - sums.lost - sums.doubled - sums.unexpected,
            findings=tuple(findings.listed),
            gaps=tuple(sorted(f"{findings.name(job)}: {reason}" for job, reason in self._instants.gaps)),
            outcomes={name: outcomes[name] for name in sorted(outcomes)},
            not_run=sums.lost + sum(outcomes[name] for name in NOT_RUN),
        )

    # -- pointer tables ----------------------------------------------------------------------------------------------

    async def _entries(self, table: PointerTable, begin: tuple[int | str, ...] = ()) -> list[OccurrenceRow]:
        """Check a pointer table. Return the rows of the windows table."""
        rows: dict[Ref, OccurrenceRow] = {}
        following: tuple[int | str, ...] | None = begin
        last: Entry | None = None
        while following is not None:
            page = await self._store.read(PointersQuery(table, following))
            for entry, row in page.found:
                if entry == last:
                    continue  # already on the previous page
                check_entry(entry, row, self._findings)
                last = entry
                if row is not None and table is PointerTable.WINDOWS:
                    rows[row.ref] = row
            following = page.next
        return list(rows.values())

    # -- occurrences, in order ---------------------------------------------------------------------------------------

    async def _rows(self) -> None:
        begin: Key | None = None
        limit, seen = EVIDENCE_PAGE, frozenset[Ref]()
        while True:
            page = await self._store.read(InspectQuery(self._start, self._end, begin, limit))
            for evidence in page.found:
                if not seen or evidence.row.ref not in seen:
                    self._look(evidence, page.now)
            if page.next is None:
                break
            seen = frozenset(_last_of(page.found, page.next))
            limit = limit * 2 if page.next == begin else EVIDENCE_PAGE  # a key that fills a page has too many rows
            begin = page.next
            if len(self._decided) >= _PIECE_ROWS or begin.instant - self._upto >= _PIECE:
                await self._compare(begin.instant)
            self._handle(AuditProgress(self._start, begin.instant, self._end, self._count))
        await self._compare(self._end)

    def _look(self, evidence: Evidence, now: int) -> None:
        row = evidence.row
        decision = DecidedRow(row.key, row.ref, outcome_of(row))
        if self._decided and self._decided[-1].key == decision.key:
            other = self._decided[-1].ref
            self._findings.add_row(Check.ONE_ROW, row, f"has the key of occurrence {other}")
        self._count += 1
        self._decided.append(decision)
        if is_sound(evidence) and not self._lines.stands_in_line(row.job):
            return
        check_evidence(evidence, self._findings)
        self._lines.look(evidence, now)

    # -- instants, a piece at a time ---------------------------------------------------------------------------------

    async def _compare(self, upto: int) -> None:
        """Compare the rows with what was expected, up to an instant."""
        while self._upto < upto:
            end = min(self._upto + _PIECE, upto)
            count = bisect_left(self._decided, end, key=lambda decision: decision.key.instant)
            await self._piece(self._upto, end, self._decided[:count])
            del self._decided[:count]
            self._upto = end
            self._handle(AuditProgress(self._start, end, self._end, self._count))

    async def _piece(self, start: int, end: int, decided: Sequence[DecidedRow]) -> None:
        try:
            expected = self._timeline.expected(start, end)
        except WindowError:
            if end - start <= SECOND:
                raise
            middle = (start + end) // 2
            count = bisect_left(decided, middle, key=lambda decision: decision.key.instant)
            await self._piece(start, middle, decided[:count])
            await self._piece(middle, end, decided[count:])
            return
        keys = [decision.key for decision in decided]
        report = audit(expected, keys, self._instants.windows, self._floors)
        if report.lost_count:
            self._floors = _floors(await jobs_after(self._store.read))
            report = audit(expected, keys, self._instants.windows, self._floors)
        self._instants.take(await self._excused(report), expected, decided, report.unexpected)

    async def _excused(self, report: AuditReport) -> AuditReport:
        """Return the report without withdrawn occurrences."""
        found: dict[Key, OccurrenceRow] = {}
        for first in range(0, len(report.unexpected), EVIDENCE_PAGE):
            found |= await self._store.read(ByKeyQuery(report.unexpected[first : first + EVIDENCE_PAGE]))
        return excused(report, found)


def _last_of(found: Sequence[Evidence], key: Key) -> Iterator[Ref]:
    """Yield the last occurrences of a page that have this key."""
    for evidence in reversed(found):
        if evidence.row.key != key:
            return
        yield evidence.row.ref


def _floors(jobs: Iterable[JobRow]) -> dict[JobNumber, int]:
    return {row.number: row.history_floor for row in jobs}
