"""The findings of an audit, in sentences that lead a person to the job, the instant and the row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.ids import run_id
from itinerary.model.rows import JobNumber, JobRow, OccurrenceRow, Ref
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["LISTED_MAX", "AuditFinding", "AuditFindings", "Check"]

LISTED_MAX: Final = 10_000
"""The most findings that are listed. Further findings are only counted."""


class Check(StrEnum):
    """A rule that every store must satisfy at any time."""

    OWED = "every owed instant is decided exactly once"
    ONE_ROW = "one row for each key"
    TRAIL = "the audit trail is legal, and leads to the state of the row"
    INDEXES = "the tables by which rows are found agree with the rows"
    HELD = "a slot is held by one that runs or is about to, and what has ended holds nothing"
    LINE = "who stands in line is woken, and served in order"


class AuditFinding(msgspec.Struct, frozen=True):
    """A violation of a rule."""

    check: Check
    job: str
    instant: int | None
    """The instant in microseconds since the epoch, if there is one."""
    message: str
    occurrence: Ref | None = None
    """The number of the row, if there is one."""

    def __str__(self) -> str:
        if self.instant is None:
            return f"{self.job}: {self.message}"
        which = "" if self.occurrence is None else f", occurrence {self.occurrence}"
        return f"{self.job}:{self.instant // SECOND} ({shown_instant(self.instant)}{which}) {self.message}"


class AuditFindings:
    """The findings of an audit: a list of the first ones, and the count of all."""

    def __init__(self, jobs: Mapping[JobNumber, JobRow]) -> None:
        self._jobs = jobs
        self.listed: list[AuditFinding] = []
        self.counts: Counter[Check] = Counter()

    @property
    def count(self) -> int:
        """The number of findings, listed or not."""
        return self.counts.total()

    def add(
        self, check: Check, job: JobNumber, instant: int | None, message: str, occurrence: Ref | None = None
    ) -> None:
        """Add a finding."""
        self.counts[check] += 1
        if len(self.listed) < LISTED_MAX:
            self.listed.append(AuditFinding(check, self.name(job), instant, message, occurrence))

    def add_row(self, check: Check, row: OccurrenceRow, message: str) -> None:
        """Add a finding about an occurrence."""
        self.add(check, row.job, row.instant, message, row.ref)

    def name(self, job: JobNumber) -> str:
        """Return the name of a job."""
        if not job:
            return "the store"  # the missing row would name the job
        return self._jobs[job].name if job in self._jobs else f"job {job}"

    def run(self, job: JobNumber, instant: int) -> str:
        """Return the run id of an instant."""
        return run_id(self.name(job), instant)
