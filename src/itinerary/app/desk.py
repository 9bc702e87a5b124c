"""What people ask of a running node, carried out on the engine's loop: the one place that does it.

Everything that changes something is durable before it is a message (PROTOCOL 25): a pause is an entry on the timeline,
a trigger is a row, a cancellation stands in its occurrence. Then the node is told, so that it need not wait for its
next look. Who asked, when and why is kept with it (S12).

All methods run on the engine's loop; see `engine` for how others get here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

import msgspec

from itinerary.app.judging import judge_of_hold, judge_of_release, judge_of_removal
from itinerary.app.occurrences import Finder, Run, RunLike
from itinerary.core.answers import ActiveOccurrence, LoopStatistics
from itinerary.core.messages import ActiveAsked, CancelRequested, Message, StatisticsAsked, WorkOffered
from itinerary.core.news import Finished, News
from itinerary.core.stretches import FOREVER, Active, Paused, Removed, Stopped
from itinerary.core.timeline import Timeline
from itinerary.errors import ConfigError, NodeError
from itinerary.model import queries
from itinerary.model.codec import to_json
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Level, read_overrides
from itinerary.model.queries import PAGE_MAX, ByRef, Details, History
from itinerary.model.report import Report
from itinerary.model.rows import EntryKind, JobNumber, JobRow, Key, Ref
from itinerary.model.states import FINAL
from itinerary.model.telling import report_of
from itinerary.model.text import check_name
from itinerary.model.timeline import Denied, Judge, NewEntry
from itinerary.model.writes import Cancellation, Refusal, Refused, Wanted
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import from_seconds

__all__ = ["Desk", "NodeStatistics"]

_LOOK_AGAIN_AFTER: Final = 1.0
"""How long whoever waits for an occurrence that another node may end waits between two looks, in seconds."""
_ROUNDS_MAX: Final = 50


class NodeStatistics(msgspec.Struct, frozen=True):
    """How a node is: its loop, its inbox, and what is not written yet (L6)."""

    loop: LoopStatistics
    sent: int
    received: int
    timeouts: int
    depth: int
    deepest: int
    unwritten_updates: int
    unwritten_statistics: int


class Desk:
    """Requests of people, for one node."""

    def __init__(self, store: Store, node: Node, by: str) -> None:
        self._store, self._node, self._by = store, node, by
        self._finder = Finder()
        self._numbers: dict[str, JobNumber] = {}
        self._waiting: dict[Ref, set[asyncio.Event]] = {}

    @property
    def timeline(self) -> Timeline:
        """As far as this node has read it. It never changes, so any thread may look at it."""
        return self._node.builder.timeline

    def now(self) -> int:
        """The store's time, as far as it is known here."""
        return self._node.clock.now()

    def hear(self, news: Sequence[News]) -> None:
        """What the loop tells of."""
        self._finder.note(news)
        for item in news:
            if isinstance(item, Finished):
                for event in self._waiting.get(item.ref, ()):
                    event.set()

    # -- the timeline ------------------------------------------------------------------------------------------------

    async def pause(self, name: str, reason: str | None, until: int | None) -> None:
        """Skip a job's instants from now on: until somebody resumes it, or until then."""
        if until is not None and until <= self.now():
            raise ConfigError(f"until: {_shown(until)} is past; give an instant that is still to come")
        body = None if until is None else msgspec.json.encode({"until": until}).decode()
        why, after = self._why("paused", reason), self.now()
        judge = judge_of_hold(self.job(name).version, why, after, FOREVER if until is None else until)
        await self._enter(name, EntryKind.PAUSE, reason, body=body, judge=judge)

    async def resume(self, name: str, reason: str | None) -> None:
        """Go on."""
        await self._enter(name, EntryKind.RESUME, reason, judge=self._released(name, "resumed", Paused))

    async def stop(self, name: str, reason: str | None) -> None:
        """Expect nothing of a job from now on."""
        judge = judge_of_hold(self.job(name).version, self._why("stopped", reason), self.now())
        await self._enter(name, EntryKind.STOP, reason, judge=judge)

    async def start(self, name: str, reason: str | None) -> None:
        """Expect its instants again."""
        await self._enter(name, EntryKind.START, reason, judge=self._released(name, "started", Stopped))

    async def remove(self, name: str, reason: str | None) -> None:
        """Take a job away: what runs finishes, its history stays (D10)."""
        judge = judge_of_removal(self.job(name).version, self._why("removed", reason))
        await self._enter(name, EntryKind.REMOVE, reason, judge=judge)

    async def skip(self, name: str, instant: int, reason: str | None) -> None:
        """Pass over one named instant."""
        job = self.job(name)
        if instant <= self.now():
            raise ConfigError(f"{_shown(instant)} is past, and what became of it is decided; skip one that is to come")
        if instant % SECOND or not len(self.timeline.expected(instant, instant + SECOND, [job.number])):
            raise ConfigError(f"job {name!r} has no occurrence at {_shown(instant)}; ask next_run() when it has")
        judge = judge_of_hold(job.version, self._why("skipped", reason), instant - 1, instant + 1)
        await self._enter(name, EntryKind.SKIP, reason, subject=str(instant), judge=judge)

    def _why(self, what: str, reason: str | None) -> str:
        return f"{what} by {self._by}: {reason}" if reason else f"{what} by {self._by}"

    def _released(self, name: str, what: str, held_by: type[Paused | Stopped]) -> Judge | None:
        """The judge of a job that nothing holds any more, when this one thing no longer does."""
        now, number = self.now(), self.job(name).number
        stretches = self.timeline.stretches(number, 0, now + 1)
        before = next((one.standing for one in reversed(stretches) if not isinstance(one.standing, held_by)), None)
        if not stretches or not isinstance(before, Active | None):
            return None
        return judge_of_release(stretches[-1].version, stretches[-1].schedule, self._why(what, None), now)

    async def _enter(
        self,
        name: str,
        kind: EntryKind,
        reason: str | None,
        *,
        body: str | None = None,
        subject: str = "",
        judge: Judge | None = None,
    ) -> None:
        entry = NewEntry(
            job=name, kind=kind, request=f"{kind}/{uuid4()}", by=self._by, reason=reason, body=body, subject=subject
        )
        for answer in await self._store.amend([entry], judge):
            if isinstance(answer, Denied):
                raise NodeError(f"job {name!r}: the {kind} was refused: {answer.why}")
        await self._node.builder.read()
        self._node.builder.rebuild(f"{kind} of {name}")

    # -- occurrences -------------------------------------------------------------------------------------------------

    async def trigger(self, name: str, key: str | None, options: Mapping[str, object], reason: str | None) -> Run:
        """Have a job run now, once for each request key."""
        overrides = read_overrides(options, Level.OCCURRENCE)
        request = check_name("request key", uuid4().hex if key is None else key)
        job = self.job(name)
        run = None if key is None else await self._requested(job, request)
        for _ in range(_ROUNDS_MAX):
            if run is not None:
                break
            wanted = self._triggered(job, request, to_json(overrides).decode() if options else None, reason)
            answer = await self._store.claim(None, self.timeline.revision, [wanted])
            if isinstance(answer, Refusal):
                await self._node.builder.read()
            else:
                run = Run(name, answer[0].key, answer[0].ref)
        if run is None:
            raise NodeError(f"job {name!r} was not triggered: the timeline changes all the time; try again")
        self._finder.note([run])
        rows = await self._store.read(ByRef((run.ref,)))
        await self._node.inbox.deliver(WorkOffered(list(rows.values())))
        return run

    def _triggered(self, job: JobRow, request: str, overrides: str | None, reason: str | None) -> Wanted:
        now = self.now()
        stretch = self.timeline.in_force(job.number, now)
        if stretch is None or isinstance(stretch.standing, Removed):
            raise NodeError(f"job {job.name!r} is not there at present: it was removed, or is to begin later")
        return Wanted(
            Key(now - now % SECOND, job.number, Kind.TRIGGER, request),
            stretch.version,
            now,
            overrides=overrides,
            details=msgspec.json.encode({"by": self._by}).decode(),
            reason=f"triggered by {self._by}" + (f": {reason}" if reason else ""),
        )

    async def _requested(self, job: JobRow, request: str) -> Run | None:
        """The run of an earlier request with the same key: one that is active, or among the last that ended."""
        active = await self._store.read(queries.Active(job.number))
        ended = await self._store.read(History(job.number, limit=PAGE_MAX))
        for row in (*active, *ended.rows):
            if row.kind is Kind.TRIGGER and row.request == request:
                return Run(job.name, row.key, row.ref)
        return None

    async def is_running(self, name: str) -> bool:
        """Whether some occurrence has started and is not final: a question to the store, never to memory."""
        rows = await self._store.read(queries.Active(self.job(name).number))
        return any(row.started_at is not None for row in rows)

    async def wait(self, wanted: RunLike) -> Report:
        """What an occurrence comes to, when it has."""
        run = await self._finder.find(self._store, self.timeline, wanted)
        event = asyncio.Event()
        self._waiting.setdefault(run.ref, set()).add(event)
        try:
            while True:
                event.clear()
                details = await self._store.read(Details((run.ref,)))
                if not details:
                    raise NodeError(f"occurrence {run} is no longer kept: its history has been pruned")
                if details[0].row.status in FINAL:
                    return report_of(run.job, details[0])
                try:
                    async with asyncio.timeout(_LOOK_AGAIN_AFTER):
                        await event.wait()
                except TimeoutError:
                    continue  # another node may have ended it
        finally:
            self._waiting[run.ref].discard(event)
            if not self._waiting[run.ref]:
                del self._waiting[run.ref]

    async def cancel(self, wanted: RunLike, reason: str | None) -> bool:
        """Ask an occurrence to end. False if it has ended otherwise already."""
        run = await self._finder.find(self._store, self.timeline, wanted)
        by = f"{self._by}: {reason}" if reason else self._by
        (answer,) = await self._store.control(self._node.number, [Cancellation(run.ref, by)])
        if isinstance(answer, Refused):
            return False
        await self._node.inbox.deliver(CancelRequested(run.ref, by))
        return True

    async def active(self) -> list[ActiveOccurrence]:
        """What this node has in hand."""

        def asked(reply: asyncio.Future[list[ActiveOccurrence]]) -> Message:
            return ActiveAsked(reply)

        return await self._node.ask(asked)

    async def statistics(self) -> NodeStatistics:
        """How this node is."""

        def asked(reply: asyncio.Future[LoopStatistics]) -> Message:
            return StatisticsAsked(reply)

        loop = await self._node.ask(asked)
        inbox, backlog = self._node.inbox.statistics, self._node.backlog
        return NodeStatistics(
            loop, inbox.sent, inbox.received, inbox.timeouts, inbox.depth, inbox.deepest, backlog[0], backlog[1]
        )

    def job(self, name: str) -> JobRow:
        """The job of that name, from any thread. Raises NodeError where there is none."""
        timeline = self.timeline
        number = self._numbers.get(name)
        if number is None:
            self._numbers = {row.name: row.number for row in timeline.jobs.values()}  # numbers are for ever
            number = self._numbers.get(name)
        if number is None:
            raise NodeError(f"there is no job {name!r} in the store; declare it, or see how it is spelt")
        return timeline.jobs[number]


def _shown(instant: int) -> str:
    return from_seconds(instant // SECOND).isoformat()
