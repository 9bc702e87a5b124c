"""The central loop's mind: `iterate(now, messages) -> commands` (L1 to L3).

One of these per node owns all scheduling state. It does no I/O and reads no clock: time and messages come in, commands
go out, and what becomes of them comes back as messages. Each iteration is the same sequence:

    1  schedule what comes within reach      the index ─► Claim
    2  process every message                 answers, reports, requests
    3  do what time has come for             starts, timeouts, retries; slots go to who waits
    4  check heartbeats                      one that nobody looks after is orphaned
    5  clean up                              what is over and past its grace period leaves memory
    6  record statistics

An occurrence is known by its key, so a node never schedules one twice (L9). `next_at` says when the next iteration is
due, if no message comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from itinerary.core import ending, lifecycle
from itinerary.core.agenda import Agenda, Line
from itinerary.core.answers import ActiveOccurrence, JobStanding, Loan, LoopStatistics, Told
from itinerary.core.commands import Command, Level
from itinerary.core.course import LIVE, UNSTARTED, Closing, Course, Here, Stage
from itinerary.core.index import ScheduledRunIndex
from itinerary.core.messages import (
    ActiveAsked,
    AttemptsReported,
    CancelRequested,
    ClaimsAnswered,
    ClockDoubted,
    ClockJumped,
    ConfigurationUpdated,
    Heartbeats,
    IndexBuilt,
    JobAsked,
    JobChanged,
    Message,
    OccurrenceAsked,
    RowsRead,
    ShutdownRequested,
    StartsAnswered,
    StatisticsAsked,
    TransactionEnded,
    TransactionOpened,
    Unclaimable,
    WorkOffered,
    WritesAnswered,
)
from itinerary.core.outbox import Outbox
from itinerary.core.plans import JobPlan, PlanBook
from itinerary.core.progress import Phase
from itinerary.core.timeline import Timeline
from itinerary.model.occurrence import Kind
from itinerary.model.rows import AttemptRow, JobNumber, Key, OccurrenceRow, Ref, StatisticsRow
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL, OccurrenceState, TaskState
from itinerary.model.writes import Change, Intervention, Refusal, Refused, Started, Step, Wanted, Written
from itinerary.schedules.durations import SECOND

__all__ = ["OVERLOAD_MAX", "Scheduler"]

OVERLOAD_MAX: Final = 60 * SECOND
"""How long a node goes on that has more unwritten updates than it may have (L8)."""
_EARLY_AGAIN: Final = SECOND // 100
"""When a start that the store found too early is asked for again."""


class Scheduler:
    """All scheduling state of one node."""

    def __init__(self, settings: Settings, here: Here) -> None:
        self.settings, self.here = settings, here
        self.revision = -1
        self._index = ScheduledRunIndex()
        self._jobs: Sequence[tuple[JobNumber, int]] = ()
        self._plans = PlanBook(Timeline())
        self._scanned_until: int | None = None
        self._is_stale = True
        """The timeline has moved on: nothing is claimed until the index has."""
        self._is_in_doubt = False
        """Nobody knows what time it is: nothing is begun until somebody does."""
        self._known: dict[Key, Course] = {}
        self._by_ref: dict[Ref, Course] = {}
        self._live: dict[Ref, Course] = {}
        self._moved: list[Course] = []
        """What was to start when the timeline moved on."""
        self._alarms, self._forgetting = Agenda(), Agenda()
        self._line = Line(settings.max_concurrent_jobs)
        self._last_run: dict[JobNumber, int] = {}
        self._borrowers: list[TransactionOpened] = []
        self._unwritten = self._asked = 0
        self._overloaded_at: int | None = None
        self._ends_at: int | None = None
        self._has_exited = False
        self._heartbeats_at = 0
        self._tally = _Tally()

    # -- the iteration -----------------------------------------------------------------------------------------------

    def iterate(self, now: int, messages: Sequence[Message], *, inbox_depth: int = 0, took: int = 0) -> list[Command]:
        """Do everything that there is to do now. `took` is how long the last iteration took, by somebody's clock."""
        out = Outbox()
        self._schedule(now, out)
        for message in messages:
            self._receive(message, now, out)
        self._do_what_is_due(now, out)
        self._check_heartbeats(now, out)
        self._clean_up(now)
        self._keep_within_bounds(now, out)
        self._record(now, out, len(messages), inbox_depth, took)
        self._unwritten += len(out.changes)
        self._asked += len(out.wanted) + len(out.starts)
        return out.commands(self.revision)

    @property
    def next_at(self) -> int | None:
        """When the next iteration is due, if no message comes before; None if nothing is waiting for time to pass."""
        times = [self._alarms.next_at, self._ends_at]
        return min((time for time in times if time is not None), default=None)

    # -- 1: what comes within reach ----------------------------------------------------------------------------------

    @property
    def _takes_work(self) -> bool:
        return self._ends_at is None and self._overloaded_at is None and not self._is_in_doubt

    def _schedule(self, now: int, out: Outbox) -> None:
        """Claim what is due in `[now - grace_period, now + pre_schedule_interval)` and not yet known."""
        if self._is_stale or not self._takes_work:
            return
        start = now - self.settings.grace_period if self._scanned_until is None else self._scanned_until
        end = now + self.settings.pre_schedule_interval
        if end <= start:
            return
        self._scanned_until = end
        runs = self._index.query(start, end)
        for number, instant in zip(runs.numbers.tolist(), runs.instants.tolist(), strict=True):
            plan = self._plans.plan(*self._jobs[number])
            if isinstance(plan, str) or not plan.is_runnable:
                continue
            key = Key(instant, plan.number, Kind.SCHEDULED)
            if key not in self._known:
                course = Course(self.here, key, plan, plan.due_at(instant))
                self._known[key] = course
                priority = plan.terms.config.job.priority
                out.wanted.append(Wanted(key, plan.version, course.due_at, priority=priority))

    # -- 2: messages -------------------------------------------------------------------------------------------------

    def _receive(self, message: Message, now: int, out: Outbox) -> None:  # noqa: C901 - a list of all messages
        match message:
            case AttemptsReported():
                self._take_reports(message, now, out)
            case StartsAnswered():
                self._take_starts(message, now, out)
            case WritesAnswered():
                self._take_writes(message, now, out)
            case ClaimsAnswered() | Unclaimable():
                self._take_claims(message, now, out)
            case Heartbeats(refs):
                for ref in refs:
                    if (course := self._live.get(ref)) is not None:
                        course.seen_at = now
            case IndexBuilt():
                self._take_index(message, now)
            case JobChanged(revision):
                if revision > self.revision:
                    self._is_stale = True
                    out.rebuild("the timeline has changed")
            case ClockDoubted(by):
                self._is_in_doubt = True
                out.log(Level.WARNING, "clock.doubted", by_microseconds=by)
            case ClockJumped(by):
                self._is_in_doubt = False
                self._scanned_until = None
                out.log(Level.WARNING, "clock.jumped", by_microseconds=by)
                out.rebuild("the clock has jumped")
            case WorkOffered(rows):
                self._take_offers(rows, now)
            case RowsRead(rows):
                for row in rows:
                    self._look_at(row, now, out)
            case CancelRequested():
                self._cancel(message, now, out)
            case ConfigurationUpdated():
                self._update(message, out)
            case OccurrenceAsked(ref, reply):
                course = self._by_ref.get(ref)
                out.reply(reply, None if course is None else self._shown(course, now))
            case ActiveAsked(reply):
                out.reply(reply, [self._shown(course, now) for course in self._active()])
            case JobAsked(job, reply):
                out.reply(reply, self._standing(job, now))
            case StatisticsAsked(reply):
                out.reply(reply, self._statistics())
            case TransactionOpened():
                self._borrowers.append(message)
                self._lend(out)
            case TransactionEnded():
                self._take_back(message, now, out)
            case ShutdownRequested(why):
                self._shut_down(why, now, out)
            case _:
                assert_never(message)

    def _take_index(self, message: IndexBuilt, now: int) -> None:
        if message.revision < self.revision:
            return  # an older one, that took longer
        self.revision = message.revision
        self._index, self._jobs, self._plans = message.index, message.jobs, message.plans
        self._is_stale = False
        self._scanned_until = None
        moved, self._moved = self._moved, []
        for course in moved:
            self._plan_anew(course)
            self._alarms.put(now, course)

    def _plan_anew(self, course: Course) -> None:
        """What has not started takes the version that is in force by now (R6)."""
        plan = self._plans.plan_at(course.key.job, course.key.instant)
        if isinstance(plan, JobPlan):
            course.plan = plan
            course.terms = plan.terms_of(course.overrides)
            course.prepare()

    # claims

    def _take_claims(self, message: ClaimsAnswered | Unclaimable, now: int, out: Outbox) -> None:
        self._asked -= len(message.wanted)
        if isinstance(message, Unclaimable):
            jobs = sorted({self._known[item.key].plan.name for item in message.wanted if item.key in self._known})
            out.log(
                Level.ERROR, "occurrences.unclaimable", jobs=jobs[:10], count=len(message.wanted), error=message.error
            )
            self._let_go(message.wanted, now)
        elif isinstance(message.answer, Refusal):
            for item in message.wanted:
                self._known.pop(item.key, None)
            self._is_stale = True
            out.rebuild("the timeline has changed")
        else:
            for claimed in message.answer:
                course = self._known[claimed.key]
                course.stage = Stage.CLAIMED
                course.ref, course.fence, course.adjustments = claimed.ref, claimed.fence, claimed.adjustments
                self._by_ref[course.ref] = course
                if self._ends_at is not None:
                    self._release(course, now, out)
                    continue
                course.prepare()
                self._alarms.put(course.due_at, course)
                if claimed.adjustments:
                    out.reads.append(claimed.ref)
            lost = len(message.wanted) - len(message.answer)
            if lost:
                self._let_go(message.wanted, now)
                out.log(Level.DEBUG, "occurrences.lost_to_others", count=lost)

    def _let_go(self, wanted: Iterable[Wanted], now: int) -> None:
        """Others have these: they are remembered for as long as they could be wanted again."""
        for item in wanted:
            course = self._known.get(item.key)
            if course is not None and course.stage is Stage.WANTED:
                self._over(course, now)

    # starts

    def _take_starts(self, message: StartsAnswered, now: int, out: Outbox) -> None:
        self._asked -= len(message.starts)
        for answer in message.answers:
            course = self._by_ref.get(answer.ref)
            if course is None or course.stage is not Stage.STARTING:
                out.log(Level.ERROR, "start.unexpected", occurrence=answer.ref, answer=str(answer))
            elif isinstance(answer, Started):
                self._begin(course, answer, now, out)
            else:
                self._line.release(course)
                self._start_refused(course, answer, now, out)

    def _begin(self, course: Course, answer: Started, now: int, out: Outbox) -> None:
        job = course.key.job
        course.last_run_at = self._last_run.get(job)
        if course.key.kind is Kind.SCHEDULED:
            self._last_run[job] = max(course.key.instant, self._last_run.get(job, course.key.instant))
        self._live[course.ref] = course
        lifecycle.begin(course, answer, now, out)
        if self._ends_at is not None:
            lifecycle.close(course, self._shutdown_closing(), now, out)
        self._after(course, now, out)

    def _start_refused(self, course: Course, answer: Refused, now: int, out: Outbox) -> None:
        course.stage = Stage.CLAIMED
        match answer.why:
            case Refusal.EARLY:
                self._alarms.put(now + _EARLY_AGAIN, course)
            case Refusal.LIMITED:
                self._alarms.put(now + lifecycle.LIMIT_RETRY_INTERVAL, course)
            case Refusal.MOVED:
                self._moved.append(course)
                self._is_stale = True
                out.rebuild("the timeline has changed")
            case Refusal.ADJUSTED:
                out.reads.append(course.ref)
            case Refusal.SKIPPED | Refusal.CANCELLED | Refusal.QUEUED | Refusal.LOST | Refusal.GONE:
                self._over(course, now)
                level = Level.INFO if answer.why in (Refusal.SKIPPED, Refusal.QUEUED) else Level.DEBUG
                out.log(level, f"occurrence.{answer.why}", **ending.named(course), why=answer.by)
            case Refusal.ILLEGAL | Refusal.UNWRITABLE:
                self._over(course, now)
                out.log(Level.ERROR, "occurrence.unstartable", **ending.named(course), why=answer.by)
            case _:
                assert_never(answer.why)

    # writes

    def _take_writes(self, message: WritesAnswered, now: int, out: Outbox) -> None:
        self._unwritten -= len(message.changes)
        for change, answer in zip(message.changes, message.answers, strict=True):
            course = self._by_ref.get(change.ref)
            if course is None or course.stage is Stage.OVER:
                continue
            if course.stage in UNSTARTED:
                if isinstance(answer, Refused) and course.stage is not Stage.STARTING:
                    self._over(course, now)
                continue
            if isinstance(answer, Written):
                lifecycle.written(course, change, now, out)
            elif answer.why is Refusal.LIMITED:
                lifecycle.limited(course, now)
            else:
                ending.lose(course, f"{answer.why}: {answer.by}", out)
            self._after(course, now, out)
        self._lend(out)

    # reports

    def _take_reports(self, message: AttemptsReported, now: int, out: Outbox) -> None:
        for report in message.reports:
            course = self._live.get(report.key.ref)
            if course is not None and lifecycle.reported(course, report, now, out):
                self._after(course, now, out)
            else:
                out.log(Level.INFO, "attempt.late_report", attempt=tuple(report.key), report=type(report).__name__)

    def _after(self, course: Course, now: int, out: Outbox) -> None:
        """What follows from any change of a course that has started: its slot, its alarm, its end."""
        if course.stage in LIVE:
            if lifecycle.is_waiting(course):
                self._line.release(course)
            at = lifecycle.wakes_at(course)
            if at is not None and not (now < course.alarm_at <= at):
                course.alarm_at = at
                self._alarms.put(at, course)
        else:
            self._line.release(course)
            if course.stage is Stage.OVER and self._live.pop(course.ref, None) is not None:
                out.forget.append(course.ref)
                self._over(course, now)

    def _over(self, course: Course, now: int) -> None:
        """It is over: once its instant and the grace period have passed, it leaves memory (O6)."""
        course.stage = Stage.OVER
        course.request = None
        self._line.release(course)
        self._forgetting.put(max(course.key.instant + self.settings.grace_period, now), course)

    # work that anybody may do

    def _take_offers(self, rows: Sequence[OccurrenceRow], now: int) -> None:
        """Line up what is offered; no more than there is room for, since others may have room too (PROTOCOL 15)."""
        room = self._line.free - len(self._line)
        for row in sorted(rows, key=lambda row: (-row.priority, row.instant)):
            plan = self._plans.plan_at(row.job, row.instant)
            if room <= 0 or not self._takes_work or self._is_stale:
                return
            if row.ref in self._by_ref or isinstance(plan, str) or not plan.is_runnable or row.due_at > now:
                continue
            course = Course(self.here, row.key, plan, row.due_at)
            course.ref, course.adjustments, course.overrides = row.ref, row.adjustments, row.overrides
            course.terms = plan.terms_of(row.overrides)
            course.window, course.is_recovery = row.window, row.is_recovery
            course.prepare()
            course.stage = Stage.CLAIMED
            self._known[row.key] = self._by_ref[row.ref] = course
            self._alarms.put(now, course)
            room -= 1

    # what people want

    def _look_at(self, row: OccurrenceRow, now: int, out: Outbox) -> None:
        """A row of this node that somebody has changed."""
        course = self._by_ref.get(row.ref)
        if course is None or course.stage is Stage.OVER:
            return
        if row.cancelled_by is not None:
            self._cancel(CancelRequested(row.ref, row.cancelled_by), now, out)
        elif row.status in FINAL:
            if course.stage in UNSTARTED:
                self._over(course, now)
        elif row.adjustments > course.adjustments:
            self._update(ConfigurationUpdated(row.ref, row.overrides or "{}", row.adjustments), out)
            if course.due_at <= now:
                self._alarms.put(now, course)

    def _cancel(self, message: CancelRequested, now: int, out: Outbox) -> None:
        course = self._by_ref.get(message.ref)
        if course is None:
            self._refuse(message, "it is not known here", out)
        elif course.stage in UNSTARTED and course.stage is not Stage.STARTING:
            self._over(course, now)
            out.log(Level.INFO, "occurrence.cancelled", **ending.named(course), by=message.by)
            out.reply(message.reply, Told(done=True))
        elif course.stage is Stage.STARTING:
            out.reply(message.reply, Told(done=True))  # its start is refused, or its request is in the row that comes back
            out.reads.append(course.ref)
        elif lifecycle.close(course, Closing(OccurrenceState.CANCELLED, message.by, message.by), now, out):
            self._after(course, now, out)
            out.reply(message.reply, Told(done=True))
        elif course.closing is not None and course.closing.outcome is OccurrenceState.CANCELLED:
            out.reply(message.reply, Told(done=True))
        else:
            self._refuse(message, f"it has ended: {course.state}", out)

    def _update(self, message: ConfigurationUpdated, out: Outbox) -> None:
        course = self._by_ref.get(message.ref)
        if course is None:
            self._refuse(message, "it is not known here", out)
        elif course.stage not in (Stage.CLAIMED, Stage.LINED_UP):
            self._refuse(message, f"it is past prerun: {course.state}", out)
        else:
            course.overrides, course.adjustments = message.overrides, message.adjustments
            course.terms = course.plan.terms_of(message.overrides)
            course.prepare()
            out.reply(message.reply, Told(done=True))

    def _refuse(self, message: CancelRequested | ConfigurationUpdated, why: str, out: Outbox) -> None:
        out.log(Level.INFO, "request.refused", request=type(message).__name__, occurrence=message.ref, why=why)
        out.reply(message.reply, Told(done=False, why=why))

    # transactions of tasks (D6)

    def _lend(self, out: Outbox) -> None:
        """Let those who want a transaction have it, as soon as everything before it is written."""
        waiting, self._borrowers = self._borrowers, []
        for message in waiting:
            course = self._live.get(message.attempt.ref)
            task = None if course is None else course.task_at(message.attempt.place)
            if (
                course is None
                or task is None
                or task.phase is not Phase.RUNNING
                or task.number != message.attempt.number
            ):
                out.reply(message.reply, Told(done=False, why="its attempt is over"))
            elif task.has_committed:
                out.reply(message.reply, Told(done=False, why="its attempt has committed a transaction already"))
            elif not course.pen.can_be_lent:
                self._borrowers.append(message)
                out.is_urgent = True
            else:
                sequence, fence = course.pen.lend(), course.pen.fence
                row = AttemptRow(*message.attempt, TaskState.SUCCESS, task.started_at)
                failed = AttemptRow(*message.attempt, TaskState.FAILED, task.started_at, error="commit failed")
                success = Change(course.ref, fence, sequence, attempts=(row,))
                out.reply(message.reply, Loan(success, Change(course.ref, fence, sequence, attempts=(failed,))))

    def _take_back(self, message: TransactionEnded, now: int, out: Outbox) -> None:
        course = self._live.get(message.attempt.ref)
        if course is None:
            return
        course.pen.give_back(message.writes)
        task = course.task_at(message.attempt.place)
        if task is not None and task.number == message.attempt.number:
            task.has_committed = task.has_committed or message.committed
        lifecycle.go_on(course, now, out)
        self._after(course, now, out)

    # the end

    def _shut_down(self, why: str, now: int, out: Outbox) -> None:
        """Take no new work, give back what has not started, cancel what runs (R9)."""
        if self._ends_at is not None:
            return
        self._ends_at = now + self.settings.shutdown_grace_period
        out.log(Level.INFO, "node.shutting_down", why=why, running=len(self._live))
        for course in list(self._by_ref.values()):
            if course.stage in (Stage.CLAIMED, Stage.LINED_UP):
                self._release(course, now, out)
            elif course.stage in LIVE:
                lifecycle.close(course, self._shutdown_closing(), now, out)
                self._after(course, now, out)

    def _shutdown_closing(self) -> Closing:
        why = f"node {self.here.name} was shut down"
        return Closing(OccurrenceState.CANCELLED, "shutdown", why)

    def _release(self, course: Course, now: int, out: Outbox) -> None:
        if course.fence is not None:
            why = f"released by node {self.here.name}, which shuts down"
            out.releases.append(Intervention(course.ref, course.fence, None, why))
        self._over(course, now)

    # -- 3: what time has come for -----------------------------------------------------------------------------------

    def _do_what_is_due(self, now: int, out: Outbox) -> None:
        for course in self._alarms.due(now):
            if course.stage is Stage.CLAIMED:
                self._line_up(course, now)
            elif course.stage in LIVE:
                self._on_time(course, now, out)
        if not self._is_stale and self._takes_work:
            while (next_one := self._line.take()) is not None:
                self._give_slot(next_one, now, out)
        for course in self._line.places() if self._line.free <= 0 and len(self._line) else ():
            self._mark_as_waiting(course, out)

    def _line_up(self, course: Course, now: int) -> None:
        course.stage = Stage.LINED_UP
        self._line.put(course, now)

    def _give_slot(self, course: Course, now: int, out: Outbox) -> None:
        """It has a slot: it starts, or goes on."""
        if course.stage is Stage.LINED_UP:
            assert course.request is not None, "it was prepared when it was claimed"
            course.stage = Stage.STARTING
            out.starts.append(course.request)
        elif course.stage in LIVE and lifecycle.wants_slot(course, now):
            lifecycle.on_time(course, now, out)
            self._after(course, now, out)
        else:
            self._line.release(course)

    def _mark_as_waiting(self, course: Course, out: Outbox) -> None:
        """What is due and lacks a slot of this node is `pending`: others that have one may start it (PROTOCOL 15)."""
        if course.stage is Stage.LINED_UP and course.fence is not None and not course.is_marked:
            course.is_marked = True
            step = Step(OccurrenceState.PENDING, None, f"node {self.here.name} has no free slot")
            out.changes.append(Change(course.ref, course.fence, 1, (step,)))

    def _on_time(self, course: Course, now: int, out: Outbox) -> None:
        if not course.holds_slot and lifecycle.wants_slot(course, now):
            if not course.lined_up_at:
                self._line.put(course, now)
        else:
            lifecycle.on_time(course, now, out)
        self._after(course, now, out)

    # -- 4 and 5: heartbeats, and cleaning up ------------------------------------------------------------------------

    def _check_heartbeats(self, now: int, out: Outbox) -> None:
        if now < self._heartbeats_at:
            return
        interval = self.settings.orchestrator_heartbeat_interval
        self._heartbeats_at = now + interval // 2
        silent = interval * self.settings.max_missed_orchestrator_heartbeats
        for course in [course for course in self._live.values() if now - course.seen_at >= silent]:
            if course.stage in LIVE:
                ending.orphan(course, now, out)
                self._after(course, now, out)

    def _clean_up(self, now: int) -> None:
        for course in self._forgetting.due(now):
            self._by_ref.pop(course.ref, None)
            if self._known.get(course.key) is course:
                del self._known[course.key]

    # -- 6: bounds and statistics ------------------------------------------------------------------------------------

    def _keep_within_bounds(self, now: int, out: Outbox) -> None:
        """Too much that is not durable: no new work, and after a while the end (L8). And the end of a shutdown."""
        if self._unwritten <= self.settings.max_buffered_updates:
            if self._overloaded_at is not None:
                out.log(Level.INFO, "node.takes_work_again", unwritten=self._unwritten)
            self._overloaded_at = None
        elif self._overloaded_at is None:
            self._overloaded_at = now
            bound = self.settings.max_buffered_updates
            out.log(Level.ERROR, "node.takes_no_work", unwritten=self._unwritten, max_buffered_updates=bound)
        if self._has_exited:
            return
        if self._overloaded_at is not None and now - self._overloaded_at >= OVERLOAD_MAX:
            error = (
                f"{self._unwritten} updates could not be written for {OVERLOAD_MAX // SECOND} s, and "
                f"{self.settings.max_buffered_updates} are allowed (max_buffered_updates); is the store reachable?"
            )
            self._has_exited = True
            out.exit(len(self._live), error)
        elif self._ends_at is not None and (now >= self._ends_at or self._is_idle(out)):
            self._has_exited = True
            out.exit(len(self._live))

    def _is_idle(self, out: Outbox) -> bool:
        return not (self._live or self._unwritten or self._asked or out.changes)

    def _record(self, now: int, out: Outbox, messages: int, inbox_depth: int, took: int) -> None:
        tally = self._tally
        tally.add(now, messages, took)
        if now - tally.since >= self.settings.loop_interval:
            out.keep(
                StatisticsRow(
                    self.here.node,
                    now,
                    tally.iterations,
                    tally.longest,
                    tally.total,
                    len(self._live),
                    len(self._index),
                    inbox_depth,
                    tally.messages,
                )
            )
            self._tally = _Tally(now, tally.all_iterations)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _active(self) -> list[Course]:
        return [course for course in self._by_ref.values() if course.stage is not Stage.OVER]

    def _shown(self, course: Course, now: int) -> ActiveOccurrence:
        is_live = course.ref in self._live
        return ActiveOccurrence(
            course.ref,
            course.key,
            course.plan.name,
            course.state,
            course.started_at if is_live else None,
            course.seen_at if is_live else None,
            (now - course.seen_at) // self.settings.orchestrator_heartbeat_interval if is_live else 0,
            self._waits_for(course),
        )

    def _waits_for(self, course: Course) -> str:
        if course.lined_up_at:
            place = self._line.places().index(course) + 1
            return f"a slot of node {self.here.name}, {place} in line"
        if course.stage is Stage.CHECKING and course.resume_at is not None:
            return "a requirement"
        if course.stage in LIVE and course.pen.is_refused:
            return "a share of a limit"
        retrying = [task for task in course.tasks if task.phase is Phase.RETRYING]
        if course.stage is Stage.WORKING and retrying:
            task = min(retrying, key=lambda task: task.retry_at)
            total = task.config.retry.max_retries + 1
            return f"attempt {task.number + 1} of {total} of task {task.task.name}, at {task.retry_at}"
        return ""

    def _standing(self, job: JobNumber, now: int) -> JobStanding | None:
        plan = self._plans.plan_at(job, now)
        if isinstance(plan, str):
            return None
        active = tuple(self._shown(course, now) for course in self._active() if course.key.job == job)
        return JobStanding(plan.name, plan.version, active)

    def _statistics(self) -> LoopStatistics:
        return LoopStatistics(
            iterations=self._tally.all_iterations,
            active=len(self._live),
            index_size=len(self._index),
            waiting=len(self._line),
            free_slots=self._line.free,
            unwritten=self._unwritten,
        )


class _Tally:
    """What the loop did since the last row of statistics."""

    __slots__ = ("all_iterations", "iterations", "longest", "messages", "since", "total")

    def __init__(self, since: int | None = None, all_iterations: int = 0) -> None:
        self.since = 0 if since is None else since
        self.all_iterations = all_iterations
        self.iterations = self.longest = self.total = self.messages = 0

    def add(self, now: int, messages: int, took: int) -> None:
        """One more iteration; `took` is that of the one before."""
        self.since = self.since or now
        self.iterations += 1
        self.all_iterations += 1
        self.messages += messages
        self.longest = max(self.longest, took)
        self.total += took
