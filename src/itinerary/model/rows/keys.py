"""What rows are known by: the numbers that a store gives out, and the key that makes an occurrence the same one."""

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
"""An occurrence, for as long as its row is there; never given out twice."""
JobNumber = NewType("JobNumber", int)
"""A job, for ever, through removal and registration again; 0 stands for what concerns all jobs."""
FOR_ALL: Final = JobNumber(0)
"""The job of entries that concern all of them: calendars and zone data."""
NodeNumber = NewType("NodeNumber", int)
"""One start of one node (protocol rule 1): never given out twice, not even to the same machine."""


class Key(NamedTuple):
    """What makes an occurrence the same one (protocol rule 2). `recovery` of an instant has the key of `scheduled`.

    The instant comes first, so that rows which are created together lie together and the index grows at its end.
    """

    instant: int
    job: JobNumber
    kind: Kind
    request: str = ""
    """Of a trigger its request key, of a replay `<original>/<number>`; nothing for the others."""

    def id(self, job: JobId) -> OccurrenceId:
        """The id that people and other systems know it by."""
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
        """The run id, for people: `etl:1767225600`, and `etl:1767225600.replay-1` of a replay.

        A replay of an occurrence that no schedule made due names the first eight digits of that one's id, because each
        occurrence counts its own replays: `etl:1767225600.99bc3236.replay-1`.
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
