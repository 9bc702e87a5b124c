"""Commands: everything that the loop asks for. Names are imperative. A component outside carries out each command.

Commands of the same kind in one iteration are grouped: a thousand starts are one write and one launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from itinerary.core.loop.events import LoadSampled, SchedulerEvent
from itinerary.core.loop.messages import ReplyTo
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref, StatisticsRow
from itinerary.model.writes import ClaimRequest, OwnerWrite, StartRequest, TakeoverWrite

__all__ = [
    "Announce",
    "Claim",
    "Command",
    "Exit",
    "Follow",
    "Forget",
    "KeepStatistics",
    "Kill",
    "Launch",
    "Log",
    "LogLevel",
    "ReadRows",
    "RebuildIndex",
    "Release",
    "Reply",
    "StartRuns",
    "Stop",
    "TakeUp",
    "Write",
]


class _Command(msgspec.Struct, frozen=True):
    """Base class of all commands."""


class Claim(_Command, frozen=True):
    """Command to create the rows of these occurrences."""

    revision: int
    wanted: Sequence[ClaimRequest]


class StartRuns(_Command, frozen=True):
    """Command to start these occurrences."""

    revision: int
    starts: Sequence[StartRequest]


class Write(_Command, frozen=True):
    """Command to write these changes in order, at once or together with later ones."""

    changes: Sequence[OwnerWrite]
    is_urgent: bool


class Release(_Command, frozen=True):
    """Command to give back occurrences that this node will not start or continue."""

    interventions: Sequence[TakeoverWrite]


class TakeUp(_Command, frozen=True):
    """Command to take over occurrences that began on nodes that are gone, and to read their rows."""

    interventions: Sequence[TakeoverWrite]


class Launch(_Command, frozen=True):
    """Command to begin these attempts. Their rows are durable."""

    assignments: Sequence[Assignment]


class Stop(_Command, frozen=True):
    """Command to ask these attempts to end."""

    attempts: Sequence[AttemptKey]


class Kill(_Command, frozen=True):
    """Command to end these attempts by force, or to abandon them. The loop has abandoned them already."""

    attempts: Sequence[AttemptKey]


class Follow(_Command, frozen=True):
    """Command to orchestrate these occurrences, which have started here."""

    refs: Sequence[Ref]


class Forget(_Command, frozen=True):
    """Command to stop orchestrating these occurrences, which have ended or belong to other nodes."""

    refs: Sequence[Ref]


class ReadRows(_Command, frozen=True):
    """Command to read these occurrences, which were changed elsewhere."""

    refs: Sequence[Ref]


class RebuildIndex(_Command, frozen=True):
    """Command to read the timeline and rebuild the index now."""

    why: str


class KeepStatistics(_Command, frozen=True):
    """Command to store statistics of the loop and to publish its current load."""

    row: StatisticsRow
    counted: LoadSampled


class Reply(_Command, frozen=True):
    """Command to answer a caller."""

    to: ReplyTo
    answer: Any


class Announce(_Command, frozen=True):
    """Command to publish events to observers."""

    news: Sequence[SchedulerEvent]


class LogLevel(StrEnum):
    """Severity of a log event."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Log(_Command, frozen=True):
    """Command to log an event with its fields."""

    level: LogLevel
    event: str
    fields: Mapping[str, Any]


class Exit(_Command, frozen=True):
    """Command to end the loop.

    All occurrences of the node have ended or are given back, or `error` says why the loop cannot continue.
    """

    unfinished: int = 0
    """The number of occurrences that still ran at the end of the shutdown time."""
    error: str | None = None


Command: TypeAlias = (
    Claim
    | StartRuns
    | Write
    | Release
    | TakeUp
    | Launch
    | Stop
    | Kill
    | Follow
    | Forget
    | ReadRows
    | RebuildIndex
    | KeepStatistics
    | Reply
    | Announce
    | Log
    | Exit
)
