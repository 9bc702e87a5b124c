"""What has become of a job's occurrences, as a test asks for it.

    run.history("etl").statuses == ["completed", "skipped"]
    run.history("etl")[-1].report.tasks[0].attempts[0].error      the traceback

It is read from the store, like every answer about the past. What is claimed ahead of its time is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import overload

import msgspec

from itinerary.model.report import Report
from itinerary.model.states import OccurrenceState

__all__ = ["History", "Past"]


class Past(msgspec.Struct, frozen=True):
    """One occurrence whose time has come."""

    at: datetime
    """The instant that it is for."""
    status: OccurrenceState
    report: Report

    @property
    def reason(self) -> str | None:
        """Why it ended as it did, if there is something to say."""
        return self.report.reason

    @property
    def errors(self) -> list[str]:
        """What its attempts failed with, in order, each with its traceback."""
        return [attempt.error for task in self.report.tasks for attempt in task.attempts if attempt.error is not None]

    @property
    def attempts(self) -> int:
        """How many attempts its tasks have made together."""
        return sum(len(task.attempts) for task in self.report.tasks)

    def __str__(self) -> str:
        why = self.reason or next((error.splitlines()[-1] for error in reversed(self.errors)), "")
        return f"{self.at:%Y-%m-%d %H:%M:%S%z} {self.report.kind:<9} {self.status} {why}".rstrip()


class History(Sequence[Past]):
    """Those of a job, by instant."""

    def __init__(self, job: str, occurrences: Sequence[Past]) -> None:
        self.job = job
        self._occurrences = tuple(occurrences)

    @property
    def statuses(self) -> list[str]:
        """What has become of each."""
        return [one.status.value for one in self]

    @property
    def instants(self) -> list[datetime]:
        """When each was due, in the zone of the rehearsal."""
        return [one.at for one in self]

    @property
    def reports(self) -> list[Report]:
        """The report of each."""
        return [one.report for one in self]

    @property
    def errors(self) -> list[str]:
        """What attempts failed with, of all of them."""
        return [error for one in self for error in one.errors]

    def __len__(self) -> int:
        return len(self._occurrences)

    @overload
    def __getitem__(self, place: int) -> Past: ...
    @overload
    def __getitem__(self, place: slice) -> History: ...
    def __getitem__(self, place: int | slice) -> Past | History:
        if isinstance(place, slice):
            return History(self.job, self._occurrences[place])
        return self._occurrences[place]

    def __iter__(self) -> Iterator[Past]:
        return iter(self._occurrences)

    def __repr__(self) -> str:
        return "\n".join([f"<History of {self.job!r}: {len(self)}>", *(f"  {one}" for one in self)])
