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
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.occurrence import LIVE, SHUTDOWN, Closing, NodeContext, OccurrenceRun, Stage
from itinerary.core.loop.timers import SlotQueue, TimerQueue
from itinerary.core.loop.turns import RunOrder
from itinerary.core.recovery.membership import ALONE
from itinerary.core.recovery.pause import held_by
from itinerary.core.recovery.rate_limit import RecoveryRate
from itinerary.core.timeline.history import JobPaused
from itinerary.core.timeline.index import ScheduledRunIndex
from itinerary.core.timeline.job_plan import JobPlan, PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.model.occurrence import Kind
from itinerary.model.reasons import shut_down
from itinerary.model.rows import JobNumber, Key, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["OverdueRuns", "SchedulerState"]

_FORGET_LATE_MAX: Final = 5 * SECOND
"""How long starts may delay the removal of done occurrences from memory. There may always be starts."""
_UNBEGUN: Final = frozenset({Stage.CLAIMING, Stage.CLAIMED, Stage.WAITING_FOR_SLOT, Stage.STARTING})


class OverdueRuns(NamedTuple):
    """Runs that are due and have not started."""

    oldest_due_at: int | None
    runs: int


_LAST_WRITES: Final = 2 * SECOND
"""The time for the store, after the grace period, to write the ends from its last moment."""


class SchedulerState:
    """The scheduling state of one node."""

    cuts_at: int | None = None
    """During a shutdown: until when an occurrence with `on_shutdown = finish` may run; None after that."""

    def __init__(self, settings: Settings, node: NodeContext) -> None:
        self.settings, self.node = settings, node
        self.revision = -1
        self.index = ScheduledRunIndex()
        self.jobs: Sequence[tuple[JobNumber, int]] = ()
        """The meaning of the index numbers: a job and its version."""
        self.job_numbers = np.empty(0, np.int64)
        """The job numbers alone, as a column."""
        self.members = ALONE
        """The nodes that share the work with this node."""
        self.plans = PlanCache(Timeline())
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
        self.known: dict[Key, OccurrenceRun] = {}
        self.by_ref: dict[Ref, OccurrenceRun] = {}
        self.live: dict[Ref, OccurrenceRun] = {}
        """Occurrences that have started here and whose end is not durable yet."""
        self.alarms, self.forgetting = TimerQueue(), TimerQueue()
        self.line = SlotQueue(settings.max_concurrent_jobs)
        self.turns = RunOrder()
        self.next_up: list[OccurrenceRun] = []
        """Due occurrences that receive a slot in the next iteration. There were enough slots for all of them."""
        self.lacking: dict[str, list[OccurrenceRun]] = {}
        """Occurrences that wait for a share of a limit, by limit."""
        self.offers: list[OccurrenceRow] = []
        """Occurrences that any node may start, as far as is known, and that this node had no slot for yet."""
        self.called: list[OccurrenceRow] = []
        """Offers whose turn in the overlap queue has just come."""
        self.pace = RecoveryRate(settings.recovery_pace)
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

    def overdue(self, now: int) -> OverdueRuns:
        """Return the runs that are due here and have not started.

        Runs that the node must not start yet do not count: runs that wait for a limit, the end of a pause or another
        run of their job, and recovery runs.
        """
        oldest, count = now + 1, 0
        for run in self.known.values():
            due_at = run.due_at
            if due_at <= now and run.stage in _UNBEGUN and not self._waits(run):
                count += 1
                oldest = min(oldest, due_at)
        if self.scanned_until is not None and self.takes_work:
            oldest = min(oldest, max(self.next_instant, self.scanned_until))  # due, and not even claimed
        return OverdueRuns(oldest if oldest <= now else None, count)

    def _waits(self, run: OccurrenceRun) -> bool:
        """True if the node could not start the run even with enough slots and time."""
        is_held_up = bool(run.lacks or run.unsure) or run.held_by is not None or run.is_recovery
        return is_held_up or self.turns.holds(run)

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
    def active(self) -> list[OccurrenceRun]:
        """The occurrences that are not done."""
        return [run for run in self.by_ref.values() if run.stage is not Stage.DONE]

    def new(self, key: Key, plan: JobPlan, due_at: int) -> OccurrenceRun:
        """Create and return an occurrence."""
        run = self.known[key] = OccurrenceRun(self.node, key, plan, due_at)
        return run

    def plan_of(self, key: Key, version: int) -> JobPlan | str:
        """Return the plan by which an occurrence is started, or why there is none.

        A scheduled occurrence takes the version in force at its instant. Another one takes the version of its request.
        """
        if key.kind is Kind.SCHEDULED:
            return self.plans.plan_at(key.job, key.instant)
        return self.plans.plan(key.job, version)

    def why_skipped(self, run: OccurrenceRun) -> str | None:
        """Return why an occurrence must be skipped when it is due, or None.

        Either its job is paused, or an operator chose to skip it. A manual request is never skipped. An occurrence that
        covers a window was decided when it was created.
        """
        if run.key.kind is not Kind.SCHEDULED or run.window is not None:
            return None
        return self.plans.timeline.why_skipped(run.key.job, run.key.instant)

    def pause_holding(self, job: JobNumber, made_at: int, now: int) -> JobPaused | None:
        """Return the pause that holds an unstarted occurrence of a job, which was to run before the pause."""
        return held_by(self.plans.timeline, job, made_at, now)

    def passes_held(self, row: OccurrenceRow, now: int) -> bool:
        """True if the occurrence was requested while its job is paused. The request runs before held ones."""
        return not row.kind.is_by_schedule and held_by(self.plans.timeline, row.job, 0, now) is not None

    def after(self, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
        """Apply the consequences of a change to an occurrence that has started."""
        if self.ends_at is not None:
            shutdown.follow(self, run, now, out)
        if run.stage in LIVE:
            if lifecycle.is_waiting(run):
                self.line.release(run)
            self.watch(run, now)
        else:
            self.line.leave(run)
            self.line.release(run)
            if run.stage is Stage.DONE and self.live.pop(run.ref, None) is not None:
                out.forget.append(run.ref)
                self.over(run, now)

    def watch(self, run: OccurrenceRun, now: int) -> None:
        """Set the timer of an occurrence to when it next needs attention."""
        at = lifecycle.wakes_at(run)
        if at is not None and not now < run.alarm_at <= at:
            self._wake_at(run, at)

    def _wake_at(self, run: OccurrenceRun, at: int) -> None:
        """Replace the timer of an occurrence."""
        self.alarms.drop(run.alarm_at, run)
        run.alarm_at = at
        self.alarms.put(at, run)

    def over(self, run: OccurrenceRun, now: int, ended_as: OccurrenceState | None = None) -> None:
        """Retire an occurrence, and let it leave memory after its instant and the grace period (O6)."""
        run.stage, run.ended_as = Stage.DONE, ended_as
        run.request = None
        self.alarms.drop(run.alarm_at, run)
        self._pass_on_shares(run, now)
        self.line.leave(run)
        self.line.release(run)
        self.turns.over(run, now, self.alarms)
        # A microsecond later, because the index query still includes instants of exactly that age.
        self.forgetting.put(max(run.key.instant + self.settings.grace_period + 1, now), run)

    def _pass_on_shares(self, run: OccurrenceRun, now: int) -> None:
        """Let the most urgent occurrence that waits for a share of each freed limit ask for it now."""
        for limit in run.start_config.limits:
            waiting = [one for one in self.lacking.pop(limit.name, ()) if one.stage is Stage.CLAIMED and one.lacks]
            if waiting:
                first = min(waiting, key=lambda one: (-one.start_config.config.job.priority, one.key.instant))
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
        for run in self.forgetting.due(now):
            if self.by_ref.get(run.ref) is run:
                del self.by_ref[run.ref]
            if self.known.get(run.key) is run:
                del self.known[run.key]

    def shift(self, by: int, now: int) -> None:
        """Move all timers by the jump of the clock, so that durations stay the same (N6)."""
        self.scanned_until, self.next_instant = None, 0
        self.next_up = []  # whether they are due is decided again
        self.has_launched, self.launching_until = False, 0
        self.ends_at = None if self.ends_at is None else self.ends_at + by
        self.cuts_at = None if self.cuts_at is None else self.cuts_at + by
        self.overloaded_at = None if self.overloaded_at is None else self.overloaded_at + by
        for run in self.by_ref.values():
            if run.stage in LIVE:
                run.shift(by)
                if (at := lifecycle.wakes_at(run)) is not None:
                    self._wake_at(run, at)
            elif run.stage is Stage.WAITING_FOR_SLOT and run.due_at > now:
                self.line.leave(run)  # it is not due after all
                run.stage = Stage.CLAIMED
                self.alarms.put(run.due_at, run)
            elif run.stage is Stage.CLAIMED:
                self.alarms.put(max(run.due_at, now), run)

    def shutdown_closing(self) -> Closing:
        """Return how running work is closed when the node shuts down."""
        return Closing(OccurrenceState.CANCELLED, SHUTDOWN, shut_down(self.node.name))

    @property
    def leaves_at(self) -> int | None:
        """When a node that shuts down leaves at the latest. If only writes are left, they get a moment more."""
        if self.ends_at is None or any(run.stage in LIVE for run in self.live.values()):
            return self.ends_at
        return self.ends_at + _LAST_WRITES

    def is_idle(self, out: CommandBatch) -> bool:
        """True if nothing runs and nothing is in flight."""
        return not (self.live or self.unwritten or self.asked or out.changes or out.starts or out.takings or out.wanted)
