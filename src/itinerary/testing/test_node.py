"""A rehearsal: the real node of an app, on a clock that the test moves.

    run = itinerary_clock(app, start="2026-03-08T00:00", tz="America/New_York")
    run.advance(days=1)
    assert run.history("nightly_report").statuses == ["completed"]

Nothing in here decides what runs: that is the same node with the same core as in production, on a store in memory. What
differs is what it stands on (`ground`), what runs its tasks (`stage`), and how time passes (`clockwork`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar, Unpack
from zoneinfo import ZoneInfo

from itinerary.api import Itinerary, Job, Run, RunningNode
from itinerary.config.job_options import RunOptions
from itinerary.errors import ClockError
from itinerary.executors import ExecutionContext
from itinerary.model.definition import Definition
from itinerary.model.queries import Active, ByRef, Details, Jobs, JobsByName
from itinerary.model.queries import History as HistoryQuery
from itinerary.model.report import Report
from itinerary.model.report_builder import report_of
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.node.thread import Engine
from itinerary.schedules import packaged_zone_data
from itinerary.schedules.durations import SECOND, DurationLike, format_duration, parse_duration
from itinerary.schedules.instants import Moment, MomentLike
from itinerary.schedules.suggestions import did_you_mean
from itinerary.simulate.processes import Process, in_process
from itinerary.testing.fakes import Fake, Raises
from itinerary.testing.history import History, Past
from itinerary.testing.logs import LogLine, Logs
from itinerary.testing.loop import of_the_test
from itinerary.testing.time_control import Clockwork, looks_ahead

__all__ = ["Rehearsal", "Upcoming"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = SECOND // 1_000
_NAMES_SHOWN: Final = 20
_LINES_SHOWN: Final = 50


class Upcoming(NamedTuple):
    """One instant that is to come."""

    at: datetime
    job: str


class Rehearsal:
    """An app's node, a clock, and what a test wants to know. Made by the fixture `itinerary_clock`."""

    def __init__(
        self,
        app: Itinerary,
        *,
        start: MomentLike = "2026-01-01T00:00",
        tz: str | None = None,
        patience: float = 30.0,
    ) -> None:
        """`start` is when it begins, on the wall clock of `tz` unless it has a zone; `tz` is the app's time zone, if
        nothing else is said. `patience`: how many seconds of real time a plain function may take."""
        self.app = app
        zone = tz or app.configuration.timezone or "UTC"
        packaged_zone_data().zone(zone)  # says which zone may be meant, if there is none of that name
        self._tz = ZoneInfo(zone)
        begins_at = self._instant(start, "start") + 1  # what is due at that very instant is over
        self._clockwork = Clockwork(app, begins_at, patience)
        self._loop, self._ground = self._clockwork.loop, self._clockwork.ground
        self._logs = Logs(lambda: self._local(self._ground.now()))
        self._process: Process | None = None
        self._starts = self._triggers = 0
        self._logs.listen()
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """What time it is, to the millisecond, in the zone of the rehearsal."""
        return self._local(self._ground.now() // _MILLISECOND * _MILLISECOND)

    def advance(
        self,
        duration: DurationLike | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Let time pass, and everything happen that is due in it, up to and including the moment that it leads to.

        Days and weeks are those of the calendar: from midnight to midnight, though that may be 23 hours. Hours,
        minutes, seconds and a `duration` ("36h") are exact.
        """
        exact = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if duration is not None:
            exact += timedelta(microseconds=parse_duration(duration))
        local = self.now + timedelta(weeks=weeks, days=days)
        self._advance_to(_microseconds(local.astimezone(UTC) + exact))

    def advance_to(self, moment: MomentLike) -> None:
        """Let time pass until then: a datetime, or text, which is on the wall clock unless it has a zone."""
        self._advance_to(self._instant(moment, "advance_to"))

    def advance_to_next(self, job: str | None = None) -> datetime:
        """Let time pass until the next instant that is to run, of one job or of all. Returns that instant."""
        coming = self.upcoming(job, count=1)
        if not coming:
            raise ClockError(f"{'no job' if job is None else f'job {job!r}'} is to run again; is it paused, or over?")
        self._advance_to(_microseconds(coming[0].at))
        return coming[0].at

    def _advance_to(self, target: int) -> None:
        if target < _microseconds(self.now):
            raise ClockError(
                f"the clock shows {self.now.isoformat()} and cannot go back to {self._local(target).isoformat()}; "
                "begin another rehearsal, with an earlier start"
            )
        self._clockwork.go(target)

    # -- the node ----------------------------------------------------------------------------------------------------

    @property
    def node(self) -> RunningNode:
        """The node, as the program that runs it sees it. Await its calls with `call`."""
        return RunningNode(self.app)

    @property
    def is_running(self) -> bool:
        """Whether a node runs."""
        return self._clockwork.engine is not None

    def start(self) -> None:
        """Start a node, after `crash` or `shut_down`. What was missed meanwhile goes through recovery, as always."""
        self._clockwork.check()
        engine = self.app._new_engine(self._loop, self._ground, self._logs)  # noqa: SLF001 - a rehearsal is a part of its app
        self._starts += 1
        self._process = Process(self.app.configuration.name, self._starts)
        self._logs.processes.add(self._process)
        with in_process(self._process):
            self._loop.create_task(engine.live_here(), name=f"node {self._starts}")
        self._clockwork.wait(engine.ready.done)
        try:
            engine.ready.result()
        except BaseException:
            self._lose()
            raise
        self._clockwork.engine = engine

    def crash(self) -> None:
        """Kill the node, as a power cut does: nothing of it runs again, and what it ran never ends."""
        self._running_engine()
        self._clockwork.check()
        self._lose()

    def shut_down(self) -> None:
        """End the node gracefully, as SIGTERM does."""
        engine = self._running_engine()
        engine.shut_down("the test asks for it")
        self._clockwork.wait(engine.ended.done)
        self._lose()

    def down(self, duration: DurationLike | None = None, *, crash: bool = False, **units: float) -> None:
        """Be without a node for so long, and start one again. It ends gracefully, or, with `crash`, is killed."""
        if crash:
            self.crash()
        else:
            self.shut_down()
        self.advance(duration, **units)
        self.start()

    def _lose(self) -> None:
        assert self._process is not None, "a node was started"
        self._loop.crash(self._process)
        self.app._engine.gone()  # noqa: SLF001 - a rehearsal is a part of its app
        self.app._over()  # noqa: SLF001 - a rehearsal is a part of its app
        self._clockwork.engine = None

    def _running_engine(self) -> Engine:
        self._clockwork.check_open()
        if self._clockwork.engine is None:
            raise ClockError("no node runs now; run.start() starts one")
        return self._clockwork.engine

    # -- asking for things -------------------------------------------------------------------------------------------

    def call(self, coroutine: Coroutine[Any, Any, T], *, within: DurationLike = "1d") -> T:
        """Run a coroutine on the loop of the rehearsal, and return what it returns. Time passes as it needs."""
        task = self._begun(coroutine)
        limit = parse_duration(within)
        self._clockwork.wait(task.done, limit)
        if not task.done():
            task.cancel()
            raise ClockError(f"{task.get_coro()!r} has not ended within {format_duration(limit)}")
        return task.result()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a coroutine on the loop of the rehearsal; it goes on whenever time passes."""
        return self._begun(coroutine)

    def _begun(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        try:
            self._clockwork.check()
        except ClockError:
            coroutine.close()
            raise
        return of_the_test().run(self._loop.create_task, coroutine)

    def trigger(
        self, job: str, *, key: str | None = None, reason: str | None = None, **options: Unpack[RunOptions]
    ) -> Run:
        """Have a job run now. If its tasks take no time, it has ended when this returns."""
        self._triggers += 1
        key = f"trigger {self._triggers}" if key is None else key  # the same each time, and with it the id
        return self._done(self._job(job).trigger(key=key, reason=reason, **options))

    def pause(self, job: str, *, reason: str | None = None, until: datetime | None = None) -> None:
        """Skip its instants, until `resume`, or until then."""
        self._done(self._job(job).pause(reason=reason, until=until))

    def resume(self, job: str, *, reason: str | None = None, backlog: str = "run") -> None:
        """End a pause; what it held runs, or is skipped."""
        self._done(self._job(job).resume(reason=reason, backlog=backlog))

    def skip(self, job: str, instant: datetime, *, reason: str | None = None) -> None:
        """Pass over one instant."""
        self._done(self._job(job).skip(instant, reason=reason))

    def cancel(self, occurrence: Run, *, reason: str | None = None) -> bool:
        """Ask an occurrence to end."""
        return self._done(self.node.cancel(occurrence, reason=reason))

    def wait(self, occurrence: Run, *, within: DurationLike = "1d") -> Report:
        """Let time pass until an occurrence has ended. Returns what it came to."""
        limit = parse_duration(within)

        def row() -> OccurrenceRow:
            return self._ground.engine.now_answer(ByRef((occurrence.ref,)))[occurrence.ref]

        self._clockwork.wait(lambda: row().status in FINAL, limit)
        if row().status not in FINAL:
            raise ClockError(f"{occurrence} is {row().status}, and has not ended within {format_duration(limit)}")
        return self._told(occurrence.job, [row()])[0].report

    def fake(
        self,
        task: str,
        *,
        returns: object = None,
        raises: Raises | Sequence[Raises] = None,
        takes: DurationLike = 0,
        does: Callable[[ExecutionContext], object] | None = None,
    ) -> Fake:
        """Put something in the place of a task (see `fakes`): `job/task`, or just one of the two where that says it."""
        timeline = self._running_engine().desk.timeline
        tasks = {job.name: _fakeable(timeline.definition(job.number, job.version)) for job in timeline.jobs.values()}
        fake = Fake(task, returns, raises, takes, does)
        self._ground.fakes.add(fake, tasks)
        return fake

    def _job(self, name: str) -> Job:
        self._running_engine()
        self._number(name)
        return Job(self.app, name)

    def _done(self, call: Coroutine[Any, Any, T]) -> T:
        """Have something done, and let happen what takes no time."""
        answer = self.call(call)
        self._advance_to(self._ground.now())
        return answer

    # -- knowing things ----------------------------------------------------------------------------------------------

    def history(self, job: str) -> History:
        """What has become of a job's occurrences whose time has come, by instant."""
        number, now, answer = self._number(job), self._ground.now(), self._ground.engine.now_answer
        rows: list[OccurrenceRow] = [row for row in answer(Active(number)) if row.due_at <= now]
        page = answer(HistoryQuery(number))
        rows += page.rows
        while page.next is not None:
            page = answer(HistoryQuery(number, page.next))
            rows += page.rows
        return History(job, self._told(job, sorted(rows, key=lambda row: (row.instant, row.ref))))

    def upcoming(self, job: str | None = None, *, count: int = 10) -> list[Upcoming]:
        """The next instants that are to run, of one job or of all, by the versions that are in force then."""
        timeline, now = self._running_engine().desk.timeline, self._ground.now()
        jobs = None if job is None else [self._number(job)]
        names = {row.number: row.name for row in timeline.jobs.values()}
        found: list[Upcoming] = []
        for until in looks_ahead(now):
            expected = timeline.expected(now + 1, until, jobs)
            due = sorted((one.instant, names[one.job]) for one in expected if one.skipped is None)
            found = [Upcoming(self._local(instant), name) for instant, name in due[:count]]
            if len(found) == count:
                break
        return found

    @property
    def database(self) -> sqlite3.Connection:
        """What `ctx.transaction()` writes to: a SQLite database in memory, in which the test makes the tables."""
        self._clockwork.check_open()
        return self._ground.engine.database

    @property
    def logs(self) -> list[LogLine]:
        """What the node and, with `ctx.log`, the tasks have logged."""
        return self._logs.lines

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The fields of each line with that event."""
        return [line.fields for line in self._logs.lines if line.event == event]

    def _told(self, job: str, rows: Sequence[OccurrenceRow]) -> list[Past]:
        details = {one.row.ref: one for one in self._ground.engine.now_answer(Details(tuple(row.ref for row in rows)))}
        return [Past(self._local(row.instant), row.status, report_of(job, details[row.ref])) for row in rows]

    def _number(self, job: str) -> JobNumber:
        found = self._ground.engine.now_answer(JobsByName((job,)))
        if job in found:
            return found[job].number
        names = [one.name for one in self._ground.engine.now_answer(Jobs())]
        hint = did_you_mean(job, names, otherwise=f"there are {', '.join(names[:_NAMES_SHOWN]) or 'none'}")
        raise ClockError(f"there is no job {job!r} in this app; {hint}")

    def describe(self) -> str:
        """What has happened, for people: what a failing test is shown with."""
        histories = [repr(self.history(job.name)) for job in self._ground.engine.now_answer(Jobs())]
        said = [str(line) for line in self.logs if line.level in ("warning", "error")]
        return "\n".join([f"the clock shows {self.now.isoformat()}", *histories, *said[-_LINES_SHOWN:]])

    # -- how ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Be done: the node is gone, and nothing runs any more. What has happened can still be read."""
        if self._clockwork.is_closed:
            return
        self._clockwork.check()
        if self.is_running:
            self._lose()
        self._logs.is_over = True
        try:
            self._clockwork.close()
        finally:
            self._logs.leave()

    def _instant(self, moment: MomentLike, what: str) -> int:
        read = Moment.of(moment, what)
        if not read.is_local:
            return read.seconds * SECOND
        wall = (_EPOCH + timedelta(seconds=read.seconds)).replace(tzinfo=self._tz)
        return _microseconds(wall)

    def _local(self, instant: int) -> datetime:
        return (_EPOCH + timedelta(microseconds=instant)).astimezone(self._tz)


def _fakeable(definition: Definition) -> list[str]:
    """What of a job is run by somebody: its tasks, and those requirements that are functions or calls."""
    return [
        *(task.name for task in definition.tasks),
        *(str(one) for one in definition.requires if one.kind in ("python", "http")),
    ]


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
