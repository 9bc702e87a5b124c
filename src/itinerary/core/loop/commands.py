"""Everything that the loop asks for. Commands are imperative; each is carried out by one component outside.

Those of one kind that come up in one iteration are one command: a thousand starts are one write, and one launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from itinerary.core.loop.events import Counted, News
from itinerary.core.loop.messages import ReplyTo
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref, StatisticsRow
from itinerary.model.writes import Change, Intervention, Start, Wanted

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
    "Level",
    "Log",
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
    """Something to be done."""


class Claim(_Command, frozen=True):
    """Create these occurrences' rows."""

    revision: int
    wanted: Sequence[Wanted]


class StartRuns(_Command, frozen=True):
    """Start these occurrences."""

    revision: int
    starts: Sequence[Start]


class Write(_Command, frozen=True):
    """Write these changes, in order: at once, or when enough have come together."""

    changes: Sequence[Change]
    is_urgent: bool


class Release(_Command, frozen=True):
    """Give these back: they have not started, and this node will not start them."""

    interventions: Sequence[Intervention]


class TakeUp(_Command, frozen=True):
    """Take these, which began on nodes that are gone, and read them: this node goes on with them."""

    interventions: Sequence[Intervention]


class Launch(_Command, frozen=True):
    """Begin these attempts; their rows are written."""

    assignments: Sequence[Assignment]


class Stop(_Command, frozen=True):
    """Ask these attempts to end."""

    attempts: Sequence[AttemptKey]


class Kill(_Command, frozen=True):
    """End these attempts by force, or give them up; the loop has."""

    attempts: Sequence[AttemptKey]


class Follow(_Command, frozen=True):
    """Orchestrate these occurrences: they have started here."""

    refs: Sequence[Ref]


class Forget(_Command, frozen=True):
    """Orchestrate these no longer: they have ended, or are somebody else's."""

    refs: Sequence[Ref]


class ReadRows(_Command, frozen=True):
    """Read these occurrences: somebody has changed them."""

    refs: Sequence[Ref]


class RebuildIndex(_Command, frozen=True):
    """Read the timeline and build the index, now."""

    why: str


class KeepStatistics(_Command, frozen=True):
    """Store what the loop did, and tell whoever watches what it has in hand."""

    row: StatisticsRow
    counted: Counted


class Reply(_Command, frozen=True):
    """Answer somebody."""

    to: ReplyTo
    answer: Any


class Announce(_Command, frozen=True):
    """Tell whoever watches."""

    news: Sequence[News]


class Level(StrEnum):
    """How loud."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Log(_Command, frozen=True):
    """Say something: an event and its fields."""

    level: Level
    event: str
    fields: Mapping[str, Any]


class Exit(_Command, frozen=True):
    """The loop is done: everything it had has ended or is given back, or `error` says why it cannot go on."""

    unfinished: int = 0
    """What still ran when the time for its end was over."""
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
