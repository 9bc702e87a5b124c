"""What carries out the core's commands in tests: the real ledger in memory, at once, and the script of the tasks.

It does what the runtime would, in the smallest number of moves: whatever comes of a command goes into the inbox. Writes
that are not urgent wait for company, as the syncer has them wait. What is kept back is carried out when it is let go.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.events import SchedulerEvent
from itinerary.core.timeline.index import JobTable, ScheduledRunIndex, ScheduledRuns
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.attempts import AttemptKey
from itinerary.model.queries import ByRefQuery, DetailsQuery, EntriesQuery, JobsQuery
from itinerary.model.rows import Ref
from itinerary.model.settings import Settings
from itinerary.model.writes import OwnerWrite, Refused, Written
from itinerary.stores.store import EngineStore
from tests.unit.core.scripted import Script

__all__ = ["Hands", "done"]

T = TypeVar("T")


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing: the memory store answers at once."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        returned: T = stop.value
        return returned
    raise AssertionError("the memory store waits for nothing")


class Hands:
    """One node's hands, on a store and a clock."""

    def __init__(self, store: EngineStore, shared: list[int], name: str, settings: Settings) -> None:
        self.store, self._shared, self.settings = store, shared, settings
        self.node = done(store.join(f"incarnation of {name}", name, "{}"))
        self.script = Script(lambda: self.now, self._has_row)
        self.plans = PlanCache(Timeline(), shares=settings.limits)
        self.inbox: list[m.Message] = []
        self.kept: list[c.Command] = []
        self.answers: dict[object, Any] = {}
        self.news: list[SchedulerEvent] = []
        self.exited: c.Exit | None = None
        self._keeps: tuple[type[c.Command], ...] = ()
        self._followed: dict[Ref, None] = {}
        self._buffer: list[OwnerWrite] = []
        self._flush_at: int | None = None

    @property
    def now(self) -> int:
        return self._shared[0]

    def send(self, *messages: m.Message) -> None:
        self.inbox += messages

    def keep(self, *kinds: type[c.Command]) -> None:
        """Do not carry out these from now on, until they are let go."""
        self._keeps = kinds

    def _carry_out(self, command: c.Command) -> None:  # noqa: C901, PLR0912 - a list of all commands
        match command:
            case c.Claim(revision, wanted):
                self.send(m.ClaimsAnswered(wanted, done(self.store.claim(self.node, revision, wanted))))
            case c.StartRuns(revision, starts):
                answers = done(self.store.start(self.node, revision, starts, self.settings.takeover_after))
                self.send(m.StartsAnswered(starts, answers))
            case c.Write(changes, is_urgent):
                self._buffer += changes
                if self._buffer and is_urgent:
                    self._flush()
                elif self._buffer and self._flush_at is None:
                    self._flush_at = self.now + self.settings.update_flush_interval
            case c.Release(interventions):
                done(self.store.intervene(self.node, interventions))
            case c.TakeUp(interventions):
                taken = done(self.store.intervene(self.node, interventions))
                details = done(
                    self.store.read(DetailsQuery(tuple(one.ref for one in taken if isinstance(one, Written))))
                )
                self.send(m.TakenUp([*details, *(one for one in taken if isinstance(one, Refused))]))
            case c.Launch(assignments):
                for assignment in assignments:
                    self.script.begin(assignment)
            case c.Stop(attempts):
                for key in attempts:
                    self.script.stop(key)
            case c.Kill(attempts):
                for key in attempts:
                    self.script.kill(key)
            case c.Follow(refs):
                self._followed.update(dict.fromkeys(refs))
            case c.Forget(refs):
                for ref in refs:
                    del self._followed[ref]
            case c.ReadRows(refs):
                self.read(*refs)
            case c.RebuildIndex():
                self.rebuild()
            case c.KeepStatistics(row):
                done(self.store.note_statistics([row]))
            case c.Reply(to, answer):
                assert to not in self.answers, "it was answered twice"
                self.answers[to] = answer
            case c.Announce(news):
                self.news += news
            case c.Exit():
                self.exited = command
            case c.Log():
                pass

    def _flush(self) -> None:
        changes, self._buffer, self._flush_at = self._buffer, [], None
        self.send(m.WritesAnswered(changes, done(self.store.write(self.node, changes))))

    def read(self, *refs: Ref) -> None:
        self.send(m.RowsRead(list(done(self.store.read(ByRefQuery(refs))).values())))

    def rebuild(self) -> None:
        """Build the index as the builder does."""
        timeline = self.plans.timeline
        entries = done(self.store.read(EntriesQuery(timeline.revision)))
        if entries:
            self.plans = self.plans.at(timeline.extended(entries, done(self.store.read(JobsQuery()))))
        timeline = self.plans.timeline
        settings = self.settings
        expected = timeline.expected(self.now - settings.grace_period, self.now + settings.lookahead_window)
        due = [one for one in expected if one.skipped is None]
        titles = {f"{one.job:09} {one.version}": (one.job, one.version) for one in due}
        table = JobTable(titles)
        numbers = np.array([table.number(f"{one.job:09} {one.version}") for one in due], np.int64)
        index = ScheduledRunIndex(ScheduledRuns(table, numbers, np.array([one.instant for one in due], np.int64)))
        jobs = [titles[title] for title in table]
        job_numbers = np.array([job for job, _ in jobs], np.int64)
        self.send(m.IndexBuilt(timeline.revision, index, jobs, job_numbers, self.plans))

    def _has_row(self, key: AttemptKey) -> bool:
        (detail,) = done(self.store.read(DetailsQuery((key.ref,))))
        return any((row.place, row.number) == (key.place, key.number) for row in detail.attempts)
