"""A test node: the real node of an app, on a clock that the test moves.

    run = itinerary_clock(app, start="2026-03-08T00:00", tz="America/New_York")
    run.advance(days=1)
    assert run.history("nightly_report").statuses == ["completed"]

Nothing here decides what runs: the node and the core are those of production, on a store in memory. The differences are
the environment (`environment`), the executor of tasks (`executors`), and how time passes (`time_control`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar, Unpack
from zoneinfo import ZoneInfo

from itinerary.api import Itinerary, Job, RunningNode, RunReference
from itinerary.config.job_options import RunOptions
from itinerary.errors import ClockError
from itinerary.executors import ExecutionContext
from itinerary.model.definition import Definition
from itinerary.model.queries import ActiveQuery, ByRefQuery, DetailsQuery, HistoryQuery, JobsByNameQuery, JobsQuery
from itinerary.model.report import OccurrenceReport
from itinerary.model.report_builder import report_of
from itinerary.model.rows import JobNumber, OccurrenceRow
from itinerary.model.states import FINAL
from itinerary.node.thread import NodeThread
from itinerary.schedules import packaged_zone_data
from itinerary.schedules.durations import SECOND, DurationLike, format_duration, parse_duration
from itinerary.schedules.instants import Moment, MomentLike
from itinerary.schedules.suggestions import did_you_mean
from itinerary.testing.fakes import Fake, Raises
from itinerary.testing.history import OccurrenceHistory, PastOccurrence
from itinerary.testing.logs import LogLine, LogLines
from itinerary.testing.processes import Process, in_process
from itinerary.testing.test_node_loop import of_the_test
from itinerary.testing.time_control import ClockControl, looks_ahead

__all__ = ["TestNode", "UpcomingInstant"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = SECOND // 1_000
_NAMES_SHOWN: Final = 20
_LINES_SHOWN: Final = 50


class UpcomingInstant(NamedTuple):
    """An upcoming instant."""

    at: datetime
    job: str


class TestNode:
    """The node of an app on a test's clock, with queries for the test. The fixture `itinerary_clock` makes it."""

    __test__ = False
    """pytest must not collect this class from a module that imports it."""

    def __init__(
        self,
        app: Itinerary,
        *,
        start: MomentLike = "2026-01-01T00:00",
        tz: str | None = None,
        patience: float = 30.0,
    ) -> None:
        """Start a node on a test's clock.

        Args:
            app: The app.
            start: The first instant, as local time in `tz` unless it has a zone.
            tz: The time zone of the test; by default that of the app.
            patience: Seconds of real time that a plain function may take.
        """
        self.app = app
        zone = tz or app.configuration.timezone or "UTC"
        packaged_zone_data().zone(zone)  # raises an error with a suggestion for an unknown zone
        self._tz = ZoneInfo(zone)
        begins_at = self._instant(start, "start") + 1  # an occurrence due at `start` itself is past
        self._clockwork = ClockControl(app, begins_at, patience)
        self._loop, self._environment = self._clockwork.loop, self._clockwork.environment
        self._logs = LogLines(lambda: self._local(self._environment.now()))
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
        """The time in the zone of the test node, to the millisecond."""
        return self._local(self._environment.now() // _MILLISECOND * _MILLISECOND)

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
        """Let time pass, and run everything that is due, up to and including the resulting instant.

        Days and weeks are calendar days: from midnight to midnight, even if that is 23 hours. Hours, minutes, seconds
        and a `duration` ("36h") are exact.
        """
        exact = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if duration is not None:
            exact += timedelta(microseconds=parse_duration(duration))
        local = self.now + timedelta(weeks=weeks, days=days)
        self._advance_to(_microseconds(local.astimezone(UTC) + exact))

    def advance_to(self, moment: MomentLike) -> None:
        """Let time pass until a datetime, or a text, which is local time unless it has a zone."""
        self._advance_to(self._instant(moment, "advance_to"))

    def advance_to_next(self, job: str | None = None) -> datetime:
        """Let time pass until the next instant that will run, of one job or of all, and return that instant."""
        coming = self.upcoming(job, count=1)
        if not coming:
            raise ClockError(f"{'no job' if job is None else f'job {job!r}'} is to run again; is it paused, or over?")
        self._advance_to(_microseconds(coming[0].at))
        return coming[0].at

    def _advance_to(self, target: int) -> None:
        if target < _microseconds(self.now):
            raise ClockError(
                f"the clock shows {self.now.isoformat()} and cannot go back to {self._local(target).isoformat()}; "
                "start another test node, with an earlier start"
            )
        self._clockwork.go(target)

    # -- the node ----------------------------------------------------------------------------------------------------

    @property
    def node(self) -> RunningNode:
        """The running node, as in a program. Run its coroutines with `call`."""
        return RunningNode(self.app)

    @property
    def is_running(self) -> bool:
        """True if a node runs."""
        return self._clockwork.engine is not None

    def start(self) -> None:
        """Start a node after `crash` or `shut_down`. Missed runs go through recovery, as in production."""
        self._clockwork.check()
        engine = self.app._new_engine(self._loop, self._environment, self._logs)  # noqa: SLF001 - a test node is a part of its app
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
        """Kill the node as a power cut does: nothing of it runs again, and its runs never end."""
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
        """End the node, let time pass, and start a node again. The node ends gracefully or, with `crash`, is killed."""
        if crash:
            self.crash()
        else:
            self.shut_down()
        self.advance(duration, **units)
        self.start()

    def _lose(self) -> None:
        assert self._process is not None, "a node was started"
        self._loop.crash(self._process)
        self.app._engine.gone()  # noqa: SLF001 - a test node is a part of its app
        self.app._over()  # noqa: SLF001 - a test node is a part of its app
        self._clockwork.engine = None

    def _running_engine(self) -> NodeThread:
        self._clockwork.check_open()
        if self._clockwork.engine is None:
            raise ClockError("no node runs now; run.start() starts one")
        return self._clockwork.engine

    # -- requests ----------------------------------------------------------------------------------------------------

    def call(self, coroutine: Coroutine[Any, Any, T], *, within: DurationLike = "1d") -> T:
        """Run a coroutine on the loop of the test node, and return its result. Time passes, at most `within`."""
        task = self._begun(coroutine)
        limit = parse_duration(within)
        self._clockwork.wait(task.done, limit)
        if not task.done():
            task.cancel()
            raise ClockError(f"{task.get_coro()!r} has not ended within {format_duration(limit)}")
        return task.result()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a coroutine on the loop of the test node; it continues whenever time passes."""
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
    ) -> RunReference:
        """Trigger a run of a job now. If its tasks take no time, the run has ended when this returns."""
        self._triggers += 1
        key = f"trigger {self._triggers}" if key is None else key  # the same key and id in each test
        return self._done(self._job(job).trigger(key=key, reason=reason, **options))

    def pause(self, job: str, *, reason: str | None = None, until: datetime | None = None) -> None:
        """Skip the instants of a job, until `resume` or until `until`."""
        self._done(self._job(job).pause(reason=reason, until=until))

    def resume(self, job: str, *, reason: str | None = None, backlog: str = "run") -> None:
        """End a pause; the held occurrences run, or are skipped."""
        self._done(self._job(job).resume(reason=reason, backlog=backlog))

    def skip(self, job: str, instant: datetime, *, reason: str | None = None) -> None:
        """Skip one instant."""
        self._done(self._job(job).skip(instant, reason=reason))

    def cancel(self, occurrence: RunReference, *, reason: str | None = None) -> bool:
        """Ask an occurrence to end."""
        return self._done(self.node.cancel(occurrence, reason=reason))

    def wait(self, occurrence: RunReference, *, within: DurationLike = "1d") -> OccurrenceReport:
        """Let time pass until an occurrence has ended, and return its report. Raises ClockError after `within`."""
        limit = parse_duration(within)

        def row() -> OccurrenceRow:
            return self._environment.engine.now_answer(ByRefQuery((occurrence.ref,)))[occurrence.ref]

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
        """Replace a task by a fake (see `fakes`). `task` is `job/task`, or one of the two if that is unique."""
        timeline = self._running_engine().desk.timeline
        tasks = {job.name: _fakeable(timeline.definition(job.number, job.version)) for job in timeline.jobs.values()}
        fake = Fake(task, returns, raises, takes, does)
        self._environment.fakes.add(fake, tasks)
        return fake

    def _job(self, name: str) -> Job:
        self._running_engine()
        self._number(name)
        return Job(self.app, name)

    def _done(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a request, and everything that needs no time."""
        answer = self.call(call)
        self._advance_to(self._environment.now())
        return answer

    # -- queries -----------------------------------------------------------------------------------------------------

    def history(self, job: str) -> OccurrenceHistory:
        """Return the occurrences of a job that are or were due, by instant."""
        number, now, answer = self._number(job), self._environment.now(), self._environment.engine.now_answer
        rows: list[OccurrenceRow] = [row for row in answer(ActiveQuery(number)) if row.due_at <= now]
        page = answer(HistoryQuery(number))
        rows += page.rows
        while page.next is not None:
            page = answer(HistoryQuery(number, page.next))
            rows += page.rows
        return OccurrenceHistory(job, self._told(job, sorted(rows, key=lambda row: (row.instant, row.ref))))

    def upcoming(self, job: str | None = None, *, count: int = 10) -> list[UpcomingInstant]:
        """Return the next instants that will run, of one job or of all, by the versions in force then."""
        timeline, now = self._running_engine().desk.timeline, self._environment.now()
        jobs = None if job is None else [self._number(job)]
        names = {row.number: row.name for row in timeline.jobs.values()}
        found: list[UpcomingInstant] = []
        for until in looks_ahead(now):
            expected = timeline.expected(now + 1, until, jobs)
            due = sorted((one.instant, names[one.job]) for one in expected if one.skipped is None)
            found = [UpcomingInstant(self._local(instant), name) for instant, name in due[:count]]
            if len(found) == count:
                break
        return found

    @property
    def database(self) -> sqlite3.Connection:
        """The database of `ctx.transaction()`: SQLite in memory, in which the test creates the tables."""
        self._clockwork.check_open()
        return self._environment.engine.database

    @property
    def logs(self) -> list[LogLine]:
        """The lines that the node and, with `ctx.log`, the tasks have logged."""
        return self._logs.lines

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of each line with that event."""
        return [line.fields for line in self._logs.lines if line.event == event]

    def _told(self, job: str, rows: Sequence[OccurrenceRow]) -> list[PastOccurrence]:
        details = {
            one.row.ref: one
            for one in self._environment.engine.now_answer(DetailsQuery(tuple(row.ref for row in rows)))
        }
        return [PastOccurrence(self._local(row.instant), row.status, report_of(job, details[row.ref])) for row in rows]

    def _number(self, job: str) -> JobNumber:
        found = self._environment.engine.now_answer(JobsByNameQuery((job,)))
        if job in found:
            return found[job].number
        names = [one.name for one in self._environment.engine.now_answer(JobsQuery())]
        hint = did_you_mean(job, names, otherwise=f"there are {', '.join(names[:_NAMES_SHOWN]) or 'none'}")
        raise ClockError(f"there is no job {job!r} in this app; {hint}")

    def describe(self) -> str:
        """Return what has happened, in words, for the output of a failed test."""
        histories = [repr(self.history(job.name)) for job in self._environment.engine.now_answer(JobsQuery())]
        said = [str(line) for line in self.logs if line.level in ("warning", "error")]
        return "\n".join([f"the clock shows {self.now.isoformat()}", *histories, *said[-_LINES_SHOWN:]])

    # -- end ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the test node. Nothing runs afterwards, but its history can still be read."""
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
    """Return the parts of a job that can be faked: its tasks, and conditions that are functions or calls."""
    return [
        *(task.name for task in definition.tasks),
        *(str(one) for one in definition.requires if one.kind in ("python", "http")),
    ]


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
