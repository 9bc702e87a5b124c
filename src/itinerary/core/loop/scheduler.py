"""The decisions of the central loop: `iterate(now, messages) -> commands` (L1 to L3).

A node has one `Scheduler`, which owns all scheduling state. The scheduler does no I/O and reads no clock. Time and
messages come in, commands go out, and the results of commands come back as messages. Each iteration has the same steps:

    1  claim upcoming occurrences            the index ─► Claim
    2  process every message                 answers, reports, requests
    3  handle due timers                     starts, timeouts, retries; free slots go to the slot queue
    4  check heartbeats                      an occurrence without an orchestrator is orphaned
    5  clean up                              done occurrences leave memory after their grace period
    6  record statistics

An occurrence is known by its key, so a node never schedules one twice (L9). `next_at` says when the next iteration is
due, if no message arrives before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from itinerary.core.loop import claims as claiming
from itinerary.core.loop import completion as ending
from itinerary.core.loop import lifecycle, requests
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import Command, LogLevel
from itinerary.core.loop.completion import finished
from itinerary.core.loop.events import LoadSampled
from itinerary.core.loop.messages import (
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
    MembersChanged,
    Message,
    OccurrenceAsked,
    RowsRead,
    SettingsChanged,
    ShutdownRequested,
    StartsAnswered,
    StatisticsAsked,
    StoreContactLost,
    StoreContactRestored,
    TakenUp,
    TransactionEnded,
    TransactionOpened,
    Unclaimable,
    WorkOffered,
    WritesAnswered,
)
from itinerary.core.loop.occurrence import LIVE, UNSTARTED, NodeContext, OccurrenceRun, Stage
from itinerary.core.loop.report_queue import ReportQueue
from itinerary.core.loop.starts import Starting
from itinerary.core.loop.state import OverdueRuns, SchedulerState
from itinerary.core.loop.statistics import LoopCounters
from itinerary.core.loop.task_transactions import WriteGrants
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Written
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["OVERLOAD_MAX", "Scheduler"]

OVERLOAD_MAX: Final = 60 * SECOND
"""How long a node continues with more unwritten updates than allowed (L8)."""
LAUNCH_FOR: Final = SECOND // 50
"""How long launched attempts have to begin, before the loop does anything that can wait."""

_OfTheStore: TypeAlias = ClaimsAnswered | Unclaimable | StartsAnswered | TakenUp | WritesAnswered
_OfTheTimeline: TypeAlias = IndexBuilt | JobChanged | MembersChanged | ClockDoubted | ClockJumped
_OfTheWork: TypeAlias = (
    AttemptsReported
    | Heartbeats
    | TransactionOpened
    | TransactionEnded
    | WorkOffered
    | StoreContactLost
    | StoreContactRestored
)
_OfPeople: TypeAlias = RowsRead | CancelRequested | ConfigurationUpdated | SettingsChanged | ShutdownRequested


class Scheduler:
    """The scheduling decisions of one node."""

    def __init__(self, settings: Settings, node: NodeContext) -> None:
        self._settings = settings
        self._scheduler = scheduler = SchedulerState(settings, node)
        self._starting, self._lending, self._reports = (
            Starting(scheduler),
            WriteGrants(scheduler),
            ReportQueue(scheduler),
        )
        self._has_exited = False
        self._iterated_at = self._heartbeats_at = 0
        self._tally = LoopCounters()

    def iterate(self, now: int, messages: Sequence[Message], *, inbox_depth: int = 0, took: int = 0) -> list[Command]:
        """Run one iteration of the loop.

        Args:
            now: The current time, in microseconds.
            messages: The messages since the last iteration, in order.
            inbox_depth: The number of messages in the inbox, for the statistics.
            took: The duration of the last iteration, as the caller measured it.

        Returns:
            The commands to carry out, in order.
        """
        scheduler, out = self._scheduler, CommandBatch()
        if scheduler.has_launched:
            # The time counts from this iteration, because the one that launched them may have taken longer.
            scheduler.has_launched, scheduler.launching_until = False, now + LAUNCH_FOR
        claiming.want(scheduler, now, out)
        for message in messages:
            self._reports.before(message, now, out)
            self._receive(message, now, out)
        self._reports.take_up(now, out)
        claiming.take_offers(scheduler, now, out)
        self._starting.on_time(now, out)
        if scheduler.cuts_at is not None and scheduler.cuts_at <= now:
            self._cut_off(now, out)
        if scheduler.unheard_for is not None:
            self._give_way(scheduler.unheard_for, now, out)
        self._check_heartbeats(now, out)
        scheduler.starting += len(out.starts)
        scheduler.forget(now)
        self._keep_within_bounds(now, out)
        self._record(now, out, len(messages), inbox_depth, took)
        scheduler.unwritten += len(out.changes)
        scheduler.asked += len(out.wanted) + len(out.starts) + len(out.takings)
        return out.commands(scheduler.revision)

    @property
    def next_at(self) -> int | None:
        """When the next iteration is due, if no message arrives before; None if nothing waits for a timer."""
        scheduler = self._scheduler
        if scheduler.scanned_until is None and not scheduler.is_stale and scheduler.takes_work:
            return 0  # a new index waits to be scanned
        if self._starting.has_more or self._reports.can_go_on or scheduler.has_launched:
            return 0
        claims_at = scheduler.launching_until if scheduler.has_put_off and not scheduler.is_starting else None
        known = (
            scheduler.alarms.next_at,
            scheduler.cuts_at,
            scheduler.leaves_at,
            self._reports.at,
            scheduler.more_at,
            claims_at,
        )
        times = [time for time in known if time is not None]
        return min(times, default=None)

    def is_hurried(self, now: int) -> bool:
        """True if starts are being written or are about to begin, and all work that can wait must wait."""
        return self._scheduler.is_hurried(now)

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that have started on this node and whose end is not durable yet."""
        return [_shown_id(run) for run in list(self._scheduler.live.values())]

    def overdue(self, now: int) -> OverdueRuns:
        """Return how many runs are due and have not started, and since when."""
        return self._scheduler.overdue(now)

    @property
    def lacks_slots(self) -> bool:
        """True if due runs wait for a slot of the node and none is free."""
        line = self._scheduler.line
        return line.free <= 0 and len(line) > 0

    # -- messages ----------------------------------------------------------------------------------------------------

    def _receive(self, message: Message, now: int, out: CommandBatch) -> None:
        match message:
            case ClaimsAnswered() | Unclaimable() | StartsAnswered() | TakenUp() | WritesAnswered():
                self._hear_the_store(message, now, out)
            case (
                AttemptsReported()
                | Heartbeats()
                | TransactionOpened()
                | TransactionEnded()
                | WorkOffered()
                | StoreContactLost()
                | StoreContactRestored()
            ):
                self._hear_of_work(message, now, out)
            case IndexBuilt() | JobChanged() | MembersChanged() | ClockDoubted() | ClockJumped():
                self._hear_of_the_timeline(message, now, out)
            case RowsRead() | CancelRequested() | ConfigurationUpdated() | SettingsChanged() | ShutdownRequested():
                self._hear_people(message, now, out)
            case OccurrenceAsked() | ActiveAsked() | JobAsked() | StatisticsAsked():
                requests.answer(self._scheduler, message, self._tally.all_iterations, now, out)
            case _:
                assert_never(message)

    def _hear_the_store(self, message: _OfTheStore, now: int, out: CommandBatch) -> None:
        match message:
            case StartsAnswered():
                self._starting.answered(message, now, out)
            case WritesAnswered():
                self._take_writes(message, now, out)
            case TakenUp():
                self._starting.taken_up(message, now, out)
            case ClaimsAnswered() | Unclaimable():
                claiming.claims_answered(self._scheduler, message, now, out)
            case _:
                assert_never(message)

    def _hear_of_work(self, message: _OfTheWork, now: int, out: CommandBatch) -> None:
        match message:
            case AttemptsReported(reports):
                self._reports.put(reports, now)
            case Heartbeats(refs):
                for ref in refs:
                    if (run := self._scheduler.live.get(ref)) is not None:
                        run.seen_at = now
            case WorkOffered(rows):
                self._scheduler.offers = list(rows)
            case StoreContactLost(silent_for):
                self._scheduler.unheard_for = silent_for
            case StoreContactRestored():
                self._scheduler.unheard_for = None
            case TransactionOpened():
                self._lending.opened(message, out)
            case TransactionEnded():
                self._lending.ended(message, now, out)
            case _:
                assert_never(message)

    def _give_way(self, silent_for: int, now: int, out: CommandBatch) -> None:
        """Kill running work that other nodes may soon run again, because this node lost contact (protocol rule 18).

        Only work with `on_orphan = rerun` is killed, and everything else continues (N5). Repeat this until contact is
        restored: a start that was in flight may be answered before. The killed work waits for a slot, and until then
        there is none.
        """
        scheduler = self._scheduler
        why = f"node {scheduler.node.name} could not reach the store for {silent_for // SECOND} s, and gave way"
        for run in list(scheduler.live.values()):
            if run.start_config.config.job.on_orphan.reruns and run.can_lose_tasks:
                scheduler.line.release(run)
                if lifecycle.give_way(run, why, now, out):
                    out.log(LogLevel.WARNING, "occurrence.gave_way", **ending.named(run), why=why)
                scheduler.after(run, now, out)

    def _hear_of_the_timeline(self, message: _OfTheTimeline, now: int, out: CommandBatch) -> None:
        scheduler = self._scheduler
        match message:
            case IndexBuilt():
                known = scheduler.revision
                if claiming.take_index(scheduler, message):
                    self._starting.proceed(now, out, has_moved_on=scheduler.revision != known)
            case JobChanged(revision):
                if revision > scheduler.revision:
                    scheduler.is_stale = True
                    out.rebuild("the timeline has changed")
            case MembersChanged(members):
                claiming.take_members(scheduler, members, out)
            case ClockDoubted(by):
                scheduler.is_in_doubt = True
                out.log(LogLevel.WARNING, "clock.doubted", by_microseconds=by)
            case ClockJumped(by, why, is_absorbed):
                if not is_absorbed:
                    scheduler.is_in_doubt = False
                    scheduler.shift(by, now)
                    self._heartbeats_at, self._iterated_at = 0, now
                    self._tally.since = now
                out.log(LogLevel.WARNING, "clock.jumped", by_microseconds=by, why=why)
                out.rebuild("the clock has jumped")
            case _:
                assert_never(message)

    def _hear_people(self, message: _OfPeople, now: int, out: CommandBatch) -> None:
        match message:
            case RowsRead(rows):
                for row in rows:
                    requests.look_at(self._scheduler, row, now, out)
            case CancelRequested():
                requests.cancel(self._scheduler, message, now, out)
            case ConfigurationUpdated():
                requests.update(self._scheduler, message, now, out)
            case SettingsChanged(settings):
                self._settings = settings
                self._scheduler.take_settings(settings)
            case ShutdownRequested(why):
                self._shut_down(why, now, out)
            case _:
                assert_never(message)

    def _take_writes(self, message: WritesAnswered, now: int, out: CommandBatch) -> None:
        scheduler = self._scheduler
        scheduler.unwritten -= len(message.changes)
        for change, answer in zip(message.changes, message.answers, strict=True):
            if isinstance(answer, Written) and answer.next is not None and scheduler.takes_work:
                out.reads.append(answer.next)  # it was in the overlap queue, and its turn has come
            run = scheduler.by_ref.get(change.ref)
            if run is None or run.stage is Stage.DONE:
                continue
            if run.stage in UNSTARTED:  # the change marked it as pending
                is_lost = isinstance(answer, Refused) and change.fence == run.fence
                if is_lost and run.stage is not Stage.STARTING:
                    scheduler.over(run, now)
            elif change.fence == run.writer.fence and change.sequence > run.writer.begun_with:
                self._take_write(run, change, answer, now, out)
        self._lending.lend(out)

    def _take_write(
        self, run: OccurrenceRun, change: OwnerWrite, answer: Written | Refused, now: int, out: CommandBatch
    ) -> None:
        """Handle the answer to a change of an occurrence that runs here.

        The answer to a `pending` mark may arrive after the start, so the caller filters it out.
        """
        if isinstance(answer, Written):
            lifecycle.written(run, change, now, out)
        elif answer.why is Refusal.LIMITED:
            lifecycle.limited(run, now, out)
        else:
            ending.lose(run, f"{answer.why}: {answer.by}", out)
            if answer.why is Refusal.UNWRITABLE:  # the store has ended it as failed
                out.news.append(finished(run, OccurrenceState.FAILED, now, answer.by))
        self._scheduler.after(run, now, out)

    def _shut_down(self, why: str, now: int, out: CommandBatch) -> None:
        """Take no new work, give back what has not started, and apply `on_shutdown` to the rest (R9)."""
        scheduler = self._scheduler
        if scheduler.ends_at is not None:
            return
        scheduler.ends_at = now + self._settings.shutdown_grace_period
        scheduler.cuts_at = now + self._settings.finish_timeout
        out.log(LogLevel.INFO, "node.shutting_down", why=why, running=len(scheduler.live))
        for run in list(scheduler.by_ref.values()):
            if run.stage in (Stage.CLAIMED, Stage.WAITING_FOR_SLOT):
                claiming.release(scheduler, run, now, out)
            elif run.stage in LIVE:
                scheduler.after(run, now, out)

    def _cut_off(self, now: int, out: CommandBatch) -> None:
        """Interrupt all running work. The rest of the grace period is for its end."""
        scheduler = self._scheduler
        scheduler.cuts_at = None
        for run in list(scheduler.live.values()):
            scheduler.after(run, now, out)

    # -- heartbeats, bounds, statistics ------------------------------------------------------------------------------

    def _check_heartbeats(self, now: int, out: CommandBatch) -> None:
        """Count one miss per whole interval, and orphan an occurrence after the allowed misses (O4).

        Silence counts only while the loop runs. If the loop itself paused for longer than an interval, the machine
        slept or the process was stopped. The orchestrators stopped as well, so their silence counts from now on.
        """
        interval = self._settings.orchestrator_heartbeat_interval
        was_away, self._iterated_at = now - self._iterated_at > interval, now
        if was_away:
            for run in self._scheduler.live.values():
                run.seen_at = now
        if now < self._heartbeats_at:
            return
        self._heartbeats_at = now + interval // 2
        allowed = self._settings.max_missed_orchestrator_heartbeats
        scheduler = self._scheduler
        for run in [one for one in scheduler.live.values() if one.misses or now - one.seen_at >= interval]:
            if run.stage not in LIVE:
                continue
            self._count_misses(run, now, out)
            if run.misses < allowed or run.outlives_its_node:  # its pods are known to exist (K4)
                continue
            if run.stage is not Stage.COMPLETE_HOOKS:  # otherwise its end is decided, and its hooks have a time limit
                lifecycle.orphan(run, now, out)
                scheduler.after(run, now, out)

    def _count_misses(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Count the heartbeats that an orchestrator has missed in a row, and log each of them, up to the limit."""
        interval = self._settings.orchestrator_heartbeat_interval
        allowed = self._settings.max_missed_orchestrator_heartbeats
        before, run.misses = run.misses, (now - run.seen_at) // interval
        if before < run.misses and before < allowed:
            out.log(
                LogLevel.WARNING,
                "heartbeat.missed",
                **ending.named(run),
                missed=run.misses,
                max_missed_orchestrator_heartbeats=allowed,
                silent_for=format_duration(now - run.seen_at),
            )

    def _keep_within_bounds(self, now: int, out: CommandBatch) -> None:
        """Take no new work while too many updates are not durable, and exit after a while (L8) or after a shutdown."""
        scheduler, bound = self._scheduler, self._settings.max_buffered_updates
        if scheduler.unwritten <= bound:
            if scheduler.overloaded_at is not None:
                out.log(LogLevel.INFO, "node.takes_work_again", unwritten=scheduler.unwritten)
            scheduler.overloaded_at = None
        elif scheduler.overloaded_at is None:
            scheduler.overloaded_at = now
            out.log(LogLevel.ERROR, "node.takes_no_work", unwritten=scheduler.unwritten, max_buffered_updates=bound)
        if self._has_exited:
            return
        if scheduler.overloaded_at is not None and now - scheduler.overloaded_at >= OVERLOAD_MAX:
            self._has_exited = True
            seconds = OVERLOAD_MAX // SECOND
            error = (
                f"{scheduler.unwritten} updates could not be written for {seconds} s, and {bound} are allowed "
                "(max_buffered_updates); is the store reachable?"
            )
            out.exit(len(scheduler.live), error)
        elif (leaves_at := scheduler.leaves_at) is not None and (now >= leaves_at or scheduler.is_idle(out)):
            self._has_exited = True
            out.exit(len(scheduler.live))

    def _record(self, now: int, out: CommandBatch, messages: int, inbox_depth: int, took: int) -> None:
        tally = self._tally
        tally.add(now, messages, took)
        if now - tally.since >= self._settings.loop_interval:
            out.keep(tally.row(self._scheduler, now, inbox_depth), _counted(self._scheduler))
            self._tally = LoopCounters(now, tally.all_iterations)


def _shown_id(run: OccurrenceRun) -> str:
    """Return the id by which people look up an occurrence."""
    key, name = run.key, run.plan.name
    has_run_id = key.kind.is_by_schedule or key.kind is Kind.REPLAY
    return key.run_id(name) if has_run_id else str(key.id(job_id(name)))


def _counted(scheduler: SchedulerState) -> LoadSampled:
    """Return how many occurrences hold a slot, and how many have begun and wait without one."""
    running = max(scheduler.settings.max_concurrent_jobs - scheduler.line.free, 0)
    return LoadSampled(running, max(len(scheduler.live) - running, 0))
