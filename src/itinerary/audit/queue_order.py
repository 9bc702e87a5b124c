"""The check that overlap queues are served in the order of instants (X6), from the audit trails.

Occurrences arrive in the order of their keys. So every occurrence that a later one may have overtaken has been seen
before it. No occurrence is served before its instant, so a wait that ended before that instant is dropped. The memory
used is proportional to the length of the queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from itinerary.audit.findings import AuditFindings, Check
from itinerary.model.audit_queries import Evidence
from itinerary.model.config import FrozenConfig
from itinerary.model.policies import Overlap
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState

__all__ = ["OverlapQueueOrder"]


class _Wait(NamedTuple):
    """A time range `[since, until)` in which an occurrence was queued."""

    row: OccurrenceRow
    since: int
    until: int


class OverlapQueueOrder:
    """The rule that no occurrence gets an overlap slot while one with an earlier instant stays queued for it."""

    def __init__(self, findings: AuditFindings) -> None:
        self._findings = findings
        self._waits: defaultdict[JobNumber, list[_Wait]] = defaultdict(list)

    def stands_in_line(self, job: JobNumber) -> bool:
        """True if an occurrence of the job was queued recently.

        Only then does the order of other occurrences matter.
        """
        return job in self._waits

    def look(self, evidence: Evidence, now: int) -> None:
        """Check the next occurrence, as it was at `now`.

        An occurrence that is queued then may be served a moment later.
        """
        row = evidence.row
        wait, turn = _served(evidence, now)
        if row.job in self._waits:
            waits = [earlier for earlier in self._waits[row.job] if earlier.until > row.instant]
            self._waits[row.job] = waits
            if turn is not None and waits and _queues(evidence.config):
                self._passed_over(row, turn, waits)
        if wait is not None:
            self._waits[row.job].append(wait)

    def _passed_over(self, row: OccurrenceRow, turn: int, waits: Sequence[_Wait]) -> None:
        for wait in waits:
            if wait.row.ref != row.ref and wait.row.key < row.key and wait.since < turn < wait.until:
                before = f"{self._findings.run(row.job, wait.row.instant)} (occurrence {wait.row.ref})"
                self._findings.add_row(Check.LINE, row, f"was served while {before} stood in line")


def _served(evidence: Evidence, now: int) -> tuple[_Wait | None, int | None]:
    """Return the time in which it was queued, if it was, and when it got the overlap slot, if it did."""
    row, since = evidence.row, None
    for line in evidence.trail:
        if line.after is OccurrenceState.QUEUED:
            since = line.at
        elif since is not None:
            return _Wait(row, since, line.at), line.at if line.after is OccurrenceState.PENDING else None
    if since is not None:
        return _Wait(row, since, now), None
    return None, row.started_at


def _queues(config: str | None) -> bool:
    overlap = None if config is None else _overlap_in(config)
    return overlap is not None and overlap.queues


@lru_cache(maxsize=4_096)
def _overlap_in(config: str) -> Overlap:
    return msgspec.json.decode(config, type=FrozenConfig).job.overlap
