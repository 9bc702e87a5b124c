"""The scheduling state of a node, which the loop alone owns.

Occurrences are found by key, so that none is scheduled twice (L9), and by row number. The slot queue has the slots of
the node, and the alarms say when an occurrence needs attention. `after` is the one place for the consequences of any
change of an occurrence: its slot, its timer, its removal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from itinerary.core.loop import lifecycle, shutdown
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.occurrence import LIVE, SHUTDOWN, Closing, Course, Here, Stage
from itinerary.core.loop.timers import Agenda, Line
from itinerary.core.loop.turns import Turns
from itinerary.core.recovery.membership import ALONE
from itinerary.core.recovery.pause import held_by
from itinerary.core.recovery.rate_limit import Pace
from itinerary.core.timeline.history import Paused
from itinerary.core.timeline.index import ScheduledRunIndex
from itinerary.core.timeline.job_plan import JobPlan, PlanBook
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.occurrence import Kind
from itinerary.model.reasons import shut_down
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["Board", "Overdue"]

_FORGET_LATE_MAX: Final = 5 * SECOND
"""How long starts may delay the removal of done occurrences from memory. There may always be starts."""
_UNBEGUN: Final = frozenset({Stage.WANTED, Stage.CLAIMED, Stage.LINED_UP, Stage.STARTING})


class Overdue(NamedTuple):
    """Runs that are due and have not started."""

    oldest_due_at: int | None
    runs: int


_LAST_WRITES: Final = 2 * SECOND
"""The time for the store, after the grace period, to write the ends from its last moment."""


class Board:
    """The scheduling state of one node."""

    cuts_at: int | None = None
    """During a shutdown: until when an occurrence with `on_shutdown = finish` may run; None after that."""

    def __init__(self, settings: Settings, here: Here) -> None:
        self.settings, self.here = settings, here
        self.revision = -1
        self.index = ScheduledRunIndex()
        self.jobs: Sequence[tuple[JobNumber, int]] = ()
        """The meaning of the index numbers: a job and its version."""
        self.job_numbers = np.empty(0, np.int64)
        """The job numbers alone, as a column."""
        self.members = ALONE
        """The nodes that share the work with this node."""
        self.plans = PlanBook(Timeline())
        self.scanned_until: int | None = None
        """The end of the scanned part of the index; None if nothing is scanned yet."""
        self.next_instant = 0
        """The first instant of the index after the scanned part."""
        self.has_put_off = False
        """True if there are claims to make, which wait for due starts."""
        self.has_launched, self.launching_until = False, 0
        """True if the last iteration launched many attempts; and when they have begun.

        Until then, all work that can wait does. Launches and other work share the interpreter lock, and its
        holder keeps it for milliseconds.
        """
        self.is_stale = True
        """True if the timeline has changed. Claim and start nothing until the index is rebuilt."""
        self.is_in_doubt = False
        """True if the store clock is in doubt. Start nothing until it is confirmed."""
        self.unheard_for: int | None = None
        """How long the store has not heard this node, if others may declare it dead; otherwise None."""
        self.known: dict[Key, Course] = {}
        self.by_ref: dict[Ref, Course] = {}
        self.live: dict[Ref, Course] = {}
        """Occurrences that have started here and whose end is not durable yet."""
        self.alarms, self.forgetting = Agenda(), Agenda()
        self.line = Line(settings.max_concurrent_jobs)
        self.turns = Turns()
        self.next_up: list[Course] = []
        """Due occurrences that receive a slot in the next iteration. There were enough slots for all of them."""
        self.lacking: dict[str, list[Course]] = {}
        """Occurrences that wait for a share of a limit, by limit."""
        self.offers: list[OccurrenceRow] = []
        """Occurrences that any node may start, as far as is known, and that this node had no slot for yet."""
        self.called: list[OccurrenceRow] = []
        """Offers whose turn in the overlap queue has just come."""
        self.pace = Pace(settings.recovery_pace)
        self.more_at: int | None = None
        """When to take more of a backlog, if there is one."""
        self.unwritten = 0
        """The number of changes in flight to the store."""
        self.asked = self.starting = 0
        """The number of claims, starts and takeovers in flight; and of starts alone."""
        self.overloaded_at: int | None = None
        """Since when more changes are unwritten than allowed."""
        self.ends_at: int | None = None
        """During a shutdown: when the node stops waiting."""

    def take_settings(self, settings: Settings) -> None:
        """Apply new settings. Occupied slots stay occupied: if there are fewer slots, the queue waits longer."""
        self.line.free += settings.max_concurrent_jobs - self.settings.max_concurrent_jobs
        self.pace.change(settings.recovery_pace)
        self.settings = settings

    @property
    def takes_work(self) -> bool:
        """True if new work may begin."""
        return self.ends_at is None and self.overloaded_at is None and not self.is_in_doubt

    @property
    def ready(self) -> int:
        """The number of due occurrences for which a slot is free."""
        return self.line.ready + min(len(self.next_up), max(self.line.free, 0))

    def overdue(self, now: int) -> Overdue:
        """Return the runs that are due here and have not started.

        Runs that the node must not start yet do not count: runs that wait for a limit, the end of a pause or another
        run of their job, and recovery runs.
        """
        oldest, count = now + 1, 0
        for course in self.known.values():
            due_at = course.due_at
            if due_at <= now and course.stage in _UNBEGUN and not self._waits(course):
                count += 1
                oldest = min(oldest, due_at)
        if self.scanned_until is not None and self.takes_work:
            oldest = min(oldest, max(self.next_instant, self.scanned_until))  # due, and not even claimed
        return Overdue(oldest if oldest <= now else None, count)

    def _waits(self, course: Course) -> bool:
        """True if the node could not start the run even with enough slots and time."""
        is_held_up = bool(course.lacks or course.unsure) or course.held_by is not None or course.is_recovery
        return is_held_up or self.turns.holds(course)

    @property
    def is_starting(self) -> bool:
        """True if starts are being written, or are about to be."""
        return self.starting > 0 or self.ready > 0

    def is_launching(self, now: int) -> bool:
        """True if many attempts were launched and are about to begin."""
        return self.has_launched or now < self.launching_until

    def is_hurried(self, now: int) -> bool:
        """True if starts are being written or are about to begin, and all work that can wait must wait."""
        return self.is_starting or self.is_launching(now)

    @property
    def active(self) -> list[Course]:
        """The occurrences that are not done."""
        return [course for course in self.by_ref.values() if course.stage is not Stage.OVER]

    def new(self, key: Key, plan: JobPlan, due_at: int) -> Course:
        """Create and return an occurrence."""
        course = self.known[key] = Course(self.here, key, plan, due_at)
        return course

    def plan_of(self, key: Key, version: int) -> JobPlan | str:
        """Return the plan by which an occurrence is started, or why there is none.

        A scheduled occurrence takes the version in force at its instant. Another one takes the version of its request.
        """
        if key.kind is Kind.SCHEDULED:
            return self.plans.plan_at(key.job, key.instant)
        return self.plans.plan(key.job, version)

    def why_skipped(self, course: Course) -> str | None:
        """Return why an occurrence must be skipped when it is due, or None.

        Either its job is paused, or an operator chose to skip it. A manual request is never skipped. An occurrence that
        covers a window was decided when it was created.
        """
        if course.key.kind is not Kind.SCHEDULED or course.window is not None:
            return None
        return self.plans.timeline.why_skipped(course.key.job, course.key.instant)

    def pause_holding(self, job: JobNumber, made_at: int, now: int) -> Paused | None:
        """Return the pause that holds an unstarted occurrence of a job, which was to run before the pause."""
        return held_by(self.plans.timeline, job, made_at, now)

    def passes_held(self, row: OccurrenceRow, now: int) -> bool:
        """True if the occurrence was requested while its job is paused. The request runs before held ones."""
        return not row.kind.is_by_schedule and held_by(self.plans.timeline, row.job, 0, now) is not None

    def after(self, course: Course, now: int, out: Outbox) -> None:
        """Apply the consequences of a change to an occurrence that has started."""
        if self.ends_at is not None:
            shutdown.follow(self, course, now, out)
        if course.stage in LIVE:
            if lifecycle.is_waiting(course):
                self.line.release(course)
            self.watch(course, now)
        else:
            self.line.leave(course)
            self.line.release(course)
            if course.stage is Stage.OVER and self.live.pop(course.ref, None) is not None:
                out.forget.append(course.ref)
                self.over(course, now)

    def watch(self, course: Course, now: int) -> None:
        """Set the timer of an occurrence to when it next needs attention."""
        at = lifecycle.wakes_at(course)
        if at is not None and not now < course.alarm_at <= at:
            self._wake_at(course, at)

    def _wake_at(self, course: Course, at: int) -> None:
        """Replace the timer of an occurrence."""
        self.alarms.drop(course.alarm_at, course)
        course.alarm_at = at
        self.alarms.put(at, course)

    def over(self, course: Course, now: int, ended_as: OccurrenceState | None = None) -> None:
        """Retire an occurrence, and let it leave memory after its instant and the grace period (O6)."""
        course.stage, course.ended_as = Stage.OVER, ended_as
        course.request = None
        self.alarms.drop(course.alarm_at, course)
        self._pass_on_shares(course, now)
        self.line.leave(course)
        self.line.release(course)
        self.turns.over(course, now, self.alarms)
        # A microsecond later, because the index query still includes instants of exactly that age.
        self.forgetting.put(max(course.key.instant + self.settings.grace_period + 1, now), course)

    def _pass_on_shares(self, course: Course, now: int) -> None:
        """Let the most urgent occurrence that waits for a share of each freed limit ask for it now."""
        for limit in course.terms.limits:
            waiting = [one for one in self.lacking.pop(limit.name, ()) if one.stage is Stage.CLAIMED and one.lacks]
            if waiting:
                first = min(waiting, key=lambda one: (-one.terms.config.job.priority, one.key.instant))
                self.alarms.put(now, first)
                self.lacking[limit.name] = [one for one in waiting if one is not first]

    def forget(self, now: int) -> None:
        """Remove done occurrences from memory after their grace period. Their rows stay.

        An occurrence may have returned as a new object, which stays. The grace period of a job that is due each second
        ends just when its next starts are urgent, so starts go first.
        """
        at = self.forgetting.next_at
        if at is None or (self.is_hurried(now) and now < at + _FORGET_LATE_MAX):
            return
        for course in self.forgetting.due(now):
            if self.by_ref.get(course.ref) is course:
                del self.by_ref[course.ref]
            if self.known.get(course.key) is course:
                del self.known[course.key]

    def shift(self, by: int, now: int) -> None:
        """Move all timers by the jump of the clock, so that durations stay the same (N6)."""
        self.scanned_until, self.next_instant = None, 0
        self.next_up = []  # whether they are due is decided again
        self.has_launched, self.launching_until = False, 0
        self.ends_at = None if self.ends_at is None else self.ends_at + by
        self.cuts_at = None if self.cuts_at is None else self.cuts_at + by
        self.overloaded_at = None if self.overloaded_at is None else self.overloaded_at + by
        for course in self.by_ref.values():
            if course.stage in LIVE:
                course.shift(by)
                if (at := lifecycle.wakes_at(course)) is not None:
                    self._wake_at(course, at)
            elif course.stage is Stage.LINED_UP and course.due_at > now:
                self.line.leave(course)  # it is not due after all
                course.stage = Stage.CLAIMED
                self.alarms.put(course.due_at, course)
            elif course.stage is Stage.CLAIMED:
                self.alarms.put(max(course.due_at, now), course)

    def shutdown_closing(self) -> Closing:
        """Return how running work is closed when the node shuts down."""
        return Closing(OccurrenceState.CANCELLED, SHUTDOWN, shut_down(self.here.name))

    @property
    def leaves_at(self) -> int | None:
        """When a node that shuts down leaves at the latest. If only writes are left, they get a moment more."""
        if self.ends_at is None or any(course.stage in LIVE for course in self.live.values()):
            return self.ends_at
        return self.ends_at + _LAST_WRITES

    def is_idle(self, out: Outbox) -> bool:
        """True if nothing runs and nothing is in flight."""
        return not (self.live or self.unwritten or self.asked or out.changes or out.starts or out.takings or out.wanted)
