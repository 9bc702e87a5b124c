"""What is sent with a request, strictly: a key that nobody knows is an error (Q7)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from itinerary.core.recovery.backfill import Which
from itinerary.core.recovery.pause import Backlog
from itinerary.model.policies import UpdatePolicy
from itinerary.schedules.instants import LATEST, MICROSECONDS, microseconds_of
from itinerary.web.problems import Refused

__all__ = [
    "Append",
    "Application",
    "BackfillRange",
    "Forgetting",
    "Instant",
    "Jobs",
    "Pause",
    "Replay",
    "Rollback",
    "Simulation",
    "Skip",
    "Trigger",
    "Update",
    "Why",
    "microseconds",
]

Text: TypeAlias = Annotated[str, Meta(max_length=255)]
Reason: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
Duration: TypeAlias = Annotated[str, Meta(max_length=60)]
VersionChoice: TypeAlias = Literal["original", "current"]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a body is made of."""


class Why(Body, frozen=True):
    """Why; it is kept with who and when."""

    reason: Reason | None = None


class Pause(Body, frozen=True):
    """Skip a job's instants, until it is resumed, or until then."""

    reason: Reason | None = None
    until: Instant | None = None


class Resume(Body, frozen=True):
    """End a pause, and say what becomes of what it held."""

    reason: Reason | None = None
    backlog: Backlog = Backlog.RUN


class Skip(Body, frozen=True):
    """Pass over one instant that is to come."""

    instant: Instant
    reason: Reason | None = None


class Trigger(Body, frozen=True):
    """Have a job run now."""

    reason: Reason | None = None
    options: dict[str, Any] = {}
    """Overrides for this run alone, as in a job file."""


class Adjust(Body, frozen=True):
    """Set values on an occurrence that has not started."""

    options: dict[str, Any]
    """Overrides for this run alone, as in a job file. What is not named stays as it is."""
    reason: Reason | None = None


class Replay(Body, frozen=True):
    """Run an occurrence again."""

    reason: Reason | None = None
    tasks: Annotated[list[Text], Meta(min_length=1, max_length=1_000)] | None = None
    """Only these; else all."""
    version: VersionChoice = "original"


class BackfillRange(Body, frozen=True):
    """Run the instants of `[from, to)` that are wanted."""

    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    which: Which = Which.MISSING
    max_active: Annotated[int, Meta(ge=1, le=1_000)] = 1
    version: VersionChoice = "original"
    reason: Reason | None = None
    dry_run: bool = False


class Update(Body, frozen=True):
    """The next version of a job. What is not named stays as it is."""

    schedule: str | dict[str, Any] | None = None
    """A cron expression, or an object as in a job file: `{"every": "15m"}`."""
    options: dict[str, Any] = {}
    """As in a job file: `{"overlap": "queue"}`."""
    policy: UpdatePolicy | None = None
    from_version: Annotated[int, Meta(ge=1)] | None = None
    """The version that you looked at; a newer one refuses the change."""
    effective_from: Instant | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    reason: Reason | None = None
    dry_run: bool = False
    """Only say what would change."""


class Rollback(Body, frozen=True):
    """A new version that says what an old one said."""

    to_version: Annotated[int, Meta(ge=1)]
    policy: UpdatePolicy | None = None
    from_version: Annotated[int, Meta(ge=1)] | None = None
    effective_from: Instant | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    reason: Reason | None = None
    dry_run: bool = False


class Jobs(Body, frozen=True):
    """Jobs, as in a job file: its text, or the tables `jobs` and `calendars` as JSON."""

    file: str | None = None
    jobs: dict[str, Any] | None = None
    calendars: dict[str, Any] | None = None


class Application(Jobs, frozen=True):
    """Jobs, and how they are brought into the store."""

    policy: UpdatePolicy | None = None
    window: Annotated[int, Meta(ge=1)] | Duration | None = None
    remove: Annotated[list[Text], Meta(max_length=1_000)] = []
    """Jobs that are to be removed."""
    reason: Reason | None = None


class Simulation(Jobs, frozen=True):
    """What would happen: to the jobs that are sent, or to those of the store."""

    pattern: Text | None = None
    """Of the store's jobs those whose names fit; else all."""
    start: Instant | None = msgspec.field(name="from", default=None)
    lasting: Duration = msgspec.field(name="for", default="24h")
    outages: Annotated[list[OutageSaid], Meta(max_length=20)] = []
    takes: dict[Text, Duration] = {}
    """How long jobs take; else as long as they did, or a second."""


class OutageSaid(Body, frozen=True):
    """A time in which no node is there."""

    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")


class Append(Body, frozen=True):
    """An event, as a producer says it."""

    kind: Text
    record: Text
    partition: Text | None = None
    """Where the record lives, if that is not known."""
    fields: dict[str, Any] = {}
    """What goes with the kind: `data`, `target_time`, `check_time`, `verification`, `final_status`."""


class Forgetting(Body, frozen=True):
    """What is old; what is not said is as in the settings."""

    keep_for: Duration | None = None
    keep_failed_for: Duration | None = None
    keep_max: Annotated[int, Meta(ge=0)] | None = None
    dry_run: bool = False


def microseconds(key: str, instant: datetime) -> int:
    """An instant of a request. Raises Refused for years that are not supported."""
    found = microseconds_of(instant)
    if not 0 <= found < LATEST * MICROSECONDS:
        raise Refused(400, "Bad request", f"{key}: {instant.isoformat()} lies outside of the years 1970 to 2199")
    return found
