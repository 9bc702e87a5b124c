"""Checks of the content of a store: zone data, undecided instants, nodes, jobs, and waiting runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from itinerary.core.recovery.sweep import WINDOWS_REACH
from itinerary.core.timeline.zone_history import outdated_names
from itinerary.errors import ItineraryError, UnknownZone, WindowError
from itinerary.model.ids import run_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Active, Nodes, Overdue
from itinerary.model.rows import JobNumber
from itinerary.model.states import OccurrenceState
from itinerary.operations.doctor.findings import Finding, Level
from itinerary.read.nodes import NodeSeen, NodeState, heard_of, lacked_by_all, nodes_seen
from itinerary.read.snapshot import Ground
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND, format_duration
from itinerary.schedules.instants import microseconds_of
from itinerary.stores.paging import decided_between, windows_after

__all__ = ["jobs", "nodes", "overtime", "undecided", "waiting", "zone_data"]

_UNDECIDED_FOR: Final = 60 * SECOND
"""The age at which a due instant should be decided; `/health/progress` uses the same limit."""
_LOOKED_AT: Final = 3_600 * SECOND
"""How far after the watermark undecided instants are searched: only the oldest matters."""
_WAITED_FOR: Final = 600 * SECOND
"""How long a run may wait in the overlap queue, or for a limit, without a finding."""
_OVERDUE: Final = 60 * SECOND
"""The allowed start lateness of a run that does not wait in a queue."""
_ACTIVE_MAX: Final = 10_000
_NAMED_MAX: Final = 5
"""The number of names in a sentence."""
_JUMPED_SINCE: Final = 86_400 * SECOND
_WAITS: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING, OccurrenceState.QUEUED})


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _for(microseconds: int) -> str:
    return format_duration(max(microseconds, 0) // SECOND * SECOND)


# -- zone data and instants ------------------------------------------------------------------------------------------


def zone_data(ground: Ground, data: ZoneData) -> list[Finding]:
    """Check that all zone tables are readable, and that those of this machine are as new."""
    book, found = ground.timeline.zones, []
    for name in sorted(ground.timeline.zones_needed(ground.now) | set(book.names)):
        try:
            book.table(name, ground.now)
        except UnknownZone as error:
            found.append(Finding("zone data", Level.WRONG, str(error), "start a node: it enters the table"))
        except ItineraryError as error:
            advice = "start a node with newer zone data (tzdata): it enters a table in its place"
            found.append(Finding("zone data", Level.WRONG, str(error), advice))
    if outdated := outdated_names(book, data):
        words = f"this machine has zone data {data.release}, and the store has newer tables of {_named(outdated)}"
        advice = "upgrade the tzdata package here; all nodes compute with the store's tables, so nothing is wrong"
        found.append(Finding("zone data", Level.DOUBTFUL, words, advice))
    return found or [Finding("zone data", Level.WELL, f"nothing in the store is newer than {data.release}")]


async def undecided(ground: Ground) -> list[Finding]:
    """Check how far all instants are decided, and find the oldest undecided one."""
    status = ground.status
    behind = status.now - status.watermark
    if not ground.timeline.jobs or behind < _UNDECIDED_FOR:
        return [Finding("decided", Level.WELL, f"everything is decided up to {_for(behind)} ago")]
    words = f"everything is decided up to {_for(behind)} ago, and no further"
    oldest = await _oldest_undecided(ground)
    if oldest is None:
        advice = "it goes on with the next sweep of a node"
        return [Finding("decided", Level.DOUBTFUL, words, advice)]
    advice = "start a node: it recovers what was missed (`itinerary up APP --plan` shows what); or see its log"
    return [Finding("decided", Level.WRONG, f"{words}: {oldest}", advice)]


async def _oldest_undecided(ground: Ground) -> str | None:
    """Return, in words, the first instant after the watermark that is long due and has no row."""
    start, read = ground.status.watermark, ground.store.read
    end = min(ground.now - _UNDECIDED_FOR, start + _LOOKED_AT)
    try:
        expected = ground.timeline.expected(start, end)
    except WindowError:
        return "very many instants are due since then"
    decided = {
        (key.instant, key.job)
        async for page in decided_between(read, start, end)
        for key in page
        if key.kind is Kind.SCHEDULED
    }
    windows = await windows_after(read, start - WINDOWS_REACH)
    for place in np.lexsort((expected.jobs, expected.instants)).tolist():
        instant, job = int(expected.instants[place]), JobNumber(int(expected.jobs[place]))
        covered = any(
            row.job == job and row.window is not None and row.window.start <= instant < row.window.end
            for row in windows
        )
        if (instant, job) not in decided and not covered:
            late = _for(ground.now - instant)
            return f"{run_id(ground.timeline.jobs[job].name, instant)} has been due for {late}, and nothing is decided"
    return None


# -- nodes and jobs --------------------------------------------------------------------------------------------------


async def nodes(ground: Ground) -> list[Finding]:
    """Check that nodes run, send heartbeats, and agree with each other."""
    seen = await nodes_seen(ground.store, ground.now, {}, limit=1_000)
    there = [node for node in seen if node.state is NodeState.RUNNING]
    found: list[Finding] = []
    if there:
        found.append(Finding("nodes", Level.WELL, f"{len(there):,} on it: {_named([node.node for node in there])}"))
    elif ground.named():
        found.append(Finding("nodes", Level.WRONG, "no node runs on this store, so no job runs", "`itinerary up APP`"))
    else:
        found.append(Finding("nodes", Level.WELL, "none, and there are no jobs"))
    found += [_silent(node, has_others=bool(there)) for node in seen if node.state is NodeState.SILENT]
    found += [_died(node, ground.now, has_others=bool(there)) for node in seen if node.state is NodeState.DIED]
    found += [finding for node in there if (finding := _jumped(node, ground.now)) is not None]
    found += [
        Finding("nodes", Level.WRONG, f"node {node.node} is {node.behind.sentence}", node.behind.advice)
        for node in there
        if node.behind is not None
    ]
    versions = sorted({node.version for node in there if node.version is not None})
    if len(versions) > 1:
        advice = "finish the upgrade; until then both versions work on one store"
        words = f"nodes run different versions: {', '.join(versions)}"
        found.append(Finding("nodes", Level.DOUBTFUL, words, advice))
    return found


def _silent(node: NodeSeen, *, has_others: bool) -> Finding:
    silent = _for(int((node.silent_seconds or 0) * SECOND))
    words = f"node {node.node} (number {node.number}) has not been heard of for {silent}, and did not say that it left"
    if has_others:
        return Finding("nodes", Level.DOUBTFUL, words, "the others take over its work; see what became of it")
    return Finding("nodes", Level.WRONG, words, "start it again, or another one: that takes over its work")


def _died(node: NodeSeen, now: int, *, has_others: bool) -> Finding:
    words = f"node {node.node} (number {node.number}) died"
    if node.left_at is None:
        held = "1 run" if node.runs == 1 else f"{node.runs:,} runs"
        words = f"{words}: its process is gone, and {held} of it had not ended"
        advice = "start a node: it takes over the work" if not has_others else "the others take over its work"
        return Finding("nodes", Level.WRONG, words, advice)
    words = f"{words}, and was found dead {_for(now - microseconds_of(node.left_at))} ago"
    level = Level.DOUBTFUL if has_others else Level.WRONG
    return Finding("nodes", level, words, "its work was taken over; see its log, and what killed it")


def _jumped(node: NodeSeen, now: int) -> Finding | None:
    if not node.last_jumps:
        return None
    jump = node.last_jumps[-1]
    if jump.at is None or jump.at.timestamp() * SECOND < now - _JUMPED_SINCE:
        return None
    words = (
        f"the time of node {node.node} has jumped {node.clock_jumps} times, the last time by {jump.by_seconds:.1f} s"
    )
    return Finding("nodes", Level.DOUBTFUL, f"{words}: {jump.why}", "nothing is lost by it; see its clock and its load")


async def jobs(ground: Ground) -> list[Finding]:
    """Check that every job can run: its definition is readable, its schedule behaves, and a node has its code."""
    names = ground.timeline.jobs
    found: list[Finding] = []
    gaps = {gap.job: gap.reason for gap in ground.timeline.expected(ground.now, ground.now + SECOND).gaps}
    for job, reason in list(gaps.items())[:_NAMED_MAX]:
        words = f"job {names[job].name} is quarantined: {reason}"
        found.append(Finding("jobs", Level.WRONG, words, "correct its schedule, and declare it again"))
    if len(gaps) > _NAMED_MAX:
        words = f"{len(gaps) - _NAMED_MAX:,} more jobs are quarantined"
        found.append(Finding("jobs", Level.WRONG, words, "`itinerary jobs --state quarantined` names them"))
    rows = await ground.store.read(Nodes())
    lacked = [names[job].name for job in sorted(lacked_by_all(rows, ground.now)) if not ground.is_removed(job)]
    if lacked:
        words = f"no node that runs has the code of {_named(lacked)}"
        advice = "start a node that declares it, or remove the job"
        found.append(Finding("jobs", Level.WRONG, words, advice))
    count = len(ground.named())
    return found or [Finding("jobs", Level.WELL, f"all {count:,} can be read" if count else "there are none")]


# -- waiting runs ----------------------------------------------------------------------------------------------------


async def waiting(ground: Ground) -> list[Finding]:
    """Find runs that are due and have not started, and for how long."""
    rows = await ground.store.read(Active(due_before=ground.now, limit=_ACTIVE_MAX))
    late = [row for row in rows if row.started_at is None and row.status in _WAITS]
    if not late:
        return [Finding("waiting", Level.WELL, "nothing that is due waits")]
    more = " or more" if len(rows) == _ACTIVE_MAX else ""
    count = "1 occurrence is due and has" if len(late) == 1 else f"{len(late):,}{more} occurrences are due and have"
    waited = ground.now - late[0].due_at
    by_job = Counter(ground.timeline.jobs[row.job].name for row in late).most_common()
    most = _named([f"{job} ({many:,})" for job, many in by_job])
    words = f"{count} not begun, the first for {_for(waited)}: {most}"
    overdue = [row for row in late if row.status is not OccurrenceState.QUEUED and ground.now - row.due_at > _OVERDUE]
    if overdue:
        count = "1 run is" if len(overdue) == 1 else f"{len(overdue):,}{more} runs are"
        names = _named(sorted({ground.timeline.jobs[row.job].name for row in overdue}))
        words = f"{count} overdue, the first for {_for(ground.now - overdue[0].due_at)}: {names}"
        advice = "`itinerary explain JOB` says what it waits for; no node may run, or none may have a free slot"
        return [Finding("waiting", Level.DOUBTFUL, words, advice)]
    if waited < _WAITED_FOR:
        return [Finding("waiting", Level.WELL, words)]
    advice = "`itinerary show JOB` says why each waits: for its job's turn, a slot of a node, or a limit"
    return [Finding("waiting", Level.DOUBTFUL, words, advice)]


async def overtime(ground: Ground) -> list[Finding]:
    """Find runs past their timeout, and queue rows that wait for no run. A working reaper leaves neither."""
    over = await ground.store.read(Overdue())
    found: list[Finding] = []
    if over.expired:
        names = _named(sorted({ground.timeline.jobs[row.job].name for row in over.expired}))
        is_one = len(over.expired) == 1
        count = "1 occurrence has" if is_one else f"{len(over.expired):,} occurrences have"
        words = f"{count} run too long, and nobody has ended {'it' if is_one else 'them'}: {names}"
        found.append(Finding("overtime", Level.WRONG, words, "start a node: its reaper ends them and frees their jobs"))
    if over.stuck:
        names = _named(sorted({ground.timeline.jobs[row.job].name for row in over.stuck}))
        is_anybody = any(heard_of(row, ground.now) for row in await ground.store.read(Nodes()))
        level = Level.DOUBTFUL if is_anybody else Level.WRONG
        words = f"who stands in line for {names} waits for nobody who still runs"
        found.append(Finding("overtime", level, words, "a node that runs wakes them within half a minute"))
    return found or [Finding("overtime", Level.WELL, "nothing runs longer than it may")]
