"""Claims: create the rows of upcoming occurrences in bulk, ahead of their instants; and take occurrences on offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from itinerary.core.loop import takeover as continuing
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.completion import named
from itinerary.core.loop.messages import ClaimsAnswered, IndexBuilt, Unclaimable
from itinerary.core.loop.occurrence import OccurrenceRun, Stage
from itinerary.core.loop.state import SchedulerState
from itinerary.core.recovery.membership import Members, is_mine
from itinerary.core.recovery.pause import made_at
from itinerary.core.recovery.rate_limit import kept_free
from itinerary.errors import ItineraryError
from itinerary.model.occurrence import Kind
from itinerary.model.rows import Key, OccurrenceRow
from itinerary.model.run_request import read_asked
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import Claimed, ClaimRequest, Refusal, TakeoverWrite

__all__ = ["claims_answered", "release", "take_index", "take_members", "take_offers", "want"]

_UNSTARTED: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


def want(scheduler: SchedulerState, now: int, out: CommandBatch) -> None:
    """Claim occurrences due in `[now - grace_period, now + pre_schedule_interval)` that are not yet known (L3).

    Scan only the part of the index that was not scanned before. Leave occurrences to the sweep that became older than
    the grace period while this node took no work: the recovery strategy of the job decides about them. Leave
    occurrences to another node that claims them first (see `membership`).
    """
    scheduler.has_put_off = False
    if scheduler.is_stale or not scheduler.takes_work:
        return
    start = now - scheduler.settings.grace_period
    if scheduler.scanned_until is not None:
        start = max(start, scheduler.scanned_until)
    end = now + scheduler.settings.pre_schedule_interval
    if end <= start:
        return
    if end > scheduler.next_instant and _can_wait(scheduler, now):
        scheduler.has_put_off = True
        return
    scheduler.scanned_until = end
    out.wanted_under = scheduler.revision
    if end <= scheduler.next_instant:
        return
    runs = scheduler.index.query(start, end)
    scheduler.next_instant = scheduler.index.next_from(end)
    numbers, instants = runs.numbers, runs.instants
    if scheduler.members.lacks:
        mine = is_mine(scheduler.members, scheduler.node.node, scheduler.job_numbers[numbers], instants)
        numbers, instants = numbers[mine], instants[mine]
    for number, instant in zip(numbers.tolist(), instants.tolist(), strict=True):
        plan = scheduler.plans.plan(*scheduler.jobs[number])
        if isinstance(plan, str) or not plan.is_runnable:
            continue  # the index builder has logged this
        key = Key(instant, plan.number, Kind.SCHEDULED)
        if key not in scheduler.known:
            run = scheduler.new(key, plan, plan.due_at(instant))
            start_config = plan.start_config
            out.wanted.append(
                ClaimRequest(
                    key, plan.version, run.due_at, priority=start_config.config.job.priority, config=start_config.json
                )
            )


def _can_wait(scheduler: SchedulerState, now: int) -> bool:
    """True if something is due now and the next claims can wait.

    A job that is due each second has its next claims, ten seconds ahead, at the same moment as its starts. Starts go
    first.
    """
    if scheduler.scanned_until is None or scheduler.next_instant - now <= scheduler.settings.pre_schedule_interval // 2:
        return False
    alarm_at = scheduler.alarms.next_at
    return scheduler.is_hurried(now) or (alarm_at is not None and alarm_at <= now)


def take_index(scheduler: SchedulerState, message: IndexBuilt) -> bool:
    """Replace the index, unless the new one is older. Return True if it was replaced."""
    if message.revision < scheduler.revision:
        return False
    scheduler.revision = message.revision
    scheduler.index, scheduler.jobs, scheduler.plans = message.index, message.jobs, message.plans
    scheduler.job_numbers = message.job_numbers
    scheduler.is_stale = False
    scheduler.scanned_until, scheduler.next_instant = None, 0
    return True


def take_members(scheduler: SchedulerState, members: Members, out: CommandBatch) -> None:
    """Change the nodes that share the work, and scan the index again for claims that are now for this node."""
    scheduler.members = members
    scheduler.scanned_until, scheduler.next_instant = None, 0
    out.log(LogLevel.INFO, "nodes.sharing", others=sorted(members.lacks))


def claims_answered(
    scheduler: SchedulerState, message: ClaimsAnswered | Unclaimable, now: int, out: CommandBatch
) -> None:
    """Handle the answers to claims."""
    scheduler.asked -= len(message.wanted)
    if isinstance(message, Unclaimable):
        jobs = sorted({scheduler.known[item.key].plan.name for item in message.wanted if item.key in scheduler.known})
        count = len(message.wanted)
        out.log(LogLevel.ERROR, "occurrences.unclaimable", jobs=jobs[:10], count=count, error=message.error)
        _let_go(scheduler, message.wanted, now)
    elif isinstance(message.answer, Refusal):
        for item in message.wanted:
            scheduler.known.pop(item.key, None)
        scheduler.is_stale = True
        out.rebuild("the timeline has changed")
    else:
        for claimed in message.answer:
            _won(scheduler, claimed, now, out)
        if lost := len(message.wanted) - len(message.answer):
            _let_go(scheduler, message.wanted, now)
            out.log(LogLevel.DEBUG, "occurrences.lost_to_others", count=lost)


def _won(scheduler: SchedulerState, claimed: Claimed, now: int, out: CommandBatch) -> None:
    run = scheduler.known.get(claimed.key)
    if run is None or run.stage is not Stage.CLAIMING:
        out.log(LogLevel.ERROR, "claim.unexpected", occurrence=claimed.ref, claimed=str(claimed))
        return
    run.stage = Stage.CLAIMED
    run.ref, run.fence, run.adjustments = claimed.ref, claimed.fence, claimed.adjustments
    run.last_fence = claimed.fence
    scheduler.by_ref[run.ref] = run
    if scheduler.ends_at is not None:
        release(scheduler, run, now, out)
        return
    run.prepare()
    scheduler.alarms.put(run.due_at, run)
    if claimed.adjustments:
        out.reads.append(claimed.ref)


def _let_go(scheduler: SchedulerState, wanted: Iterable[ClaimRequest], now: int) -> None:
    """Retire claims that this node did not get. Remember them while the index can still yield them."""
    for item in wanted:
        run = scheduler.known.get(item.key)
        if run is not None and run.stage is Stage.CLAIMING:
            scheduler.over(run, now)


def take_offers(scheduler: SchedulerState, now: int, out: CommandBatch) -> None:
    """Queue occurrences that any node may start or resume, if slots are free for them (protocol rule 15).

    Other nodes may have slots for the rest. Occurrences that this node owns are queued in any case, because no other
    node takes them for a while. An occurrence that holds the overlap slot goes before the others of its job, which
    would only wait for it. A backlog is taken at its recovery pace and leaves some slots to due occurrences (R3).
    Remaining offers stay for the next iteration.
    """
    scheduler.more_at = None
    if scheduler.called:
        scheduler.offers += scheduler.called
        scheduler.called = []
    if not scheduler.offers or not scheduler.takes_work or scheduler.is_stale:
        return
    room = scheduler.line.free - len(scheduler.line) - len(scheduler.next_up)
    backlog_room = room - kept_free(scheduler.settings.max_concurrent_jobs)
    ready = 0
    if any(row.is_recovery for row in scheduler.offers):
        ready = max(min(scheduler.pace.ready(now), backlog_room), 0)
        if backlog_room > 0:
            scheduler.more_at = scheduler.pace.next_at
    offers, scheduler.offers, begun = scheduler.offers, [], 0
    if room > 0 or any(row.owner == scheduler.node.node for row in offers):
        offers.sort(key=lambda row: (-row.priority, not _has_its_turn(row), row.instant))
    for row in offers:
        if (begun >= ready) if row.is_recovery else (room <= 0 and row.owner != scheduler.node.node):
            scheduler.offers.append(row)
        elif _is_being_claimed(scheduler, row):
            scheduler.offers.append(row)  # for example at node start: the answer shows soon whether this node has it
        elif (
            row.due_at <= now
            and _is_for_anybody(row)
            and _is_new(scheduler, row)
            and _take_up(scheduler, row, now, out)
        ):
            room -= 1
            begun += row.is_recovery
    scheduler.pace.use(begun)
    if not any(row.is_recovery for row in scheduler.offers):
        scheduler.more_at = None


def _has_its_turn(row: OccurrenceRow) -> bool:
    """True if the occurrence was queued and received the overlap slot: it has no owner and is pending."""
    return row.owner is None and row.status is OccurrenceState.PENDING


def _is_for_anybody(row: OccurrenceRow) -> bool:
    return _is_free(row) or _is_left_behind(row)


def _is_free(row: OccurrenceRow) -> bool:
    return row.started_at is None and row.status in _UNSTARTED and row.cancelled_by is None


def _is_left_behind(row: OccurrenceRow) -> bool:
    """True if the occurrence began on a node that is gone, so another node must resume it."""
    return row.started_at is not None and row.owner is None and row.status not in FINAL


def _is_new(scheduler: SchedulerState, row: OccurrenceRow) -> bool:
    """True if this node does not have the occurrence already.

    An occurrence that was done here can return with a higher fence. Its turn in the overlap queue has come, or one
    update removed it and another restored it.
    """
    node = scheduler.by_ref.get(row.ref)
    if node is not None:
        return node.stage is Stage.DONE and row.fence > node.last_fence
    known = scheduler.known.get(row.key)
    return known is None or known.stage is Stage.DONE


def _is_being_claimed(scheduler: SchedulerState, row: OccurrenceRow) -> bool:
    wanted = scheduler.known.get(row.key)
    return wanted is not None and wanted.stage is Stage.CLAIMING


def _take_up(scheduler: SchedulerState, row: OccurrenceRow, now: int, out: CommandBatch) -> bool:
    has_begun = row.started_at is not None
    if not has_begun and scheduler.pause_holding(row.job, made_at(row), now) is not None:
        return False  # offered again until its job is resumed
    plan = scheduler.plans.plan(row.job, row.version) if has_begun else scheduler.plan_of(row.key, row.version)
    if isinstance(plan, str) or not plan.is_runnable:
        return False
    run = scheduler.new(row.key, plan, row.due_at)
    run.ref, run.last_fence, run.made_at = row.ref, row.fence, made_at(row)
    run.window, run.is_recovery = row.window, row.is_recovery
    if row.window is not None:
        run.zones = scheduler.plans.zones_in(row.window, plan)
    run.skip = scheduler.why_skipped(run)
    run.passes_held = scheduler.passes_held(row, now)
    scheduler.by_ref[row.ref] = run
    try:
        asked = read_asked(row.details)
        run.only_tasks = None if asked is None else asked.only_tasks
        run.refit(plan, row.overrides, row.adjustments)
        if has_begun:
            continuing.ask_for(run, row, plan)
    except ItineraryError as error:
        out.log(LogLevel.ERROR, "occurrence.unstartable", **named(run), why=str(error))
        scheduler.over(run, now)
        return False
    run.stage = Stage.CLAIMED
    scheduler.alarms.put(now, run)
    return True


def release(scheduler: SchedulerState, run: OccurrenceRun, now: int, out: CommandBatch) -> None:
    """Give back an occurrence that has not started and that this node will not start."""
    if run.fence is not None:
        why = f"released by node {scheduler.node.name}, which shuts down"
        out.releases.append(TakeoverWrite(run.ref, run.fence, None, why, is_unstarted=True))
    scheduler.over(run, now)
