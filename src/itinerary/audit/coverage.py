"""The check that every due instant is decided exactly once: by its own row, or in one window.

An instant is due if the versions in force made it due.

`core.recovery.audit` compares one piece of time after the other. This module turns the results into sentences and sums.
A window may cover many pieces. Its stated number of instants is checked after the last of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from itinerary.audit.findings import AuditFindings, Check
from itinerary.core.recovery.audit import AuditReport
from itinerary.core.recovery.match import JobSpan, PackedInstants, stands_for_itself
from itinerary.core.timeline.expected import Due, Expected
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState

__all__ = ["NOT_RUN", "CoverageCheck", "DecidedRow", "Sums", "outcome_of"]

_MAY_END_UNBEGUN: Final = (OccurrenceState.FAILED, OccurrenceState.CANCELLED)
_BEFORE_START: Final = "_before_start"
NOT_RUN: Final = frozenset(
    {OccurrenceState.SKIPPED.value, OccurrenceState.MISSED.value}
    | {f"{state.value}{_BEFORE_START}" for state in _MAY_END_UNBEGUN}
)
"""The outcomes of instants for which nothing ever ran."""


class DecidedRow(NamedTuple):
    """An existing row."""

    key: Key
    ref: Ref
    outcome: str
    """The outcome: see `outcome_of`."""


def outcome_of(row: OccurrenceRow) -> str:
    """Return the outcome of an occurrence: its state, marked if it ended without a start."""
    if row.started_at is None and row.status in _MAY_END_UNBEGUN:
        return f"{row.status.value}{_BEFORE_START}"
    return row.status.value


class Sums(msgspec.Struct, frozen=True):
    """The number of instants, in total and by result."""

    expected: int = 0
    matched: int = 0
    lost: int = 0
    doubled: int = 0
    unknown: int = 0
    unexpected: int = 0


class CoverageCheck:
    """The comparison of `[start, end)` with the store, piece by piece."""

    def __init__(self, start: int, end: int, windows: Sequence[OccurrenceRow], findings: AuditFindings) -> None:
        self._start, self._findings = start, findings
        self.windows = [row for row in windows if row.window is not None and row.window.start < end]
        """The windows that reach into pieces not compared yet."""
        self._inside: Counter[Ref] = Counter()
        self._in_gaps: set[JobNumber] = set()
        self._window_refs = frozenset(row.ref for row in self.windows)
        self.outcomes: Counter[str] = Counter()
        """The outcomes of the instants. An instant in a window has the outcome of that row."""
        self.sums = Sums()
        self.gaps: dict[tuple[JobNumber, str], None] = {}
        """Jobs whose expected instants are unknown, with the reason."""

    def take(
        self, report: AuditReport, expected: Expected, decided: Sequence[DecidedRow], unexpected: Collection[Key] = ()
    ) -> None:
        """Add one compared piece.

        Args:
            report: The result of the comparison.
            expected: The instants that were expected in the piece.
            decided: The rows of the piece.
            unexpected: All rows that were never expected, excused or not.
        """
        self._add(report)
        others = frozenset(unexpected)
        self.outcomes.update(
            one.outcome
            for one in decided
            if stands_for_itself(one.key) and one.ref not in self._window_refs and one.key not in others
        )
        for due in report.lost:
            self._say(due.job, due.instant, "is lost: nothing was decided about it")
        for due in report.doubled:
            self._say(due.job, due.instant, f"is decided more than once: by {self._deciders(due, decided)}")
        by_key = {decision.key: decision.ref for decision in decided} if report.unexpected else {}
        for key in report.unexpected:
            self._say(key.job, key.instant, f"was never expected, and has occurrence {by_key.get(key)}")
        for gap in report.gaps:
            self.gaps[gap.job, gap.reason] = None
            self._in_gaps.add(gap.job)
        self._count(expected)

    def _add(self, report: AuditReport) -> None:
        sums = self.sums
        self.sums = replace(
            sums,
            expected=sums.expected + report.expected,
            matched=sums.matched + report.matched,
            lost=sums.lost + report.lost_count,
            doubled=sums.doubled + report.doubled_count,
            unknown=sums.unknown + report.unknown_count,
            unexpected=sums.unexpected + len(report.unexpected),
        )
        not_listed = report.lost_count - len(report.lost) + report.doubled_count - len(report.doubled)
        self._findings.counts[Check.OWED] += not_listed

    def _say(self, job: JobNumber, instant: int, message: str) -> None:
        self._findings.add(Check.OWED, job, instant, message)

    def _deciders(self, due: Due, decided: Sequence[DecidedRow]) -> str:
        windows = {
            row.ref: row.window.start <= due.instant < row.window.end
            for row in self.windows
            if row.window is not None and row.job == due.job and row.kind.is_by_schedule and row.window.count
        }
        own = [
            f"occurrence {ref}"
            for key, ref, _ in decided
            if (key.job, key.instant) == (due.job, due.instant) and stands_for_itself(key) and ref not in windows
        ]
        around = [f"the window of occurrence {ref}" for ref, is_around in windows.items() if is_around]
        return " and ".join([*own, *around])

    def _count(self, expected: Expected) -> None:
        """Add the instants of this piece to each window. Compare the windows that end here with their stated count."""
        counted = [row for row in self.windows if row.window is not None and row.kind.is_by_schedule]
        if counted:
            spans = [JobSpan(row.job, row.window_start or 0, row.window_end or 0) for row in counted]
            for row, count in zip(counted, PackedInstants(expected).inside(spans).tolist(), strict=True):
                self._inside[row.ref] += count
                if count and row.window_count:
                    self.outcomes[outcome_of(row)] += count
        for row in self.windows:
            if row.window is not None and row.window.end <= expected.end:
                self._compare(row, row.window.count, self._inside.pop(row.ref, 0))
        self.windows = [row for row in self.windows if row.window is not None and row.window.end > expected.end]

    def _compare(self, row: OccurrenceRow, said: int, found: int) -> None:
        is_whole = row.window_start is not None and self._start <= row.window_start
        if said and is_whole and found != said and row.kind.is_by_schedule and row.job not in self._in_gaps:
            message = f"says that its window holds {said} instants, and it holds {found}"
            self._findings.add_row(Check.OWED, row, message)
