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
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.messages import StartsAnswered, TakenUp
from itinerary.core.loop.occurrence import LIVE, Interruption, OccurrenceRun, Stage, cancelling
from itinerary.core.loop.state import SchedulerState
from itinerary.errors import ItineraryError
from itinerary.model.queries import Detail
from itinerary.model.reasons import lacks_slot, shut_down
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Started, Step
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
_LINED_UP: Final = Stage.WAITING_FOR_SLOT
_STARTING: Final = Stage.STARTING
_WORKING: Final = Stage.TASKS
_ASKED_AGAIN: Final = frozenset({Refusal.EARLY, Refusal.LIMITED, Refusal.UNSURE, Refusal.OVERDUE, Refusal.ADJUSTED})


class Starting:
    """Starts of one node."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler = scheduler
        self._moved: list[OccurrenceRun] = []
        """Occurrences that were about to start when the timeline changed."""
        self._unmarked: deque[OccurrenceRun] = deque()
        """Occurrences that have joined the slot queue and are not marked as `pending`."""
        self._marks_since, self._marks_left = 0, 0

    # -- timers and slots --------------------------------------------------------------------------------------------

    def on_time(self, now: int, out: CommandBatch) -> None:
        """Handle due timers, and give free slots to the occurrences that wait for one."""
        scheduler, line = self._scheduler, self._scheduler.line
        live: list[OccurrenceRun] = []
        for run in self._after_those_at_once(
            scheduler.turns.admit(scheduler.alarms.due(now), now, scheduler.alarms), out
        ):
            if run.stage is _CLAIMED:
                self._line_up(run, now, out)
            elif run.stage in LIVE:
                live.append(run)
                self._wake(run, now, out)
        if self._gives_slots:
            for first in islice(iter(line.take, None), _SLOTS_AT_ONCE):
                self._give_slot(first, now, out)
        for run in live:
            if run.place and lifecycle.has_waited_too_long(run, now, out):
                scheduler.after(run, now, out)
        if not line:
            self._unmarked.clear()
        elif line.free <= 0:
            self._mark_some(now, out)

    def _after_those_at_once(self, due: list[OccurrenceRun], out: CommandBatch) -> list[OccurrenceRun]:
        """Start due occurrences without queueing, if possible. Return those that cannot.

        Fast path: the slot queue is empty, enough slots are free, and no due occurrence has a priority. Up to
        `_SLOTS_AT_ONCE` occurrences start in one iteration, and the others are first in the next one.
        """
        scheduler, line = self._scheduler, self._scheduler.line
        is_in_order = not any(map(_has_priority, due))
        if scheduler.next_up:
            due, scheduler.next_up = scheduler.next_up + due, []
        if not due or not is_in_order or line or line.free < len(due) or not self._gives_slots:
            return due
        others, starts = [], out.starts
        for number, run in enumerate(due):
            if len(starts) == _SLOTS_AT_ONCE:
                scheduler.next_up = due[number:]
                break
            request = run.request
            if run.stage is _CLAIMED and request is not None and request.is_plain and run.held_by is None:
                run.stage, run.holds_slot = _STARTING, True
                line.free -= 1
                starts.append(request)
            else:
                others.append(run)
        return others

    def _line_up(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        if run.held_by is not None and self._is_held(run, now):
            return
        if run.skip is not None and self._gives_slots:
            self._ask(run, out)  # a skipped occurrence needs no slot
            return
        run.stage = _LINED_UP
        self._scheduler.line.put(run, now)
        self._unmarked.append(run)

    def _is_held(self, run: OccurrenceRun, now: int) -> bool:
        """True if a pause still holds the occurrence.

        A pause with a known end sets a timer. Another pause ends with a change of the timeline, which is a message to
        the loop.
        """
        run.held_by = pause = self._scheduler.pause_holding(run.key.job, run.made_at, now)
        if pause is not None and pause.until is not None:
            self._scheduler.alarms.put(pause.until, run)
        return pause is not None

    @property
    def _gives_slots(self) -> bool:
        """True if this node may start work.

        A node that others may declare dead starts nothing. Another node might start the same occurrence, as soon as the
        store hears both.
        """
        return self._scheduler.takes_work and not self._scheduler.is_stale and self._scheduler.unheard_for is None

    @property
    def has_more(self) -> bool:
        """True if an occurrence waits for which a slot is free. The next iteration gives the slot."""
        return self._gives_slots and self._scheduler.ready > 0

    def _wake(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Handle the timer of an occurrence that has begun. Work that needs no slot is done at once."""
        scheduler = self._scheduler
        lifecycle.on_time(run, now, out)
        if run.stage in LIVE and not run.holds_slot and not run.place and lifecycle.wants_slot(run, now):
            scheduler.line.put(run, now)
        scheduler.after(run, now, out)

    def _give_slot(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Start or resume an occurrence that has received a slot."""
        if run.taking is not None:
            run.stage = Stage.STARTING
            out.takings.append(run.taking)
        elif run.stage is _LINED_UP:
            if self._scheduler.turns.has_turn(run, now, self._scheduler.alarms):
                self._ask(run, out)
            else:
                run.stage = _CLAIMED
                self._scheduler.line.release(run)
        elif run.stage in LIVE and lifecycle.wants_slot(run, now):
            lifecycle.on_time(run, now, out)
            self._scheduler.after(run, now, out)
        else:
            self._scheduler.line.release(run)

    def _ask(self, run: OccurrenceRun, out: CommandBatch) -> None:
        assert run.request is not None, "it was prepared when it was claimed"
        run.stage = _STARTING
        out.starts.append(run.request)

    def _mark_some(self, now: int, out: CommandBatch) -> None:
        """Mark occurrences that have no slot as `pending`, the oldest first and a limited number per second.

        Other nodes read only that number of them, and each mark is a write that takes time from starts. An occurrence
        that has waited for long is marked in any case.
        """
        if not self._marks_since <= now < self._marks_since + SECOND:
            self._marks_since, self._marks_left = now, _MARKS_A_SECOND
        unmarked, long_ago = self._unmarked, now - self._scheduler.settings.grace_period // 2
        while unmarked and (self._marks_left > 0 or unmarked[0].due_at <= long_ago):
            run = unmarked.popleft()
            if run.place:
                self._marks_left -= 1
                self._mark(run, out)

    def _mark(self, run: OccurrenceRun, out: CommandBatch) -> None:
        """Mark a due occurrence that has no slot of this node as `pending`: nodes with a free slot may start it."""
        if run.fence is not None and not run.is_marked:
            run.is_marked = True
            step = Step(OccurrenceState.PENDING, None, lacks_slot(self._scheduler.node.name))
            out.changes.append(OwnerWrite(run.ref, run.fence, 1, (step,)))

    # -- answers of the store ----------------------------------------------------------------------------------------

    def answered(self, message: StartsAnswered, now: int, out: CommandBatch) -> None:
        """Handle the answers to starts."""
        scheduler = self._scheduler
        scheduler.asked -= len(message.starts)
        scheduler.starting -= len(message.starts)
        by_ref = scheduler.by_ref
        for answer in message.answers:
            run = by_ref.get(answer.ref)
            if run is None or run.stage is not _STARTING:
                out.log(LogLevel.ERROR, "start.unexpected", occurrence=answer.ref, answer=str(answer))
            elif isinstance(answer, Started):
                self._begin(run, answer, now, out)
            else:
                scheduler.line.release(run)
                scheduler.turns.over(run, now, scheduler.alarms)
                self._refused(run, answer, now, out)
                if scheduler.ends_at is not None:
                    self._give_back(run, now, out)
        scheduler.has_launched = len(out.assignments) >= _MANY

    def _begin(self, run: OccurrenceRun, answer: Started, now: int, out: CommandBatch) -> None:
        scheduler = self._scheduler
        scheduler.turns.begun(run, now, scheduler.alarms)
        run.last_run_at = answer.last_run_at
        scheduler.live[run.ref] = run
        assert run.request is not None, "it was asked for"
        if run.request.is_plain and run.cancelled_by is None and scheduler.ends_at is None:
            scheduler.alarms.put(lifecycle.begin_plainly(run, answer, now, out), run)  # the usual case
            return
        if scheduler.ends_at is not None and run.cancelled_by is None:
            run.interruption = Interruption(shut_down(scheduler.node.name))
            lifecycle.begin_interrupted(run, answer, now, out)
            scheduler.after(run, now, out)
            return
        lifecycle.begin(run, answer, now, out)
        if run.cancelled_by is None and run.stage is _WORKING and run.tasks:
            scheduler.watch(run, now)  # the usual case
        else:
            self._close_if_asked(run, now, out)

    def _close_if_asked(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Close an occurrence at once, if a cancel request came while its start or takeover was in flight."""
        scheduler = self._scheduler
        if run.cancelled_by is not None:
            lifecycle.close(run, cancelling(run.cancelled_by), now, out)
        scheduler.after(run, now, out)

    def taken_up(self, message: TakenUp, now: int, out: CommandBatch) -> None:
        """Handle the answers to takeovers: resume the occurrence, or drop it if another node was faster."""
        scheduler = self._scheduler
        scheduler.asked -= len(message.answers)
        for answer in message.answers:
            ref = answer.ref if isinstance(answer, Refused) else answer.row.ref
            run = scheduler.by_ref.get(ref)
            if run is None or run.stage is not Stage.STARTING or run.taking is None:
                out.log(LogLevel.ERROR, "take_up.unexpected", occurrence=ref, answer=str(answer))
            elif isinstance(answer, Refused):
                out.log(LogLevel.DEBUG, "occurrence.not_taken_up", **ending.named(run), why=answer.by)
                scheduler.over(run, now)
            elif scheduler.ends_at is not None:
                shutdown.hand_back(scheduler, run, answer, now, out)
            else:
                self._proceed(run, answer, now, out)

    def _proceed(self, run: OccurrenceRun, detail: Detail, now: int, out: CommandBatch) -> None:
        run.taking = None
        try:
            continuing.proceed(run, detail, now, out)
        except ItineraryError as error:
            out.log(LogLevel.ERROR, "occurrence.unstartable", **ending.named(run), why=str(error))
            self._scheduler.over(run, now)  # the reaper ends it
            return
        self._scheduler.live[run.ref] = run
        out.log(LogLevel.WARNING, "occurrence.taken_up", **ending.named(run), state=detail.row.status)
        self._close_if_asked(run, now, out)

    def _refused(self, run: OccurrenceRun, answer: Refused, now: int, out: CommandBatch) -> None:  # noqa: C901, PLR0912 - a list of all refusals
        scheduler = self._scheduler
        run.stage = Stage.CLAIMED
        run.lacks = answer.by if answer.why is Refusal.LIMITED else ""
        was_unsure, run.unsure = run.unsure, answer.by if answer.why is Refusal.UNSURE else ""
        if answer.why in _ASKED_AGAIN:
            self._renew(run, out)  # the timeline may have changed while the answer was in flight
        match answer.why:
            case Refusal.EARLY:
                run.was_early += 1
                again_at = now + min(_EARLY_AGAIN << _doublings(run.was_early), run.node.turn)
                scheduler.alarms.put(max(again_at, run.due_at), run)
            case Refusal.LIMITED:
                scheduler.lacking.setdefault(answer.by, []).append(run)
                scheduler.alarms.put(run.next_ask(now), run)
            case Refusal.UNSURE:
                if not was_unsure:
                    out.log(LogLevel.INFO, "occurrence.unsure", **ending.named(run), why=answer.by)
                scheduler.alarms.put(now + run.node.turn, run)
            case Refusal.OVERDUE:
                scheduler.alarms.put(now + run.node.turn, run)
            case Refusal.MOVED:
                self._moved.append(run)
                scheduler.is_stale = True
                out.rebuild("the timeline has changed")
            case Refusal.ADJUSTED:
                out.reads.append(run.ref)
            case Refusal.SKIPPED:
                out.news.append(ending.finished(run, OccurrenceState.SKIPPED, now, answer.by))
                scheduler.over(run, now, OccurrenceState.SKIPPED)
            case Refusal.QUEUED:
                out.log(LogLevel.INFO, "occurrence.queued", **ending.named(run), why=answer.by)
                scheduler.over(run, now, OccurrenceState.QUEUED)
            case Refusal.CANCELLED:
                out.news.append(ending.finished(run, OccurrenceState.CANCELLED, now, answer.by))
                scheduler.over(run, now, OccurrenceState.CANCELLED)
            case Refusal.LOST | Refusal.GONE | Refusal.ALIVE:  # ALIVE answers takeovers only
                out.log(LogLevel.DEBUG, "occurrence.not_started", **ending.named(run), why=f"{answer.why}: {answer.by}")
                scheduler.over(run, now)
            case Refusal.ILLEGAL | Refusal.UNWRITABLE | Refusal.ELSEWHERE:  # ELSEWHERE is never about an occurrence
                out.log(LogLevel.ERROR, "occurrence.unstartable", **ending.named(run), why=answer.by)
                scheduler.over(run, now)
            case _:
                assert_never(answer.why)

    def _give_back(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Release an occurrence whose start would be retried: a node that shuts down does not retry."""
        if run.stage is _CLAIMED:
            claiming.release(self._scheduler, run, now, out)

    def proceed(self, now: int, out: CommandBatch, *, has_moved_on: bool) -> None:
        """Update occurrences that have not started to the version now in force (R6), and retry the waiting starts.

        `has_moved_on` is True if the index has a new revision.
        """
        scheduler = self._scheduler
        if has_moved_on:
            for run in scheduler.known.values():
                if run.stage in (Stage.CLAIMING, Stage.CLAIMED, Stage.WAITING_FOR_SLOT):
                    self._renew(run, out)
                    self._hold(run, now, out)
        moved, self._moved = self._moved, []
        for run in moved:
            self._renew(run, out)
            self._hold(run, now, out)
            scheduler.alarms.put(now, run)

    def _hold(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Hold an occurrence that a new pause covers, or release one whose pause has ended."""
        if run.taking is not None or run.skip is not None:
            return
        was, is_due = run.held_by, run.due_at <= now
        pause = run.held_by = self._scheduler.pause_holding(run.key.job, run.made_at, now)
        if pause is not None and was is None:
            out.log(LogLevel.INFO, "occurrence.held", **ending.named(run), why=str(pause))
            if run.stage is Stage.WAITING_FOR_SLOT:
                self._scheduler.line.leave(run)
                run.stage = Stage.CLAIMED
        if run.stage is Stage.CLAIMED and is_due and (pause is None) != (was is None):
            self._scheduler.alarms.put(now, run)

    def _renew(self, run: OccurrenceRun, out: CommandBatch) -> None:
        if run.taking is not None:
            return  # it has begun and keeps its version
        if (why := self._scheduler.why_skipped(run)) != run.skip:
            run.pass_over(why)
        plan = self._scheduler.plan_of(run.key, run.plan.version)
        if isinstance(plan, str) or plan is run.plan:
            return  # if no longer in force, it was withdrawn in the store, and its start will be refused
        try:
            run.refit(plan, run.overrides, run.adjustments)
        except ItineraryError as error:
            out.log(LogLevel.ERROR, "occurrence.not_renewed", **ending.named(run), version=plan.version, why=str(error))


def _has_priority(run: OccurrenceRun) -> bool:
    return run.start_config.config.job.priority != 0


def _doublings(times: int) -> int:
    """Return how many times to double the delay before the retry of an early start.

    A start may be a moment early a few times. If that continues, the clock of this node is wrong, so the node asks less
    and less often until the clock is corrected.
    """
    return min(max(times - _EARLY_OFTEN, 0), 20)
