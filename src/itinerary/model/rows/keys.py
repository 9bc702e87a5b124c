"""The identity of rows: the numbers that a store assigns, and the key of an occurrence."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType
from uuid import UUID

import msgspec

from itinerary.model.ids import (
    JobId,
    OccurrenceId,
    backfill_id,
    job_id,
    occurrence_id,
    replay_id,
    run_id,
    trigger_id,
)
from itinerary.model.occurrence import Kind
from itinerary.schedules.durations import SECOND

__all__ = ["FOR_ALL", "JobNumber", "Key", "NodeNumber", "Ref", "Row"]

Ref = NewType("Ref", int)
"""The number of an occurrence while its row exists. Never assigned twice."""
JobNumber = NewType("JobNumber", int)
"""The number of a job, kept through removal and new registration. 0 means all jobs."""
FOR_ALL: Final = JobNumber(0)
"""The job of entries that belong to no job: zone data, and the removal of old history."""
NodeNumber = NewType("NodeNumber", int)
"""The number of one start of one node (protocol rule 1). Never assigned twice, not even to the same machine."""


class Key(NamedTuple):
    """The identity of an occurrence (protocol rule 2). `recovery` of an instant has the key of `scheduled`.

    The instant comes first: rows that are created together are stored together, and the index grows at its end.
    """

    instant: int
    job: JobNumber
    kind: Kind
    request: str = ""
    """The request key of a trigger, or `<original>/<number>` of a replay. Empty for the others."""

    def id(self, job: JobId) -> OccurrenceId:
        """Return the id that people and other systems use."""
        match self.kind:
            case Kind.SCHEDULED | Kind.RECOVERY:
                return occurrence_id(job, self.instant)
            case Kind.BACKFILL:
                return backfill_id(job, self.instant)
            case Kind.TRIGGER:
                return trigger_id(job, self.request)
            case Kind.REPLAY:
                original, _, number = self.request.partition("/")
                return replay_id(job, OccurrenceId(UUID(original)), int(number))

    def run_id(self, job_name: str) -> str:
        """Return the run id that people see: `etl:1767225600`, or `etl:1767225600.replay-1` for a replay.

        Each occurrence counts its own replays. So the replay of an occurrence that no schedule made due contains eight
        digits of its original's id: `etl:1767225600.99bc3236.replay-1`.
        """
        instant = self.instant - self.instant % SECOND
        name = run_id(job_name, instant)
        if self.kind is not Kind.REPLAY:
            return name
        original, _, number = self.request.partition("/")
        is_of_schedule = original == str(occurrence_id(job_id(job_name), instant))
        return f"{name}.replay-{number}" if is_of_schedule else f"{name}.{original[:8]}.replay-{number}"


class Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A row of plain values."""
