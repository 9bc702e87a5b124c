"""Commands as they come up in one iteration, put together by kind: a thousand starts leave the loop as one command."""

from __future__ import annotations

from typing import Any

from itinerary.core.commands import (
    Claim,
    Command,
    Exit,
    Follow,
    Forget,
    KeepStatistics,
    Kill,
    Launch,
    Level,
    Log,
    ReadRows,
    RebuildIndex,
    Release,
    Reply,
    StartRuns,
    Stop,
    Write,
)
from itinerary.core.messages import ReplyTo
from itinerary.model.rows import Ref, StatisticsRow
from itinerary.model.work import Assignment, AttemptKey
from itinerary.model.writes import Change, Intervention, Start, Wanted

__all__ = ["Outbox"]


class Outbox:
    """What the loop asks for in one iteration."""

    __slots__ = (
        "_others",
        "_rebuild",
        "assignments",
        "changes",
        "follow",
        "forget",
        "is_urgent",
        "kills",
        "reads",
        "releases",
        "starts",
        "stops",
        "wanted",
    )

    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.starts: list[Start] = []
        self.changes: list[Change] = []
        self.is_urgent = False
        """Whether one of the changes must not wait for more to come together."""
        self.assignments: list[Assignment] = []
        self.stops: list[AttemptKey] = []
        self.kills: list[AttemptKey] = []
        self.reads: list[Ref] = []
        self.releases: list[Intervention] = []
        self.follow: list[Ref] = []
        self.forget: list[Ref] = []
        self._rebuild: str | None = None
        self._others: list[Command] = []

    def reply(self, to: ReplyTo, answer: Any) -> None:
        """Answer somebody, if somebody asked."""
        if to is not None:
            self._others.append(Reply(to, answer))

    def log(self, level: Level, event: str, **fields: Any) -> None:
        """Say something."""
        self._others.append(Log(level, event, fields))

    def keep(self, row: StatisticsRow) -> None:
        """Store what the loop did."""
        self._others.append(KeepStatistics(row))

    def rebuild(self, why: str) -> None:
        """Have the index built anew, once."""
        self._rebuild = self._rebuild or why

    def exit(self, unfinished: int, error: str | None = None) -> None:
        """The loop is done."""
        self._others.append(Exit(unfinished, error))

    def commands(self, revision: int) -> list[Command]:
        """All of it. What ends comes before what begins, and starts come before everything that can wait."""
        found: list[Command] = []
        if self.kills:
            found.append(Kill(self.kills))
        if self.stops:
            found.append(Stop(self.stops))
        if self.starts:
            found.append(StartRuns(revision, self.starts))
        if self.follow:
            found.append(Follow(self.follow))
        if self.assignments:
            found.append(Launch(self.assignments))
        if self.changes or self.is_urgent:
            found.append(Write(self.changes, self.is_urgent))
        if self.wanted:
            found.append(Claim(revision, self.wanted))
        if self.releases:
            found.append(Release(self.releases))
        if self.forget:
            found.append(Forget(self.forget))
        if self.reads:
            found.append(ReadRows(self.reads))
        if self._rebuild is not None:
            found.append(RebuildIndex(self._rebuild))
        return found + self._others
