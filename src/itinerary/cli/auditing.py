"""`itinerary audit`: what was expected, held against what a store says was decided (U6).

The core compares (`core.auditing`); here a store is read for it, and the answer printed. A window of years may expect
millions of instants, so it is gone through a day at a time, and the answers are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from itinerary.core.auditing import LISTED_MAX, AuditReport, audit, excused
from itinerary.core.timeline import Timeline
from itinerary.errors import ConfigError
from itinerary.model.ids import run_id
from itinerary.model.queries import ByKey, Decided, Entries, Jobs, Standing, Windows
from itinerary.model.rows import EntryRow, JobNumber, JobRow
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["Audited", "audit_store"]

_PAGE: Final = 10_000
_PIECE: Final = 86_400 * SECOND
_DECIDED_MAX: Final = 1_000_000


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an audit, as `--json` prints it."""

    start: str
    end: str
    expected: int
    matched: int
    lost: int
    doubled: int
    unknown: int
    unexpected: int
    lost_runs: list[str]
    doubled_runs: list[str]
    unexpected_runs: list[str]
    gaps: list[str]
    """Jobs of which nobody can say what they expected, and why."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost and nothing doubled."""
        return not self.lost and not self.doubled


async def audit_store(store: Store, start: int, end: int) -> Audited:
    """Audit `[start, end)`, which must be past: what is not decided yet is not lost."""
    status = await store.read(Standing())
    if end > status.watermark:
        raise ConfigError(
            f"--to {_shown(end)} is later than {_shown(status.watermark)}, up to where everything is decided; "
            "audit an earlier window"
        )
    timeline = await _timeline(store)
    reports = [await _piece(store, timeline, first, last) async for first, last in _pieces(start, end)]
    return _added(timeline, start, end, reports)


async def _pieces(start: int, end: int) -> Any:
    for first in _steps(start, end):
        yield first, min(first + _PIECE, end)


def _steps(start: int, end: int) -> Iterator[int]:
    while start < end:
        yield start
        start += _PIECE


async def _piece(store: Store, timeline: Timeline, start: int, end: int) -> AuditReport:
    expected = timeline.expected(start, end)
    decided = await store.read(Decided(start, end, _DECIDED_MAX))
    if len(decided) == _DECIDED_MAX:
        raise ConfigError(f"a day has more than {_DECIDED_MAX} occurrences, the most that are compared at once")
    windows = await store.read(Windows(start))
    floors = {row.number: row.history_floor for row in timeline.jobs.values()}
    report = audit(expected, decided, windows, floors)
    return excused(report, await store.read(ByKey(report.unexpected))) if report.unexpected else report


async def _timeline(store: Store) -> Timeline:
    entries: list[EntryRow] = []
    while True:
        page = await store.read(Entries(entries[-1].revision if entries else 0, _PAGE))
        entries += page
        if len(page) < _PAGE:
            break
    jobs: list[JobRow] = []
    while True:
        found = await store.read(Jobs(jobs[-1].number if jobs else JobNumber(0), _PAGE))
        jobs += found
        if len(found) < _PAGE:
            return Timeline.of(entries, jobs)


def _added(timeline: Timeline, start: int, end: int, reports: list[AuditReport]) -> Audited:
    def named(job: JobNumber, instant: int) -> str:
        return run_id(timeline.jobs[job].name, instant)

    return Audited(
        start=_shown(start),
        end=_shown(end),
        expected=sum(report.expected for report in reports),
        matched=sum(report.matched for report in reports),
        lost=sum(report.lost_count for report in reports),
        doubled=sum(report.doubled_count for report in reports),
        unknown=sum(report.unknown_count for report in reports),
        unexpected=sum(len(report.unexpected) for report in reports),
        lost_runs=[named(due.job, due.instant) for report in reports for due in report.lost][:LISTED_MAX],
        doubled_runs=[named(due.job, due.instant) for report in reports for due in report.doubled][:LISTED_MAX],
        unexpected_runs=[named(key.job, key.instant) for report in reports for key in report.unexpected][:LISTED_MAX],
        gaps=sorted({f"{timeline.jobs[gap.job].name}: {gap.reason}" for report in reports for gap in report.gaps}),
    )


def _shown(instant: int) -> str:
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
