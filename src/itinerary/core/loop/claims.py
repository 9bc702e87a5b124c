"""Claims: create the rows of upcoming occurrences in bulk, ahead of their instants; and take occurrences on offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from itinerary.core.loop import takeover as continuing
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.completion import named
from itinerary.core.loop.messages import ClaimsAnswered, IndexBuilt, Unclaimable
from itinerary.core.loop.occurrence import Course, Stage
from itinerary.core.loop.state import Board
from itinerary.core.recovery.membership import Members, is_mine
from itinerary.core.recovery.pause import made_at
from itinerary.core.recovery.rate_limit import kept_free
from itinerary.errors import ItineraryError
from itinerary.model.occurrence import Kind
from itinerary.model.rows import Key, OccurrenceRow
from itinerary.model.run_request import read_asked
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import Claimed, Intervention, Refusal, Wanted

__all__ = ["claims_answered", "release", "take_index", "take_members", "take_offers", "want"]

_UNSTARTED: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


def want(board: Board, now: int, out: Outbox) -> None:
    """Claim occurrences due in `[now - grace_period, now + pre_schedule_interval)` that are not yet known (L3).

    Scan only the part of the index that was not scanned before. Leave occurrences to the sweep that became older than
    the grace period while this node took no work: the recovery strategy of the job decides about them. Leave
    occurrences to another node that claims them first (see `membership`).
    """
    board.has_put_off = False
    if board.is_stale or not board.takes_work:
        return
    start = now - board.settings.grace_period
    if board.scanned_until is not None:
        start = max(start, board.scanned_until)
    end = now + board.settings.pre_schedule_interval
    if end <= start:
        return
    if end > board.next_instant and _can_wait(board, now):
        board.has_put_off = True
        return
    board.scanned_until = end
    out.wanted_under = board.revision
    if end <= board.next_instant:
        return
    runs = board.index.query(start, end)
    board.next_instant = board.index.next_from(end)
    numbers, instants = runs.numbers, runs.instants
    if board.members.lacks:
        mine = is_mine(board.members, board.here.node, board.job_numbers[numbers], instants)
        numbers, instants = numbers[mine], instants[mine]
    for number, instant in zip(numbers.tolist(), instants.tolist(), strict=True):
        plan = board.plans.plan(*board.jobs[number])
        if isinstance(plan, str) or not plan.is_runnable:
            continue  # the index builder has logged this
        key = Key(instant, plan.number, Kind.SCHEDULED)
        if key not in board.known:
            course = board.new(key, plan, plan.due_at(instant))
            terms = plan.terms
            out.wanted.append(
                Wanted(key, plan.version, course.due_at, priority=terms.config.job.priority, config=terms.json)
            )


def _can_wait(board: Board, now: int) -> bool:
    """True if something is due now and the next claims can wait.

    A job that is due each second has its next claims, ten seconds ahead, at the same moment as its starts. Starts go
    first.
    """
    if board.scanned_until is None or board.next_instant - now <= board.settings.pre_schedule_interval // 2:
        return False
    alarm_at = board.alarms.next_at
    return board.is_hurried(now) or (alarm_at is not None and alarm_at <= now)


def take_index(board: Board, message: IndexBuilt) -> bool:
    """Replace the index, unless the new one is older. Return True if it was replaced."""
    if message.revision < board.revision:
        return False
    board.revision = message.revision
    board.index, board.jobs, board.plans = message.index, message.jobs, message.plans
    board.job_numbers = message.job_numbers
    board.is_stale = False
    board.scanned_until, board.next_instant = None, 0
    return True


def take_members(board: Board, members: Members, out: Outbox) -> None:
    """Change the nodes that share the work, and scan the index again for claims that are now for this node."""
    board.members = members
    board.scanned_until, board.next_instant = None, 0
    out.log(Level.INFO, "nodes.sharing", others=sorted(members.lacks))


def claims_answered(board: Board, message: ClaimsAnswered | Unclaimable, now: int, out: Outbox) -> None:
    """Handle the answers to claims."""
    board.asked -= len(message.wanted)
    if isinstance(message, Unclaimable):
        jobs = sorted({board.known[item.key].plan.name for item in message.wanted if item.key in board.known})
        count = len(message.wanted)
        out.log(Level.ERROR, "occurrences.unclaimable", jobs=jobs[:10], count=count, error=message.error)
        _let_go(board, message.wanted, now)
    elif isinstance(message.answer, Refusal):
        for item in message.wanted:
            board.known.pop(item.key, None)
        board.is_stale = True
        out.rebuild("the timeline has changed")
    else:
        for claimed in message.answer:
            _won(board, claimed, now, out)
        if lost := len(message.wanted) - len(message.answer):
            _let_go(board, message.wanted, now)
            out.log(Level.DEBUG, "occurrences.lost_to_others", count=lost)


def _won(board: Board, claimed: Claimed, now: int, out: Outbox) -> None:
    course = board.known.get(claimed.key)
    if course is None or course.stage is not Stage.WANTED:
        out.log(Level.ERROR, "claim.unexpected", occurrence=claimed.ref, claimed=str(claimed))
        return
    course.stage = Stage.CLAIMED
    course.ref, course.fence, course.adjustments = claimed.ref, claimed.fence, claimed.adjustments
    course.last_fence = claimed.fence
    board.by_ref[course.ref] = course
    if board.ends_at is not None:
        release(board, course, now, out)
        return
    course.prepare()
    board.alarms.put(course.due_at, course)
    if claimed.adjustments:
        out.reads.append(claimed.ref)


def _let_go(board: Board, wanted: Iterable[Wanted], now: int) -> None:
    """Retire claims that this node did not get. Remember them while the index can still yield them."""
    for item in wanted:
        course = board.known.get(item.key)
        if course is not None and course.stage is Stage.WANTED:
            board.over(course, now)


def take_offers(board: Board, now: int, out: Outbox) -> None:
    """Queue occurrences that any node may start or resume, if slots are free for them (protocol rule 15).

    Other nodes may have slots for the rest. Occurrences that this node owns are queued in any case, because no other
    node takes them for a while. An occurrence that holds the overlap slot goes before the others of its job, which
    would only wait for it. A backlog is taken at its recovery pace and leaves some slots to due occurrences (R3).
    Remaining offers stay for the next iteration.
    """
    board.more_at = None
    if board.called:
        board.offers += board.called
        board.called = []
    if not board.offers or not board.takes_work or board.is_stale:
        return
    room = board.line.free - len(board.line) - len(board.next_up)
    backlog_room = room - kept_free(board.settings.max_concurrent_jobs)
    ready = 0
    if any(row.is_recovery for row in board.offers):
        ready = max(min(board.pace.ready(now), backlog_room), 0)
        if backlog_room > 0:
            board.more_at = board.pace.next_at
    offers, board.offers, begun = board.offers, [], 0
    if room > 0 or any(row.owner == board.here.node for row in offers):
        offers.sort(key=lambda row: (-row.priority, not _has_its_turn(row), row.instant))
    for row in offers:
        if (begun >= ready) if row.is_recovery else (room <= 0 and row.owner != board.here.node):
            board.offers.append(row)
        elif _is_being_claimed(board, row):
            board.offers.append(row)  # for example at node start: the answer shows soon whether this node has it
        elif row.due_at <= now and _is_for_anybody(row) and _is_new(board, row) and _take_up(board, row, now, out):
            room -= 1
            begun += row.is_recovery
    board.pace.use(begun)
    if not any(row.is_recovery for row in board.offers):
        board.more_at = None


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


def _is_new(board: Board, row: OccurrenceRow) -> bool:
    """True if this node does not have the occurrence already.

    An occurrence that was done here can return with a higher fence. Its turn in the overlap queue has come, or one
    update removed it and another restored it.
    """
    here = board.by_ref.get(row.ref)
    if here is not None:
        return here.stage is Stage.OVER and row.fence > here.last_fence
    known = board.known.get(row.key)
    return known is None or known.stage is Stage.OVER


def _is_being_claimed(board: Board, row: OccurrenceRow) -> bool:
    wanted = board.known.get(row.key)
    return wanted is not None and wanted.stage is Stage.WANTED


def _take_up(board: Board, row: OccurrenceRow, now: int, out: Outbox) -> bool:
    has_begun = row.started_at is not None
    if not has_begun and board.pause_holding(row.job, made_at(row), now) is not None:
        return False  # offered again until its job is resumed
    plan = board.plans.plan(row.job, row.version) if has_begun else board.plan_of(row.key, row.version)
    if isinstance(plan, str) or not plan.is_runnable:
        return False
    course = board.new(row.key, plan, row.due_at)
    course.ref, course.last_fence, course.made_at = row.ref, row.fence, made_at(row)
    course.window, course.is_recovery = row.window, row.is_recovery
    if row.window is not None:
        course.zones = board.plans.zones_in(row.window, plan)
    course.skip = board.why_skipped(course)
    course.passes_held = board.passes_held(row, now)
    board.by_ref[row.ref] = course
    try:
        asked = read_asked(row.details)
        course.only_tasks = None if asked is None else asked.only_tasks
        course.refit(plan, row.overrides, row.adjustments)
        if has_begun:
            continuing.ask_for(course, row, plan)
    except ItineraryError as error:
        out.log(Level.ERROR, "occurrence.unstartable", **named(course), why=str(error))
        board.over(course, now)
        return False
    course.stage = Stage.CLAIMED
    board.alarms.put(now, course)
    return True


def release(board: Board, course: Course, now: int, out: Outbox) -> None:
    """Give back an occurrence that has not started and that this node will not start."""
    if course.fence is not None:
        why = f"released by node {board.here.name}, which shuts down"
        out.releases.append(Intervention(course.ref, course.fence, None, why, is_unstarted=True))
    board.over(course, now)
