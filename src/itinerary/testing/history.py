"""The outcomes of a job's occurrences, for a test.

    run.history("etl").statuses == ["completed", "skipped"]
    run.history("etl")[-1].report.tasks[0].attempts[0].error      the traceback

The history is read from the store. Occurrences that are claimed ahead of time are not included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import overload

import msgspec

from itinerary.model.report import OccurrenceReport
from itinerary.model.states import OccurrenceState

__all__ = ["OccurrenceHistory", "PastOccurrence"]


class PastOccurrence(msgspec.Struct, frozen=True):
    """An occurrence that is or was due."""

    at: datetime
    """The instant of the occurrence."""
    status: OccurrenceState
    report: OccurrenceReport

    @property
    def reason(self) -> str | None:
        """The reason of the outcome, if any."""
        return self.report.reason

    @property
    def errors(self) -> list[str]:
        """The errors of its attempts, in order, each with its traceback."""
        return [attempt.error for task in self.report.tasks for attempt in task.attempts if attempt.error is not None]

    @property
    def attempts(self) -> int:
        """The number of attempts of all its tasks."""
        return sum(len(task.attempts) for task in self.report.tasks)

    def __str__(self) -> str:
        why = self.reason or next((error.splitlines()[-1] for error in reversed(self.errors)), "")
        return f"{self.at:%Y-%m-%d %H:%M:%S%z} {self.report.kind:<9} {self.status} {why}".rstrip()


class OccurrenceHistory(Sequence[PastOccurrence]):
    """The occurrences of a job, by instant."""

    def __init__(self, job: str, occurrences: Sequence[PastOccurrence]) -> None:
        self.job = job
        self._occurrences = tuple(occurrences)

    @property
    def statuses(self) -> list[str]:
        """The status of each occurrence."""
        return [one.status.value for one in self]

    @property
    def instants(self) -> list[datetime]:
        """The instants, in the zone of the test node."""
        return [one.at for one in self]

    @property
    def reports(self) -> list[OccurrenceReport]:
        """The report of each occurrence."""
        return [one.report for one in self]

    @property
    def errors(self) -> list[str]:
        """The errors of all attempts."""
        return [error for one in self for error in one.errors]

    def __len__(self) -> int:
        return len(self._occurrences)

    @overload
    def __getitem__(self, place: int) -> PastOccurrence: ...
    @overload
    def __getitem__(self, place: slice) -> OccurrenceHistory: ...
    def __getitem__(self, place: int | slice) -> PastOccurrence | OccurrenceHistory:
        if isinstance(place, slice):
            return OccurrenceHistory(self.job, self._occurrences[place])
        return self._occurrences[place]

    def __iter__(self) -> Iterator[PastOccurrence]:
        return iter(self._occurrences)

    def __repr__(self) -> str:
        return "\n".join([f"<History of {self.job!r}: {len(self)}>", *(f"  {one}" for one in self)])
