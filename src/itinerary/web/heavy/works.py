"""The works of a worker, and the frames on the socket: JSON after four bytes of length.

node ──► worker    Setup, once; then Ask for each request
worker ──► node    Ready, once; then Progress any number of times, and Done or Failure
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from itinerary.audit import AuditProgress
from itinerary.model.policies import UpdatePolicy
from itinerary.model.settings import Settings

__all__ = [
    "FRAME_MAX",
    "AnyWork",
    "Ask",
    "AuditWork",
    "BackfillWork",
    "Done",
    "FindWork",
    "FromWorker",
    "MadeWork",
    "PartitionsWork",
    "PlanWork",
    "ReadFileWork",
    "Ready",
    "SentJob",
    "Setup",
    "SimulateWork",
    "UpcomingWork",
    "WorkFailure",
    "WorkProgress",
    "framed",
]

FRAME_MAX: Final = 256 * 1024 * 1024
"""The maximum size of a frame, in bytes."""


class Work(msgspec.Struct, frozen=True, kw_only=True, tag_field="work"):
    """A heavy request."""


class UpcomingWork(Work, frozen=True, tag="upcoming"):
    """The upcoming occurrences."""

    span: int
    parts: int
    limit: int
    pattern: str | None = None


class SentJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a request declares, checked, as a store would keep it."""

    name: str
    definition: str
    zones: frozenset[str]

    def body(self, registered_at: int) -> str:  # noqa: ARG002 - the web server has filled it in
        """Return the definition as the JSON that a store keeps."""
        return self.definition

    def zone_names(self) -> frozenset[str]:
        """Return the zones that the job needs."""
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
    """A forecast for the jobs of a request or of the store."""

    start: int | None
    lasting: int
    jobs: tuple[SentJob, ...] | None = None
    pattern: str | None = None
    outages: tuple[tuple[int, int], ...] = ()
    takes: dict[str, int] = {}


class AuditWork(Work, frozen=True, tag="audit"):
    """An audit of a window: that every due occurrence was decided exactly once."""

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
    """The occurrences that a backfill has created."""

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
    """A job file of a request, parsed as TOML. The answer is the result of `pack_document`."""

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
    """The total CPU seconds of the process."""


class Ready(FromWorker, frozen=True, tag=True):
    """The worker has loaded all modules and set its limits."""


class WorkProgress(FromWorker, frozen=True, tag=True):
    """The progress of an audit."""

    far: AuditProgress


class Done(FromWorker, frozen=True, tag=True):
    """The answer, as JSON."""

    answer: msgspec.Raw
    is_spent: bool
    """True if the process holds too much memory to be used again."""


class WorkFailure(FromWorker, frozen=True, tag=True):
    """The reason why there is no answer."""

    kind: str
    """`refused`, `memory`, `bug`, or the name of a class of `itinerary.errors`."""
    detail: str
    title: str = ""
    status: int = 0


def framed(message: msgspec.Struct) -> bytes:
    """Return a message with its length in front."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(4, "big") + body
