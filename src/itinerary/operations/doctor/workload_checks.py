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
from itinerary.model.queries import ActiveQuery, NodesQuery, OverdueQuery
from itinerary.model.rows import JobNumber
from itinerary.model.states import OccurrenceState
from itinerary.operations.doctor.findings import CheckResult, Severity
from itinerary.read.nodes import NodeSeen, NodeState, heard_of, lacked_by_all, nodes_seen
from itinerary.read.snapshot import StoreSnapshot
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


def zone_data(snapshot: StoreSnapshot, data: ZoneData) -> list[CheckResult]:
    """Check that all zone tables are readable, and that those of this machine are as new."""
    book, found = snapshot.timeline.zones, []
    for name in sorted(snapshot.timeline.zones_needed(snapshot.now) | set(book.names)):
        try:
            book.table(name, snapshot.now)
        except UnknownZone as error:
            found.append(CheckResult("zone data", Severity.WRONG, str(error), "start a node: it enters the table"))
        except ItineraryError as error:
            advice = "start a node with newer zone data (tzdata): it enters a table in its place"
            found.append(CheckResult("zone data", Severity.WRONG, str(error), advice))
    if outdated := outdated_names(book, data):
        words = f"this machine has zone data {data.release}, and the store has newer tables of {_named(outdated)}"
        advice = "upgrade the tzdata package here; all nodes compute with the store's tables, so nothing is wrong"
        found.append(CheckResult("zone data", Severity.DOUBTFUL, words, advice))
    return found or [CheckResult("zone data", Severity.WELL, f"nothing in the store is newer than {data.release}")]


async def undecided(snapshot: StoreSnapshot) -> list[CheckResult]:
    """Check how far all instants are decided, and find the oldest undecided one."""
    status = snapshot.status
    behind = status.now - status.watermark
    if not snapshot.timeline.jobs or behind < _UNDECIDED_FOR:
        return [CheckResult("decided", Severity.WELL, f"everything is decided up to {_for(behind)} ago")]
    words = f"everything is decided up to {_for(behind)} ago, and no further"
    oldest = await _oldest_undecided(snapshot)
    if oldest is None:
        advice = "it goes on with the next sweep of a node"
        return [CheckResult("decided", Severity.DOUBTFUL, words, advice)]
    advice = "start a node: it recovers what was missed (`itinerary up APP --plan` shows what); or see its log"
    return [CheckResult("decided", Severity.WRONG, f"{words}: {oldest}", advice)]


async def _oldest_undecided(snapshot: StoreSnapshot) -> str | None:
    """Return, in words, the first instant after the watermark that is long due and has no row."""
    start, read = snapshot.status.watermark, snapshot.store.read
    end = min(snapshot.now - _UNDECIDED_FOR, start + _LOOKED_AT)
    try:
        expected = snapshot.timeline.expected(start, end)
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
            late = _for(snapshot.now - instant)
            return (
                f"{run_id(snapshot.timeline.jobs[job].name, instant)} has been due for {late}, and nothing is decided"
            )
    return None


# -- nodes and jobs --------------------------------------------------------------------------------------------------


async def nodes(snapshot: StoreSnapshot) -> list[CheckResult]:
    """Check that nodes run, send heartbeats, and agree with each other."""
    seen = await nodes_seen(snapshot.store, snapshot.now, {}, limit=1_000)
    there = [node for node in seen if node.state is NodeState.RUNNING]
    found: list[CheckResult] = []
    if there:
        found.append(
            CheckResult("nodes", Severity.WELL, f"{len(there):,} on it: {_named([node.node for node in there])}")
        )
    elif snapshot.named():
        found.append(
            CheckResult("nodes", Severity.WRONG, "no node runs on this store, so no job runs", "`itinerary up APP`")
        )
    else:
        found.append(CheckResult("nodes", Severity.WELL, "none, and there are no jobs"))
    found += [_silent(node, has_others=bool(there)) for node in seen if node.state is NodeState.SILENT]
    found += [_died(node, snapshot.now, has_others=bool(there)) for node in seen if node.state is NodeState.DIED]
    found += [finding for node in there if (finding := _jumped(node, snapshot.now)) is not None]
    found += [
        CheckResult("nodes", Severity.WRONG, f"node {node.node} is {node.behind.sentence}", node.behind.advice)
        for node in there
        if node.behind is not None
    ]
    versions = sorted({node.version for node in there if node.version is not None})
    if len(versions) > 1:
        advice = "finish the upgrade; until then both versions work on one store"
        words = f"nodes run different versions: {', '.join(versions)}"
        found.append(CheckResult("nodes", Severity.DOUBTFUL, words, advice))
    return found


def _silent(node: NodeSeen, *, has_others: bool) -> CheckResult:
    silent = _for(int((node.silent_seconds or 0) * SECOND))
    words = f"node {node.node} (number {node.number}) has not been heard of for {silent}, and did not say that it left"
    if has_others:
        return CheckResult("nodes", Severity.DOUBTFUL, words, "the others take over its work; see what became of it")
    return CheckResult("nodes", Severity.WRONG, words, "start it again, or another one: that takes over its work")


def _died(node: NodeSeen, now: int, *, has_others: bool) -> CheckResult:
    words = f"node {node.node} (number {node.number}) died"
    if node.left_at is None:
        held = "1 run" if node.runs == 1 else f"{node.runs:,} runs"
        words = f"{words}: its process is gone, and {held} of it had not ended"
        advice = "start a node: it takes over the work" if not has_others else "the others take over its work"
        return CheckResult("nodes", Severity.WRONG, words, advice)
    words = f"{words}, and was found dead {_for(now - microseconds_of(node.left_at))} ago"
    level = Severity.DOUBTFUL if has_others else Severity.WRONG
    return CheckResult("nodes", level, words, "its work was taken over; see its log, and what killed it")


def _jumped(node: NodeSeen, now: int) -> CheckResult | None:
    if not node.last_jumps:
        return None
    jump = node.last_jumps[-1]
    if jump.at is None or jump.at.timestamp() * SECOND < now - _JUMPED_SINCE:
        return None
    words = (
        f"the time of node {node.node} has jumped {node.clock_jumps} times, the last time by {jump.by_seconds:.1f} s"
    )
    return CheckResult(
        "nodes", Severity.DOUBTFUL, f"{words}: {jump.why}", "nothing is lost by it; see its clock and its load"
    )


async def jobs(snapshot: StoreSnapshot) -> list[CheckResult]:
    """Check that every job can run: its definition is readable, its schedule behaves, and a node has its code."""
    names = snapshot.timeline.jobs
    found: list[CheckResult] = []
    gaps = {gap.job: gap.reason for gap in snapshot.timeline.expected(snapshot.now, snapshot.now + SECOND).gaps}
    for job, reason in list(gaps.items())[:_NAMED_MAX]:
        words = f"job {names[job].name} is quarantined: {reason}"
        found.append(CheckResult("jobs", Severity.WRONG, words, "correct its schedule, and declare it again"))
    if len(gaps) > _NAMED_MAX:
        words = f"{len(gaps) - _NAMED_MAX:,} more jobs are quarantined"
        found.append(CheckResult("jobs", Severity.WRONG, words, "`itinerary jobs --state quarantined` names them"))
    rows = await snapshot.store.read(NodesQuery())
    lacked = [names[job].name for job in sorted(lacked_by_all(rows, snapshot.now)) if not snapshot.is_removed(job)]
    if lacked:
        words = f"no node that runs has the code of {_named(lacked)}"
        advice = "start a node that declares it, or remove the job"
        found.append(CheckResult("jobs", Severity.WRONG, words, advice))
    count = len(snapshot.named())
    return found or [CheckResult("jobs", Severity.WELL, f"all {count:,} can be read" if count else "there are none")]


# -- waiting runs ----------------------------------------------------------------------------------------------------


async def waiting(snapshot: StoreSnapshot) -> list[CheckResult]:
    """Find runs that are due and have not started, and for how long."""
    rows = await snapshot.store.read(ActiveQuery(due_before=snapshot.now, limit=_ACTIVE_MAX))
    late = [row for row in rows if row.started_at is None and row.status in _WAITS]
    if not late:
        return [CheckResult("waiting", Severity.WELL, "nothing that is due waits")]
    more = " or more" if len(rows) == _ACTIVE_MAX else ""
    count = "1 occurrence is due and has" if len(late) == 1 else f"{len(late):,}{more} occurrences are due and have"
    waited = snapshot.now - late[0].due_at
    by_job = Counter(snapshot.timeline.jobs[row.job].name for row in late).most_common()
    most = _named([f"{job} ({many:,})" for job, many in by_job])
    words = f"{count} not begun, the first for {_for(waited)}: {most}"
    overdue = [row for row in late if row.status is not OccurrenceState.QUEUED and snapshot.now - row.due_at > _OVERDUE]
    if overdue:
        count = "1 run is" if len(overdue) == 1 else f"{len(overdue):,}{more} runs are"
        names = _named(sorted({snapshot.timeline.jobs[row.job].name for row in overdue}))
        words = f"{count} overdue, the first for {_for(snapshot.now - overdue[0].due_at)}: {names}"
        advice = "`itinerary explain JOB` says what it waits for; no node may run, or none may have a free slot"
        return [CheckResult("waiting", Severity.DOUBTFUL, words, advice)]
    if waited < _WAITED_FOR:
        return [CheckResult("waiting", Severity.WELL, words)]
    advice = "`itinerary show JOB` says why each waits: for its job's turn, a slot of a node, or a limit"
    return [CheckResult("waiting", Severity.DOUBTFUL, words, advice)]


async def overtime(snapshot: StoreSnapshot) -> list[CheckResult]:
    """Find runs past their timeout, and queue rows that wait for no run. A working reaper leaves neither."""
    over = await snapshot.store.read(OverdueQuery())
    found: list[CheckResult] = []
    if over.expired:
        names = _named(sorted({snapshot.timeline.jobs[row.job].name for row in over.expired}))
        is_one = len(over.expired) == 1
        count = "1 occurrence has" if is_one else f"{len(over.expired):,} occurrences have"
        words = f"{count} run too long, and nobody has ended {'it' if is_one else 'them'}: {names}"
        found.append(
            CheckResult("overtime", Severity.WRONG, words, "start a node: its reaper ends them and frees their jobs")
        )
    if over.stuck:
        names = _named(sorted({snapshot.timeline.jobs[row.job].name for row in over.stuck}))
        is_anybody = any(heard_of(row, snapshot.now) for row in await snapshot.store.read(NodesQuery()))
        level = Severity.DOUBTFUL if is_anybody else Severity.WRONG
        words = f"who stands in line for {names} waits for nobody who still runs"
        found.append(CheckResult("overtime", level, words, "a node that runs wakes them within half a minute"))
    return found or [CheckResult("overtime", Severity.WELL, "nothing runs longer than it may")]
