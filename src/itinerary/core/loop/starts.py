"""From the due instant to the start: a slot of the node, then the one write that must never happen twice.

due ─► LINED_UP ─► (a slot) ─► STARTING ─► begun
          │                        └────► refused: too early, no share, adjusted … and retried; or done
          └► without a slot it is `pending`: other nodes may start it (protocol rule 15)
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, assert_never

from itinerary.core.loop import claims as claiming
from itinerary.core.loop import completion as ending
from itinerary.core.loop import lifecycle, shutdown
from itinerary.core.loop import takeover as continuing
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.messages import StartsAnswered, TakenUp
from itinerary.core.loop.occurrence import LIVE, Course, Interruption, Stage, cancelling
from itinerary.core.loop.state import Board
from itinerary.errors import ItineraryError
from itinerary.model.queries import Detail
from itinerary.model.reasons import lacks_slot, shut_down
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import Change, Refusal, Refused, Started, Step
from itinerary.schedules.durations import SECOND

__all__ = ["Starting"]

_EARLY_AGAIN: Final = SECOND // 100
"""The delay before the retry of a start that the store found too early."""
_EARLY_OFTEN: Final = 5
_SLOTS_AT_ONCE: Final = 1_024
"""The most starts in one iteration, so that the first of ten thousand is being written while the last one waits."""
_MANY: Final = 256
"""The number of attempts launched together from which on other work waits for them to begin."""
_MARKS_A_SECOND: Final = 500
"""The most `pending` marks in a second: as many as another node reads when it looks for work."""
_CLAIMED: Final = Stage.CLAIMED
_LINED_UP: Final = Stage.LINED_UP
_STARTING: Final = Stage.STARTING
_WORKING: Final = Stage.WORKING
_ASKED_AGAIN: Final = frozenset({Refusal.EARLY, Refusal.LIMITED, Refusal.UNSURE, Refusal.OVERDUE, Refusal.ADJUSTED})


class Starting:
    """Starts of one node."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._moved: list[Course] = []
        """Occurrences that were about to start when the timeline changed."""
        self._unmarked: deque[Course] = deque()
        """Occurrences that have joined the slot queue and are not marked as `pending`."""
        self._marks_since, self._marks_left = 0, 0

    # -- timers and slots --------------------------------------------------------------------------------------------

    def on_time(self, now: int, out: Outbox) -> None:
        """Handle due timers, and give free slots to the occurrences that wait for one."""
        board, line = self._board, self._board.line
        live: list[Course] = []
        for course in self._after_those_at_once(board.turns.admit(board.alarms.due(now), now, board.alarms), out):
            if course.stage is _CLAIMED:
                self._line_up(course, now, out)
            elif course.stage in LIVE:
                live.append(course)
                self._wake(course, now, out)
        if self._gives_slots:
            for first in islice(iter(line.take, None), _SLOTS_AT_ONCE):
                self._give_slot(first, now, out)
        for course in live:
            if course.place and lifecycle.has_waited_too_long(course, now, out):
                board.after(course, now, out)
        if not line:
            self._unmarked.clear()
        elif line.free <= 0:
            self._mark_some(now, out)

    def _after_those_at_once(self, due: list[Course], out: Outbox) -> list[Course]:
        """Start due occurrences without queueing, if possible. Return those that cannot.

        Fast path: the slot queue is empty, enough slots are free, and no due occurrence has a priority. Up to
        `_SLOTS_AT_ONCE` occurrences start in one iteration, and the others are first in the next one.
        """
        board, line = self._board, self._board.line
        is_in_order = not any(map(_has_priority, due))
        if board.next_up:
            due, board.next_up = board.next_up + due, []
        if not due or not is_in_order or line or line.free < len(due) or not self._gives_slots:
            return due
        others, starts = [], out.starts
        for number, course in enumerate(due):
            if len(starts) == _SLOTS_AT_ONCE:
                board.next_up = due[number:]
                break
            request = course.request
            if course.stage is _CLAIMED and request is not None and request.is_plain and course.held_by is None:
                course.stage, course.holds_slot = _STARTING, True
                line.free -= 1
                starts.append(request)
            else:
                others.append(course)
        return others

    def _line_up(self, course: Course, now: int, out: Outbox) -> None:
        if course.held_by is not None and self._is_held(course, now):
            return
        if course.skip is not None and self._gives_slots:
            self._ask(course, out)  # a skipped occurrence needs no slot
            return
        course.stage = _LINED_UP
        self._board.line.put(course, now)
        self._unmarked.append(course)

    def _is_held(self, course: Course, now: int) -> bool:
        """True if a pause still holds the occurrence.

        A pause with a known end sets a timer. Another pause ends with a change of the timeline, which is a message to
        the loop.
        """
        course.held_by = pause = self._board.pause_holding(course.key.job, course.made_at, now)
        if pause is not None and pause.until is not None:
            self._board.alarms.put(pause.until, course)
        return pause is not None

    @property
    def _gives_slots(self) -> bool:
        """True if this node may start work.

        A node that others may declare dead starts nothing. Another node might start the same occurrence, as soon as the
        store hears both.
        """
        return self._board.takes_work and not self._board.is_stale and self._board.unheard_for is None

    @property
    def has_more(self) -> bool:
        """True if an occurrence waits for which a slot is free. The next iteration gives the slot."""
        return self._gives_slots and self._board.ready > 0

    def _wake(self, course: Course, now: int, out: Outbox) -> None:
        """Handle the timer of an occurrence that has begun. Work that needs no slot is done at once."""
        board = self._board
        lifecycle.on_time(course, now, out)
        if course.stage in LIVE and not course.holds_slot and not course.place and lifecycle.wants_slot(course, now):
            board.line.put(course, now)
        board.after(course, now, out)

    def _give_slot(self, course: Course, now: int, out: Outbox) -> None:
        """Start or resume an occurrence that has received a slot."""
        if course.taking is not None:
            course.stage = Stage.STARTING
            out.takings.append(course.taking)
        elif course.stage is _LINED_UP:
            if self._board.turns.has_turn(course, now, self._board.alarms):
                self._ask(course, out)
            else:
                course.stage = _CLAIMED
                self._board.line.release(course)
        elif course.stage in LIVE and lifecycle.wants_slot(course, now):
            lifecycle.on_time(course, now, out)
            self._board.after(course, now, out)
        else:
            self._board.line.release(course)

    def _ask(self, course: Course, out: Outbox) -> None:
        assert course.request is not None, "it was prepared when it was claimed"
        course.stage = _STARTING
        out.starts.append(course.request)

    def _mark_some(self, now: int, out: Outbox) -> None:
        """Mark occurrences that have no slot as `pending`, the oldest first and a limited number per second.

        Other nodes read only that number of them, and each mark is a write that takes time from starts. An occurrence
        that has waited for long is marked in any case.
        """
        if not self._marks_since <= now < self._marks_since + SECOND:
            self._marks_since, self._marks_left = now, _MARKS_A_SECOND
        unmarked, long_ago = self._unmarked, now - self._board.settings.grace_period // 2
        while unmarked and (self._marks_left > 0 or unmarked[0].due_at <= long_ago):
            course = unmarked.popleft()
            if course.place:
                self._marks_left -= 1
                self._mark(course, out)

    def _mark(self, course: Course, out: Outbox) -> None:
        """Mark a due occurrence that has no slot of this node as `pending`: nodes with a free slot may start it."""
        if course.fence is not None and not course.is_marked:
            course.is_marked = True
            step = Step(OccurrenceState.PENDING, None, lacks_slot(self._board.here.name))
            out.changes.append(Change(course.ref, course.fence, 1, (step,)))

    # -- answers of the store ----------------------------------------------------------------------------------------

    def answered(self, message: StartsAnswered, now: int, out: Outbox) -> None:
        """Handle the answers to starts."""
        board = self._board
        board.asked -= len(message.starts)
        board.starting -= len(message.starts)
        by_ref = board.by_ref
        for answer in message.answers:
            course = by_ref.get(answer.ref)
            if course is None or course.stage is not _STARTING:
                out.log(Level.ERROR, "start.unexpected", occurrence=answer.ref, answer=str(answer))
            elif isinstance(answer, Started):
                self._begin(course, answer, now, out)
            else:
                board.line.release(course)
                board.turns.over(course, now, board.alarms)
                self._refused(course, answer, now, out)
                if board.ends_at is not None:
                    self._give_back(course, now, out)
        board.has_launched = len(out.assignments) >= _MANY

    def _begin(self, course: Course, answer: Started, now: int, out: Outbox) -> None:
        board = self._board
        board.turns.begun(course, now, board.alarms)
        course.last_run_at = answer.last_run_at
        board.live[course.ref] = course
        assert course.request is not None, "it was asked for"
        if course.request.is_plain and course.cancelled_by is None and board.ends_at is None:
            board.alarms.put(lifecycle.begin_plainly(course, answer, now, out), course)  # the usual case
            return
        if board.ends_at is not None and course.cancelled_by is None:
            course.interruption = Interruption(shut_down(board.here.name))
            lifecycle.begin_interrupted(course, answer, now, out)
            board.after(course, now, out)
            return
        lifecycle.begin(course, answer, now, out)
        if course.cancelled_by is None and course.stage is _WORKING and course.tasks:
            board.watch(course, now)  # the usual case
        else:
            self._close_if_asked(course, now, out)

    def _close_if_asked(self, course: Course, now: int, out: Outbox) -> None:
        """Close an occurrence at once, if a cancel request came while its start or takeover was in flight."""
        board = self._board
        if course.cancelled_by is not None:
            lifecycle.close(course, cancelling(course.cancelled_by), now, out)
        board.after(course, now, out)

    def taken_up(self, message: TakenUp, now: int, out: Outbox) -> None:
        """Handle the answers to takeovers: resume the occurrence, or drop it if another node was faster."""
        board = self._board
        board.asked -= len(message.answers)
        for answer in message.answers:
            ref = answer.ref if isinstance(answer, Refused) else answer.row.ref
            course = board.by_ref.get(ref)
            if course is None or course.stage is not Stage.STARTING or course.taking is None:
                out.log(Level.ERROR, "take_up.unexpected", occurrence=ref, answer=str(answer))
            elif isinstance(answer, Refused):
                out.log(Level.DEBUG, "occurrence.not_taken_up", **ending.named(course), why=answer.by)
                board.over(course, now)
            elif board.ends_at is not None:
                shutdown.hand_back(board, course, answer, now, out)
            else:
                self._go_on(course, answer, now, out)

    def _go_on(self, course: Course, detail: Detail, now: int, out: Outbox) -> None:
        course.taking = None
        try:
            continuing.go_on(course, detail, now, out)
        except ItineraryError as error:
            out.log(Level.ERROR, "occurrence.unstartable", **ending.named(course), why=str(error))
            self._board.over(course, now)  # the reaper ends it
            return
        self._board.live[course.ref] = course
        out.log(Level.WARNING, "occurrence.taken_up", **ending.named(course), state=detail.row.status)
        self._close_if_asked(course, now, out)

    def _refused(self, course: Course, answer: Refused, now: int, out: Outbox) -> None:  # noqa: C901, PLR0912 - a list of all refusals
        board = self._board
        course.stage = Stage.CLAIMED
        course.lacks = answer.by if answer.why is Refusal.LIMITED else ""
        was_unsure, course.unsure = course.unsure, answer.by if answer.why is Refusal.UNSURE else ""
        if answer.why in _ASKED_AGAIN:
            self._renew(course, out)  # the timeline may have changed while the answer was in flight
        match answer.why:
            case Refusal.EARLY:
                course.was_early += 1
                again_at = now + min(_EARLY_AGAIN << _doublings(course.was_early), course.here.turn)
                board.alarms.put(max(again_at, course.due_at), course)
            case Refusal.LIMITED:
                board.lacking.setdefault(answer.by, []).append(course)
                board.alarms.put(course.next_ask(now), course)
            case Refusal.UNSURE:
                if not was_unsure:
                    out.log(Level.INFO, "occurrence.unsure", **ending.named(course), why=answer.by)
                board.alarms.put(now + course.here.turn, course)
            case Refusal.OVERDUE:
                board.alarms.put(now + course.here.turn, course)
            case Refusal.MOVED:
                self._moved.append(course)
                board.is_stale = True
                out.rebuild("the timeline has changed")
            case Refusal.ADJUSTED:
                out.reads.append(course.ref)
            case Refusal.SKIPPED:
                out.news.append(ending.finished(course, OccurrenceState.SKIPPED, now, answer.by))
                board.over(course, now, OccurrenceState.SKIPPED)
            case Refusal.QUEUED:
                out.log(Level.INFO, "occurrence.queued", **ending.named(course), why=answer.by)
                board.over(course, now, OccurrenceState.QUEUED)
            case Refusal.CANCELLED:
                out.news.append(ending.finished(course, OccurrenceState.CANCELLED, now, answer.by))
                board.over(course, now, OccurrenceState.CANCELLED)
            case Refusal.LOST | Refusal.GONE | Refusal.ALIVE:  # ALIVE answers takeovers only
                out.log(Level.DEBUG, "occurrence.not_started", **ending.named(course), why=f"{answer.why}: {answer.by}")
                board.over(course, now)
            case Refusal.ILLEGAL | Refusal.UNWRITABLE | Refusal.ELSEWHERE:  # ELSEWHERE is never about an occurrence
                out.log(Level.ERROR, "occurrence.unstartable", **ending.named(course), why=answer.by)
                board.over(course, now)
            case _:
                assert_never(answer.why)

    def _give_back(self, course: Course, now: int, out: Outbox) -> None:
        """Release an occurrence whose start would be retried: a node that shuts down does not retry."""
        if course.stage is _CLAIMED:
            claiming.release(self._board, course, now, out)

    def go_on(self, now: int, out: Outbox, *, has_moved_on: bool) -> None:
        """Update occurrences that have not started to the version now in force (R6), and retry the waiting starts.

        `has_moved_on` is True if the index has a new revision.
        """
        board = self._board
        if has_moved_on:
            for course in board.known.values():
                if course.stage in (Stage.WANTED, Stage.CLAIMED, Stage.LINED_UP):
                    self._renew(course, out)
                    self._hold(course, now, out)
        moved, self._moved = self._moved, []
        for course in moved:
            self._renew(course, out)
            self._hold(course, now, out)
            board.alarms.put(now, course)

    def _hold(self, course: Course, now: int, out: Outbox) -> None:
        """Hold an occurrence that a new pause covers, or release one whose pause has ended."""
        if course.taking is not None or course.skip is not None:
            return
        was, is_due = course.held_by, course.due_at <= now
        pause = course.held_by = self._board.pause_holding(course.key.job, course.made_at, now)
        if pause is not None and was is None:
            out.log(Level.INFO, "occurrence.held", **ending.named(course), why=str(pause))
            if course.stage is Stage.LINED_UP:
                self._board.line.leave(course)
                course.stage = Stage.CLAIMED
        if course.stage is Stage.CLAIMED and is_due and (pause is None) != (was is None):
            self._board.alarms.put(now, course)

    def _renew(self, course: Course, out: Outbox) -> None:
        if course.taking is not None:
            return  # it has begun and keeps its version
        if (why := self._board.why_skipped(course)) != course.skip:
            course.pass_over(why)
        plan = self._board.plan_of(course.key, course.plan.version)
        if isinstance(plan, str) or plan is course.plan:
            return  # if no longer in force, it was withdrawn in the store, and its start will be refused
        try:
            course.refit(plan, course.overrides, course.adjustments)
        except ItineraryError as error:
            out.log(Level.ERROR, "occurrence.not_renewed", **ending.named(course), version=plan.version, why=str(error))


def _has_priority(course: Course) -> bool:
    return course.terms.config.job.priority != 0


def _doublings(times: int) -> int:
    """Return how many times to double the delay before the retry of an early start.

    A start may be a moment early a few times. If that continues, the clock of this node is wrong, so the node asks less
    and less often until the clock is corrected.
    """
    return min(max(times - _EARLY_OFTEN, 0), 20)
