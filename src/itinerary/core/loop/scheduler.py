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
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Command, Level
from itinerary.core.loop.completion import finished
from itinerary.core.loop.events import Counted
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
    TakenUp,
    TouchLost,
    TouchRegained,
    TransactionEnded,
    TransactionOpened,
    Unclaimable,
    WorkOffered,
    WritesAnswered,
)
from itinerary.core.loop.occurrence import LIVE, UNSTARTED, Course, Here, Stage
from itinerary.core.loop.report_queue import Reports
from itinerary.core.loop.starts import Starting
from itinerary.core.loop.state import Board, Overdue
from itinerary.core.loop.statistics import Tally
from itinerary.core.loop.task_transactions import Lending
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Change, Refusal, Refused, Written
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["OVERLOAD_MAX", "Scheduler"]

OVERLOAD_MAX: Final = 60 * SECOND
"""How long a node continues with more unwritten updates than allowed (L8)."""
LAUNCH_FOR: Final = SECOND // 50
"""How long launched attempts have to begin, before the loop does anything that can wait."""

_OfTheStore: TypeAlias = ClaimsAnswered | Unclaimable | StartsAnswered | TakenUp | WritesAnswered
_OfTheTimeline: TypeAlias = IndexBuilt | JobChanged | MembersChanged | ClockDoubted | ClockJumped
_OfTheWork: TypeAlias = (
    AttemptsReported | Heartbeats | TransactionOpened | TransactionEnded | WorkOffered | TouchLost | TouchRegained
)
_OfPeople: TypeAlias = RowsRead | CancelRequested | ConfigurationUpdated | SettingsChanged | ShutdownRequested


class Scheduler:
    """The scheduling decisions of one node."""

    def __init__(self, settings: Settings, here: Here) -> None:
        self._settings = settings
        self._board = board = Board(settings, here)
        self._starting, self._lending, self._reports = Starting(board), Lending(board), Reports(board)
        self._has_exited = False
        self._iterated_at = self._heartbeats_at = 0
        self._tally = Tally()

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
        board, out = self._board, Outbox()
        if board.has_launched:
            # The time counts from this iteration, because the one that launched them may have taken longer.
            board.has_launched, board.launching_until = False, now + LAUNCH_FOR
        claiming.want(board, now, out)
        for message in messages:
            self._reports.before(message, now, out)
            self._receive(message, now, out)
        self._reports.take_up(now, out)
        claiming.take_offers(board, now, out)
        self._starting.on_time(now, out)
        if board.cuts_at is not None and board.cuts_at <= now:
            self._cut_off(now, out)
        if board.unheard_for is not None:
            self._give_way(board.unheard_for, now, out)
        self._check_heartbeats(now, out)
        board.starting += len(out.starts)
        board.forget(now)
        self._keep_within_bounds(now, out)
        self._record(now, out, len(messages), inbox_depth, took)
        board.unwritten += len(out.changes)
        board.asked += len(out.wanted) + len(out.starts) + len(out.takings)
        return out.commands(board.revision)

    @property
    def next_at(self) -> int | None:
        """When the next iteration is due, if no message arrives before; None if nothing waits for a timer."""
        board = self._board
        if board.scanned_until is None and not board.is_stale and board.takes_work:
            return 0  # a new index waits to be scanned
        if self._starting.has_more or self._reports.can_go_on or board.has_launched:
            return 0
        claims_at = board.launching_until if board.has_put_off and not board.is_starting else None
        known = (board.alarms.next_at, board.cuts_at, board.leaves_at, self._reports.at, board.more_at, claims_at)
        times = [time for time in known if time is not None]
        return min(times, default=None)

    def is_hurried(self, now: int) -> bool:
        """True if starts are being written or are about to begin, and all work that can wait must wait."""
        return self._board.is_hurried(now)

    def unfinished(self) -> list[str]:
        """Return the ids of the runs that have started on this node and whose end is not durable yet."""
        return [_shown_id(course) for course in list(self._board.live.values())]

    def overdue(self, now: int) -> Overdue:
        """Return how many runs are due and have not started, and since when."""
        return self._board.overdue(now)

    @property
    def lacks_slots(self) -> bool:
        """True if due runs wait for a slot of the node and none is free."""
        line = self._board.line
        return line.free <= 0 and len(line) > 0

    # -- messages ----------------------------------------------------------------------------------------------------

    def _receive(self, message: Message, now: int, out: Outbox) -> None:
        match message:
            case ClaimsAnswered() | Unclaimable() | StartsAnswered() | TakenUp() | WritesAnswered():
                self._hear_the_store(message, now, out)
            case (
                AttemptsReported()
                | Heartbeats()
                | TransactionOpened()
                | TransactionEnded()
                | WorkOffered()
                | TouchLost()
                | TouchRegained()
            ):
                self._hear_of_work(message, now, out)
            case IndexBuilt() | JobChanged() | MembersChanged() | ClockDoubted() | ClockJumped():
                self._hear_of_the_timeline(message, now, out)
            case RowsRead() | CancelRequested() | ConfigurationUpdated() | SettingsChanged() | ShutdownRequested():
                self._hear_people(message, now, out)
            case OccurrenceAsked() | ActiveAsked() | JobAsked() | StatisticsAsked():
                requests.answer(self._board, message, self._tally.all_iterations, now, out)
            case _:
                assert_never(message)

    def _hear_the_store(self, message: _OfTheStore, now: int, out: Outbox) -> None:
        match message:
            case StartsAnswered():
                self._starting.answered(message, now, out)
            case WritesAnswered():
                self._take_writes(message, now, out)
            case TakenUp():
                self._starting.taken_up(message, now, out)
            case ClaimsAnswered() | Unclaimable():
                claiming.claims_answered(self._board, message, now, out)
            case _:
                assert_never(message)

    def _hear_of_work(self, message: _OfTheWork, now: int, out: Outbox) -> None:
        match message:
            case AttemptsReported(reports):
                self._reports.put(reports, now)
            case Heartbeats(refs):
                for ref in refs:
                    if (course := self._board.live.get(ref)) is not None:
                        course.seen_at = now
            case WorkOffered(rows):
                self._board.offers = list(rows)
            case TouchLost(silent_for):
                self._board.unheard_for = silent_for
            case TouchRegained():
                self._board.unheard_for = None
            case TransactionOpened():
                self._lending.opened(message, out)
            case TransactionEnded():
                self._lending.ended(message, now, out)
            case _:
                assert_never(message)

    def _give_way(self, silent_for: int, now: int, out: Outbox) -> None:
        """Kill running work that other nodes may soon run again, because this node lost contact (protocol rule 18).

        Only work with `on_orphan = rerun` is killed, and everything else continues (N5). Repeat this until contact is
        restored: a start that was in flight may be answered before. The killed work waits for a slot, and until then
        there is none.
        """
        board = self._board
        why = f"node {board.here.name} could not reach the store for {silent_for // SECOND} s, and gave way"
        for course in list(board.live.values()):
            if course.terms.config.job.on_orphan.reruns and course.can_lose_tasks:
                board.line.release(course)
                if lifecycle.give_way(course, why, now, out):
                    out.log(Level.WARNING, "occurrence.gave_way", **ending.named(course), why=why)
                board.after(course, now, out)

    def _hear_of_the_timeline(self, message: _OfTheTimeline, now: int, out: Outbox) -> None:
        board = self._board
        match message:
            case IndexBuilt():
                known = board.revision
                if claiming.take_index(board, message):
                    self._starting.go_on(now, out, has_moved_on=board.revision != known)
            case JobChanged(revision):
                if revision > board.revision:
                    board.is_stale = True
                    out.rebuild("the timeline has changed")
            case MembersChanged(members):
                claiming.take_members(board, members, out)
            case ClockDoubted(by):
                board.is_in_doubt = True
                out.log(Level.WARNING, "clock.doubted", by_microseconds=by)
            case ClockJumped(by, why, is_absorbed):
                if not is_absorbed:
                    board.is_in_doubt = False
                    board.shift(by, now)
                    self._heartbeats_at, self._iterated_at = 0, now
                    self._tally.since = now
                out.log(Level.WARNING, "clock.jumped", by_microseconds=by, why=why)
                out.rebuild("the clock has jumped")
            case _:
                assert_never(message)

    def _hear_people(self, message: _OfPeople, now: int, out: Outbox) -> None:
        match message:
            case RowsRead(rows):
                for row in rows:
                    requests.look_at(self._board, row, now, out)
            case CancelRequested():
                requests.cancel(self._board, message, now, out)
            case ConfigurationUpdated():
                requests.update(self._board, message, now, out)
            case SettingsChanged(settings):
                self._settings = settings
                self._board.take_settings(settings)
            case ShutdownRequested(why):
                self._shut_down(why, now, out)
            case _:
                assert_never(message)

    def _take_writes(self, message: WritesAnswered, now: int, out: Outbox) -> None:
        board = self._board
        board.unwritten -= len(message.changes)
        for change, answer in zip(message.changes, message.answers, strict=True):
            if isinstance(answer, Written) and answer.next is not None and board.takes_work:
                out.reads.append(answer.next)  # it was in the overlap queue, and its turn has come
            course = board.by_ref.get(change.ref)
            if course is None or course.stage is Stage.OVER:
                continue
            if course.stage in UNSTARTED:  # the change marked it as pending
                is_lost = isinstance(answer, Refused) and change.fence == course.fence
                if is_lost and course.stage is not Stage.STARTING:
                    board.over(course, now)
            elif change.fence == course.pen.fence and change.sequence > course.pen.begun_with:
                self._take_write(course, change, answer, now, out)
        self._lending.lend(out)

    def _take_write(self, course: Course, change: Change, answer: Written | Refused, now: int, out: Outbox) -> None:
        """Handle the answer to a change of an occurrence that runs here.

        The answer to a `pending` mark may arrive after the start, so the caller filters it out.
        """
        if isinstance(answer, Written):
            lifecycle.written(course, change, now, out)
        elif answer.why is Refusal.LIMITED:
            lifecycle.limited(course, now, out)
        else:
            ending.lose(course, f"{answer.why}: {answer.by}", out)
            if answer.why is Refusal.UNWRITABLE:  # the store has ended it as failed
                out.news.append(finished(course, OccurrenceState.FAILED, now, answer.by))
        self._board.after(course, now, out)

    def _shut_down(self, why: str, now: int, out: Outbox) -> None:
        """Take no new work, give back what has not started, and apply `on_shutdown` to the rest (R9)."""
        board = self._board
        if board.ends_at is not None:
            return
        board.ends_at = now + self._settings.shutdown_grace_period
        board.cuts_at = now + self._settings.finish_timeout
        out.log(Level.INFO, "node.shutting_down", why=why, running=len(board.live))
        for course in list(board.by_ref.values()):
            if course.stage in (Stage.CLAIMED, Stage.LINED_UP):
                claiming.release(board, course, now, out)
            elif course.stage in LIVE:
                board.after(course, now, out)

    def _cut_off(self, now: int, out: Outbox) -> None:
        """Interrupt all running work. The rest of the grace period is for its end."""
        board = self._board
        board.cuts_at = None
        for course in list(board.live.values()):
            board.after(course, now, out)

    # -- heartbeats, bounds, statistics ------------------------------------------------------------------------------

    def _check_heartbeats(self, now: int, out: Outbox) -> None:
        """Count one miss per whole interval, and orphan an occurrence after the allowed misses (O4).

        Silence counts only while the loop runs. If the loop itself paused for longer than an interval, the machine
        slept or the process was stopped. The orchestrators stopped as well, so their silence counts from now on.
        """
        interval = self._settings.orchestrator_heartbeat_interval
        was_away, self._iterated_at = now - self._iterated_at > interval, now
        if was_away:
            for course in self._board.live.values():
                course.seen_at = now
        if now < self._heartbeats_at:
            return
        self._heartbeats_at = now + interval // 2
        allowed = self._settings.max_missed_orchestrator_heartbeats
        board = self._board
        for course in [one for one in board.live.values() if one.misses or now - one.seen_at >= interval]:
            if course.stage not in LIVE:
                continue
            self._count_misses(course, now, out)
            if course.misses < allowed or course.outlives_its_node:  # its pods are known to exist (K4)
                continue
            if course.stage is not Stage.TELLING:  # otherwise its end is decided, and its hooks have a time limit
                lifecycle.orphan(course, now, out)
                board.after(course, now, out)

    def _count_misses(self, course: Course, now: int, out: Outbox) -> None:
        """Count the heartbeats that an orchestrator has missed in a row, and log each of them, up to the limit."""
        interval = self._settings.orchestrator_heartbeat_interval
        allowed = self._settings.max_missed_orchestrator_heartbeats
        before, course.misses = course.misses, (now - course.seen_at) // interval
        if before < course.misses and before < allowed:
            out.log(
                Level.WARNING,
                "heartbeat.missed",
                **ending.named(course),
                missed=course.misses,
                max_missed_orchestrator_heartbeats=allowed,
                silent_for=format_duration(now - course.seen_at),
            )

    def _keep_within_bounds(self, now: int, out: Outbox) -> None:
        """Take no new work while too many updates are not durable, and exit after a while (L8) or after a shutdown."""
        board, bound = self._board, self._settings.max_buffered_updates
        if board.unwritten <= bound:
            if board.overloaded_at is not None:
                out.log(Level.INFO, "node.takes_work_again", unwritten=board.unwritten)
            board.overloaded_at = None
        elif board.overloaded_at is None:
            board.overloaded_at = now
            out.log(Level.ERROR, "node.takes_no_work", unwritten=board.unwritten, max_buffered_updates=bound)
        if self._has_exited:
            return
        if board.overloaded_at is not None and now - board.overloaded_at >= OVERLOAD_MAX:
            self._has_exited = True
            seconds = OVERLOAD_MAX // SECOND
            error = (
                f"{board.unwritten} updates could not be written for {seconds} s, and {bound} are allowed "
                "(max_buffered_updates); is the store reachable?"
            )
            out.exit(len(board.live), error)
        elif (leaves_at := board.leaves_at) is not None and (now >= leaves_at or board.is_idle(out)):
            self._has_exited = True
            out.exit(len(board.live))

    def _record(self, now: int, out: Outbox, messages: int, inbox_depth: int, took: int) -> None:
        tally = self._tally
        tally.add(now, messages, took)
        if now - tally.since >= self._settings.loop_interval:
            out.keep(tally.row(self._board, now, inbox_depth), _counted(self._board))
            self._tally = Tally(now, tally.all_iterations)


def _shown_id(course: Course) -> str:
    """Return the id by which people look up an occurrence."""
    key, name = course.key, course.plan.name
    has_run_id = key.kind.is_by_schedule or key.kind is Kind.REPLAY
    return key.run_id(name) if has_run_id else str(key.id(job_id(name)))


def _counted(board: Board) -> Counted:
    """Return how many occurrences hold a slot, and how many have begun and wait without one."""
    running = max(board.settings.max_concurrent_jobs - board.line.free, 0)
    return Counted(running, max(len(board.live) - running, 0))
