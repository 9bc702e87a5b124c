"""The commands of one iteration, grouped by kind: a thousand starts leave the loop as one command."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from itinerary.core.loop.commands import (
    Announce,
    Claim,
    Command,
    Exit,
    Follow,
    Forget,
    KeepStatistics,
    Kill,
    Launch,
    Log,
    LogLevel,
    ReadRows,
    RebuildIndex,
    Release,
    Reply,
    StartRuns,
    Stop,
    TakeUp,
    Write,
)
from itinerary.core.loop.events import LoadSampled, SchedulerEvent
from itinerary.core.loop.messages import ReplyTo
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref, StatisticsRow
from itinerary.model.writes import ClaimRequest, OwnerWrite, StartRequest, TakeoverWrite

__all__ = ["CommandBatch"]


class CommandBatch:
    """The commands that the loop issues in one iteration."""

    __slots__ = (
        "_others",
        "_rebuild",
        "assignments",
        "changes",
        "follow",
        "forget",
        "is_urgent",
        "kills",
        "news",
        "reads",
        "releases",
        "starts",
        "stops",
        "takings",
        "wanted",
        "wanted_under",
    )

    def __init__(self) -> None:
        self.wanted: list[ClaimRequest] = []
        self.wanted_under = 0
        """The timeline revision of the claims. The iteration may receive a newer revision afterwards."""
        self.starts: list[StartRequest] = []
        self.changes: list[OwnerWrite] = []
        self.is_urgent = False
        """True if one of the changes must not wait for others to share its write."""
        self.assignments: list[Assignment] = []
        self.stops: list[AttemptKey] = []
        self.kills: list[AttemptKey] = []
        self.news: list[SchedulerEvent] = []
        self.reads: list[Ref] = []
        self.releases: list[TakeoverWrite] = []
        self.takings: list[TakeoverWrite] = []
        self.follow: list[Ref] = []
        self.forget: list[Ref] = []
        self._rebuild: str | None = None
        self._others: list[Command] = []

    def reply(self, to: ReplyTo, answer: Any) -> None:
        """Answer a caller, if the message has one."""
        if to is not None:
            self._others.append(Reply(to, answer))

    def log(self, level: LogLevel, event: str, **fields: Any) -> None:
        """Log an event with its fields."""
        self._others.append(Log(level, event, fields))

    def keep(self, row: StatisticsRow, counted: LoadSampled) -> None:
        """Store statistics of the loop, and publish its current load."""
        self._others.append(KeepStatistics(row, counted))

    def rebuild(self, why: str) -> None:
        """Request a rebuild of the index, once per iteration."""
        self._rebuild = self._rebuild or why

    def exit(self, unfinished: int, error: str | None = None) -> None:
        """End the loop."""
        self._others.append(Exit(unfinished, error))

    def commands(self, revision: int) -> list[Command]:
        """Return all commands: ends first, then starts, then everything that can wait.

        Do not launch an attempt that is killed in the same iteration. A node that was frozen may receive the answer to
        a start after it has lost the run. Launch an attempt before it is asked to stop, because its executor must know
        it.
        """
        killed = set(self.kills)
        launched = self.assignments
        if killed:
            launched = [assignment for assignment in launched if assignment.key not in killed]
        begun = {assignment.key for assignment in self.assignments} if self.kills or self.stops else frozenset()
        kills, _ = _split(self.kills, begun)
        stops, stops_of_begun = _split(self.stops, begun)
        found: list[Command] = []
        if kills:
            found.append(Kill(kills))
        if stops:
            found.append(Stop(stops))
        if self.starts:
            found.append(StartRuns(revision, self.starts))
        if self.follow:
            found.append(Follow(self.follow))
        if launched:
            found.append(Launch(launched))
        if stops_of_begun:
            found.append(Stop(stops_of_begun))
        if self.changes or self.is_urgent:
            found.append(Write(self.changes, self.is_urgent))
        found += self._what_can_wait()
        return found + self._others

    def _what_can_wait(self) -> Iterator[Command]:
        if self.wanted:
            yield Claim(self.wanted_under, self.wanted)
        if self.releases:
            yield Release(self.releases)
        if self.takings:
            yield TakeUp(self.takings)
        if self.forget:
            yield Forget(self.forget)
        if self.reads:
            yield ReadRows(self.reads)
        if self.news:
            yield Announce(self.news)
        if self._rebuild:
            yield RebuildIndex(self._rebuild)


def _split(attempts: list[AttemptKey], begun: Collection[AttemptKey]) -> tuple[list[AttemptKey], list[AttemptKey]]:
    """Split attempts into those that ran before this iteration and those that it launches."""
    if not attempts or not begun:
        return attempts, []
    return [key for key in attempts if key not in begun], [key for key in attempts if key in begun]
