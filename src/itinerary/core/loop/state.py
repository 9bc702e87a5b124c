"""All that a node knows of its occurrences: the state that the loop owns, and nobody else.

Courses are found by their key, which makes sure that none is scheduled twice (L9), and by the number of their row. The
line has the node's slots; the alarms say when something must be done about whom. What follows from any change of a
course (its slot, its alarm, its leaving) is in one place, `after`.
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
"""How long what is over may stay because others are in a hurry: somebody may always be."""
_UNBEGUN: Final = frozenset({Stage.WANTED, Stage.CLAIMED, Stage.LINED_UP, Stage.STARTING})


class Overdue(NamedTuple):
    """Runs that are due and have not started."""

    oldest_due_at: int | None
    runs: int


_LAST_WRITES: Final = 2 * SECOND
"""How long the store has, at the end of the grace period, for what ended in the last moment of it."""


class Board:
    """The scheduling state of one node."""

    cuts_at: int | None = None
    """The node shuts down: until when an occurrence with `on_shutdown = finish` may run; None after that."""

    def __init__(self, settings: Settings, here: Here) -> None:
        self.settings, self.here = settings, here
        self.revision = -1
        self.index = ScheduledRunIndex()
        self.jobs: Sequence[tuple[JobNumber, int]] = ()
        """What the numbers of the index stand for."""
        self.job_numbers = np.empty(0, np.int64)
        """The jobs alone, as a column."""
        self.members = ALONE
        """Who shares the work with this node."""
        self.plans = PlanBook(Timeline())
        self.scanned_until: int | None = None
        """Up to where the index has been gone through; None: it is another one, or another time."""
        self.next_instant = 0
        """The first instant of the index after what has been gone through: there is nothing before it."""
        self.has_put_off = False
        """Whether there is something to be claimed, which has been put off for starts that are due."""
        self.has_launched, self.launching_until = False, 0
        """Whether the last iteration launched many, and when these have begun. Until then whatever can wait does: both
        take the same lock, that of the interpreter, and whoever has it does not give it away for milliseconds."""
        self.is_stale = True
        """The timeline has moved on: nothing is claimed or started until the index has."""
        self.is_in_doubt = False
        """Nobody knows what time it is: nothing is begun until somebody does."""
        self.unheard_for: int | None = None
        """The store has not heard this node for so long that others may take it for dead; None: it has."""
        self.known: dict[Key, Course] = {}
        self.by_ref: dict[Ref, Course] = {}
        self.live: dict[Ref, Course] = {}
        """What has started here, and whose end is not durable yet."""
        self.alarms, self.forgetting = Agenda(), Agenda()
        self.line = Line(settings.max_concurrent_jobs)
        self.turns = Turns()
        self.next_up: list[Course] = []
        """Whose time has come, and who will have a slot in the next iteration: there were enough for all of them."""
        self.lacking: dict[str, list[Course]] = {}
        """Who waits for a share of which limit."""
        self.offers: list[OccurrenceRow] = []
        """What anybody may start, as far as this node knows, and it has had no room for yet."""
        self.called: list[OccurrenceRow] = []
        """The same, of those whose turn has just come."""
        self.pace = Pace(settings.recovery_pace)
        self.more_at: int | None = None
        """When more of a backlog is taken up, if some is there."""
        self.unwritten = 0
        """Changes that are on their way to the store."""
        self.asked = self.starting = 0
        """Claims and starts that are; and starts alone."""
        self.overloaded_at: int | None = None
        """Since when there is more unwritten than there may be."""
        self.ends_at: int | None = None
        """The node shuts down: when it gives up waiting."""

    def take_settings(self, settings: Settings) -> None:
        """Go by other settings from now on. Whoever has a slot keeps it: if there are fewer, the next wait longer."""
        self.line.free += settings.max_concurrent_jobs - self.settings.max_concurrent_jobs
        self.pace.change(settings.recovery_pace)
        self.settings = settings

    @property
    def takes_work(self) -> bool:
        """Whether anything new may be begun."""
        return self.ends_at is None and self.overloaded_at is None and not self.is_in_doubt

    @property
    def ready(self) -> int:
        """How many are due for whom there is a slot."""
        return self.line.ready + min(len(self.next_up), max(self.line.free, 0))

    def overdue(self, now: int) -> Overdue:
        """Look at all runs that are due here and have not started, but for those that the node is not to start yet:
        they wait for a limit, for a pause to end, for another run of their job, or make up for what was missed."""
        oldest, count = now + 1, 0
        for course in self.known.values():
            due_at = course.due_at
            if due_at <= now and course.stage in _UNBEGUN and not self._waits(course):
                count += 1
                oldest = min(oldest, due_at)
        if self.scanned_until is not None and self.takes_work:
            oldest = min(oldest, max(self.next_instant, self.scanned_until))  # not even claimed
        return Overdue(oldest if oldest <= now else None, count)

    def _waits(self, course: Course) -> bool:
        """True if the node could not start a run even if it had slots and time for all of them."""
        is_held_up = bool(course.lacks or course.unsure) or course.held_by is not None or course.is_recovery
        return is_held_up or self.turns.holds(course)

    @property
    def is_starting(self) -> bool:
        """Whether starts are being written, or are about to be."""
        return self.starting > 0 or self.ready > 0

    def is_launching(self, now: int) -> bool:
        """Whether many have been launched, and are about to begin."""
        return self.has_launched or now < self.launching_until

    def is_hurried(self, now: int) -> bool:
        """Whether starts are being written or about to begin: there is no time for anything that can wait."""
        return self.is_starting or self.is_launching(now)

    @property
    def active(self) -> list[Course]:
        """Everything that is not over."""
        return [course for course in self.by_ref.values() if course.stage is not Stage.OVER]

    def new(self, key: Key, plan: JobPlan, due_at: int) -> Course:
        """One more occurrence."""
        course = self.known[key] = Course(self.here, key, plan, due_at)
        return course

    def plan_of(self, key: Key, version: int) -> JobPlan | str:
        """What an occurrence is started by: the version in force at its instant, or the one that it was asked for with;
        or why there is none."""
        if key.kind is Kind.SCHEDULED:
            return self.plans.plan_at(key.job, key.instant)
        return self.plans.plan(key.job, version)

    def why_skipped(self, course: Course) -> str | None:
        """Why an occurrence is to be skipped when it is due: its job is paused, or it was named. What somebody asked
        for by hand never is, and what answers for a window was decided about when it was made."""
        if course.key.kind is not Kind.SCHEDULED or course.window is not None:
            return None
        return self.plans.timeline.why_skipped(course.key.job, course.key.instant)

    def pause_holding(self, job: JobNumber, made_at: int, now: int) -> Paused | None:
        """The pause that holds an occurrence of a job which was to run before it, and has not started."""
        return held_by(self.plans.timeline, job, made_at, now)

    def passes_held(self, row: OccurrenceRow, now: int) -> bool:
        """Whether an occurrence was asked for while its job is paused: it runs before what the pause holds."""
        return not row.kind.is_by_schedule and held_by(self.plans.timeline, row.job, 0, now) is not None

    def after(self, course: Course, now: int, out: Outbox) -> None:
        """What follows from any change of a course that has started."""
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
        """Look at it again when something must be done about it."""
        at = lifecycle.wakes_at(course)
        if at is not None and not now < course.alarm_at <= at:
            self._wake_at(course, at)

    def _wake_at(self, course: Course, at: int) -> None:
        """At this time, and no longer at the one before."""
        self.alarms.drop(course.alarm_at, course)
        course.alarm_at = at
        self.alarms.put(at, course)

    def over(self, course: Course, now: int, ended_as: OccurrenceState | None = None) -> None:
        """It is over: once its instant and the grace period have passed, it leaves memory (O6)."""
        course.stage, course.ended_as = Stage.OVER, ended_as
        course.request = None
        self.alarms.drop(course.alarm_at, course)
        self._pass_on_shares(course, now)
        self.line.leave(course)
        self.line.release(course)
        self.turns.over(course, now, self.alarms)
        # A moment later, since the index is still asked for what is exactly that old.
        self.forgetting.put(max(course.key.instant + self.settings.grace_period + 1, now), course)

    def _pass_on_shares(self, course: Course, now: int) -> None:
        """Whoever waits here for a share of what it held asks for it now, the most urgent one first."""
        for limit in course.terms.limits:
            waiting = [one for one in self.lacking.pop(limit.name, ()) if one.stage is Stage.CLAIMED and one.lacks]
            if waiting:
                first = min(waiting, key=lambda one: (-one.terms.config.job.priority, one.key.instant))
                self.alarms.put(now, first)
                self.lacking[limit.name] = [one for one in waiting if one is not first]

    def forget(self, now: int) -> None:
        """Let go of what is over and past its grace period; its rows stay. It may have come back meanwhile.

        What is due each second is past its grace period just when the next starts have no time to lose: these go first.
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
        """The clock has jumped by that much: all that is to happen after a while still does (N6)."""
        self.scanned_until, self.next_instant = None, 0
        self.next_up = []  # whether their time has come is found out again
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
                self.line.leave(course)  # its time has not come after all
                course.stage = Stage.CLAIMED
                self.alarms.put(course.due_at, course)
            elif course.stage is Stage.CLAIMED:
                self.alarms.put(max(course.due_at, now), course)

    def shutdown_closing(self) -> Closing:
        """How what runs is ended when the node shuts down."""
        return Closing(OccurrenceState.CANCELLED, SHUTDOWN, shut_down(self.here.name))

    @property
    def leaves_at(self) -> int | None:
        """When a node that shuts down leaves at the latest. If only writes are left, they get a moment more."""
        if self.ends_at is None or any(course.stage in LIVE for course in self.live.values()):
            return self.ends_at
        return self.ends_at + _LAST_WRITES

    def is_idle(self, out: Outbox) -> bool:
        """Whether nothing runs, and nothing is on its way."""
        return not (self.live or self.unwritten or self.asked or out.changes or out.starts or out.takings or out.wanted)
