"""Bodies of requests, validated strictly: an unknown key is an error (Q7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from itinerary.core.recovery.backfill import InstantChoice
from itinerary.core.recovery.pause import HeldBacklog
from itinerary.model.policies import UpdatePolicy
from itinerary.schedules.instants import LATEST, MICROSECONDS, microseconds_of
from itinerary.web.problems import RequestRefused

__all__ = [
    "AppendBody",
    "ApplyBody",
    "BackfillBody",
    "Instant",
    "JobsBody",
    "PauseBody",
    "PruneBody",
    "ReasonBody",
    "ReplayBody",
    "RollbackBody",
    "SimulateBody",
    "SkipBody",
    "TriggerBody",
    "UpdateBody",
    "microseconds",
]

Text: TypeAlias = Annotated[str, Meta(max_length=255)]
Reason: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
Duration: TypeAlias = Annotated[str, Meta(max_length=60)]
VersionChoice: TypeAlias = Literal["original", "current"]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all bodies."""


class ReasonBody(Body, frozen=True):
    """The reason of a change. The change log keeps it with the caller and the time."""

    reason: Reason | None = None


class PauseBody(Body, frozen=True):
    """A pause of a job: its instants are skipped until `until`, or until the job is resumed."""

    reason: Reason | None = None
    until: Instant | None = None


class ResumeBody(Body, frozen=True):
    """The end of a pause, and the fate of the occurrences that it held."""

    reason: Reason | None = None
    backlog: HeldBacklog = HeldBacklog.RUN


class SkipBody(Body, frozen=True):
    """An upcoming instant to skip."""

    instant: Instant
    reason: Reason | None = None


class TriggerBody(Body, frozen=True):
    """A run of a job now."""

    reason: Reason | None = None
    options: dict[str, Any] = {}
    """Overrides for this run only, as in a job file."""


class AdjustBody(Body, frozen=True):
    """Overrides for an occurrence that has not started."""

    options: dict[str, Any]
    """Overrides for this run only, as in a job file. Keys that are not named stay unchanged."""
    reason: Reason | None = None


class ReplayBody(Body, frozen=True):
    """A replay of an occurrence."""

    reason: Reason | None = None
    tasks: Annotated[list[Text], Meta(min_length=1, max_length=1_000)] | None = None
    """The tasks to run; default: all."""
    version: VersionChoice = "original"


class BackfillBody(Body, frozen=True):
    """A backfill of the instants in `[from, to)`."""

    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    which: InstantChoice = InstantChoice.MISSING
    max_active: Annotated[int, Meta(ge=1, le=1_000)] = 1
    version: VersionChoice = "original"
    reason: Reason | None = None
    dry_run: bool = False


class UpdateBody(Body, frozen=True):
    """The next version of a job. Fields that are not named stay unchanged."""

    schedule: str | dict[str, Any] | None = None
    """A cron expression, or an object as in a job file: `{"every": "15m"}`."""
    options: dict[str, Any] = {}
    """Options as in a job file: `{"overlap": "queue"}`."""
    policy: UpdatePolicy | None = None
    from_version: Annotated[int, Meta(ge=1)] | None = None
    """The version that the caller has seen; if a newer one exists, the change is rejected."""
    effective_from: Instant | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    reason: Reason | None = None
    dry_run: bool = False
    """Report the changes without making them."""


class RollbackBody(Body, frozen=True):
    """A new version with the definition of an old one."""

    to_version: Annotated[int, Meta(ge=1)]
    policy: UpdatePolicy | None = None
    from_version: Annotated[int, Meta(ge=1)] | None = None
    effective_from: Instant | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    reason: Reason | None = None
    dry_run: bool = False


class JobsBody(Body, frozen=True):
    """Jobs as in a job file: its text, or the tables `jobs` and `calendars` as JSON."""

    file: str | None = None
    jobs: dict[str, Any] | None = None
    calendars: dict[str, Any] | None = None


class ApplyBody(JobsBody, frozen=True):
    """Jobs, and how to apply them to the store."""

    policy: UpdatePolicy | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    remove: Annotated[list[Text], Meta(max_length=1_000)] = []
    """Jobs to remove."""
    reason: Reason | None = None


class SimulateBody(JobsBody, frozen=True):
    """A simulation of the jobs in the request, or of those in the store."""

    pattern: Text | None = None
    """A pattern for names of the store's jobs; default: all jobs."""
    start: Instant | None = msgspec.field(name="from", default=None)
    lasting: Duration = msgspec.field(name="for", default="24h")
    outages: Annotated[list[OutageBody], Meta(max_length=20)] = []
    takes: dict[Text, Duration] = {}
    """Durations of jobs; default: the measured durations, or one second."""


class OutageBody(Body, frozen=True):
    """A time without any node."""

    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")


class AppendBody(Body, frozen=True):
    """An event from a producer."""

    kind: Text
    record: Text
    partition: Text | None = None
    """The partition of the record, if it is not known."""
    fields: dict[str, Any] = {}
    """The fields of the kind: `data`, `target_time`, `check_time`, `verification`, `final_status`."""


class PruneBody(Body, frozen=True):
    """The retention of a prune; missing values are those of the settings."""

    keep_for: Duration | None = None
    keep_failed_for: Duration | None = None
    keep_max: Annotated[int, Meta(ge=0)] | None = None
    dry_run: bool = False


def microseconds(key: str, instant: datetime) -> int:
    """Convert an instant of a request. Raises Refused for unsupported years."""
    found = microseconds_of(instant)
    if not 0 <= found < LATEST * MICROSECONDS:
        raise RequestRefused(400, "Bad request", f"{key}: {instant.isoformat()} lies outside of the years 1970 to 2199")
    return found
