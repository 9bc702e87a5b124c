"""The line for a job's slot: who stands in it is served in the order of instants (X6), read from the audit trails.

Occurrences come in the order of their keys. So whoever may have been passed over by one has been seen before it; and
since nobody is served before its instant, a wait that was over by then is forgotten. What is remembered is as long as
the lines were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from itinerary.audit.findings import Check, Findings
from itinerary.model.audit_queries import Evidence
from itinerary.model.config import FrozenConfig
from itinerary.model.policies import Overlap
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import OccurrenceState

__all__ = ["Lines"]


class _Wait(NamedTuple):
    """A time `[since, until)` that an occurrence stood in line."""

    row: OccurrenceRow
    since: int
    until: int


class Lines:
    """Nobody gets a slot while one with an earlier instant stands in line for it, and goes on standing there."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._waits: defaultdict[JobNumber, list[_Wait]] = defaultdict(list)

    def stands_in_line(self, job: JobNumber) -> bool:
        """Whether somebody stood in line for a job's slot lately: only then does it matter who else was served."""
        return job in self._waits

    def look(self, evidence: Evidence, now: int) -> None:
        """The next one, as it was at `now`: who stands in line then may be served a moment later."""
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
    """The time that it stood in line, if it did, and when it was given the slot, if it was."""
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
