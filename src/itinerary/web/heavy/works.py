"""The works that a worker does, and the frames that cross the socket: JSON behind four bytes of length.

node ──► worker    Setup, once; then Ask for each request
worker ──► node    Ready, once; then Progress any number of times, and Done or Failure
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from itinerary.audit import Progress as AuditProgress
from itinerary.model.policies import UpdatePolicy
from itinerary.model.settings import Settings

__all__ = [
    "FRAME_MAX",
    "AnyWork",
    "Ask",
    "AuditWork",
    "BackfillWork",
    "Done",
    "Failure",
    "FindWork",
    "FromWorker",
    "MadeWork",
    "PartitionsWork",
    "PlanWork",
    "Progress",
    "ReadFileWork",
    "Ready",
    "SentJob",
    "Setup",
    "SimulateWork",
    "UpcomingWork",
    "framed",
]

FRAME_MAX: Final = 256 * 1024 * 1024
"""The longest frame, in bytes."""


class Work(msgspec.Struct, frozen=True, kw_only=True, tag_field="work"):
    """Something heavy that is asked for."""


class UpcomingWork(Work, frozen=True, tag="upcoming"):
    """The occurrences that are due from now on."""

    span: int
    parts: int
    limit: int
    pattern: str | None = None


class SentJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a request has declared, checked, as a store would keep it."""

    name: str
    definition: str
    zones: frozenset[str]

    def body(self, registered_at: int) -> str:  # noqa: ARG002 - the web server has filled it in
        """The definition as the JSON that a store keeps."""
        return self.definition

    def zone_names(self) -> frozenset[str]:
        """The zones that it needs."""
        return self.zones


class PlanWork(Work, frozen=True, tag="plan"):
    """The changes that applying jobs would make."""

    jobs: tuple[SentJob, ...]
    policy: UpdatePolicy
    by: str
    window: int | str | None = None
    remove: tuple[str, ...] = ()
    reason: str | None = None


class SimulateWork(Work, frozen=True, tag="simulate"):
    """A forecast, for jobs that were sent or for those of the store."""

    start: int | None
    lasting: int
    jobs: tuple[SentJob, ...] | None = None
    pattern: str | None = None
    outages: tuple[tuple[int, int], ...] = ()
    takes: dict[str, int] = {}


class AuditWork(Work, frozen=True, tag="audit"):
    """Whether everything that was due was decided, exactly once."""

    start: int
    end: int | None


class BackfillWork(Work, frozen=True, tag="backfill"):
    """The instants that a backfill would run."""

    job: str
    start: int
    end: int
    which: str
    key: str | None = None
    version: str = "original"


class MadeWork(Work, frozen=True, tag="made"):
    """The occurrences that a backfill has made."""

    job: int
    start: int
    end: int
    key: str


class PartitionsWork(Work, frozen=True, tag="partitions"):
    """The records that wait in each partition of a record scheduler, by its log."""

    desk: str


class FindWork(Work, frozen=True, tag="find"):
    """The number of the occurrence with an id, which may be anywhere in the history."""

    identity: UUID


class ReadFileWork(Work, frozen=True, tag="read file"):
    """A job file that was sent, read as TOML. The answer is what `pack_document` makes of it."""

    text: str


AnyWork: TypeAlias = (
    UpcomingWork
    | PlanWork
    | SimulateWork
    | AuditWork
    | BackfillWork
    | MadeWork
    | PartitionsWork
    | FindWork
    | ReadFileWork
)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to a worker."""

    store: str
    settings: Settings
    megabytes: int


class Ask(msgspec.Struct, frozen=True):
    """A request for one work."""

    work: AnyWork


class FromWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a worker."""

    cpu: float
    """The CPU seconds that the process has used in all."""


class Ready(FromWorker, frozen=True, tag=True):
    """The worker has loaded everything, and has its limits."""


class Progress(FromWorker, frozen=True, tag=True):
    """How far an audit is."""

    far: AuditProgress


class Done(FromWorker, frozen=True, tag=True):
    """The answer, as JSON."""

    answer: msgspec.Raw
    is_spent: bool
    """True if the process holds too much memory to be used again."""


class Failure(FromWorker, frozen=True, tag=True):
    """Why there is no answer."""

    kind: str
    """`refused`, `memory`, `bug`, or the name of a class of `itinerary.errors`."""
    detail: str
    title: str = ""
    status: int = 0


def framed(message: msgspec.Struct) -> bytes:
    """Return a message with its length before it."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(4, "big") + body
