"""Every owed instant is decided exactly once: by a row of its own, or inside one window (U6).

Two ways lead to the same answer, and must agree. *By name*: the key of a row says which instant it stands for. *By
time*: what started is matched with what was due, earliest deadline first, without looking at any name. A row that
carries the wrong name is caught by the second, a missing or doubled one by the first.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from itinerary.model.rows import OccurrenceRow, Ref
from itinerary.simulate.checker.snapshot import Snapshot
from itinerary.simulate.violations import Rule, Violations

__all__ = ["check_instants", "match"]


def check_instants(snapshot: Snapshot, owed: Mapping[str, Sequence[int]], until: int, violations: Violations) -> None:
    """`owed` are the instants of each job, in order, that must be decided; rows for others must not be there.

    Rows at or after `until` are too young to say anything about.
    """
    by_job: defaultdict[str, list[OccurrenceRow]] = defaultdict(list)
    for row in snapshot.occurrences.values():
        if row.kind.is_by_schedule and row.instant < until:
            by_job[snapshot.jobs[row.job].name].append(row)
    for name in [*owed, *(name for name in by_job if name not in owed)]:
        _check_job(snapshot, name, list(owed.get(name, ())), by_job[name], violations)


def _check_job(
    snapshot: Snapshot, name: str, owed: list[int], rows: list[OccurrenceRow], violations: Violations
) -> None:
    single: defaultdict[int, list[Ref]] = defaultdict(list)
    windows = [row for row in rows if row.window is not None]
    for row in rows:
        if row.window is None:
            single[row.instant].append(row.ref)
    decided: defaultdict[int, list[Ref]] = defaultdict(list, {at: list(refs) for at, refs in single.items()})
    for row in windows:
        _check_window(snapshot, row, owed, decided, violations)
    expected = set(owed)
    for instant in owed:
        refs = decided.get(instant, [])
        if not refs:
            violations.add(Rule.OWED, f"{name}:{instant // 1_000_000} is lost: nothing was decided about it", instant)
        elif len(refs) > 1:
            message = f"{name}:{instant // 1_000_000} is decided {len(refs)} times: occurrences {refs}"
            violations.add(Rule.OWED, message, instant)
    for instant, refs in single.items():
        if instant not in expected:
            message = f"{name}:{instant // 1_000_000} has occurrence {refs[0]}, and its schedule has no such instant"
            violations.add(Rule.OWED, message, instant)


def _check_window(
    snapshot: Snapshot,
    row: OccurrenceRow,
    owed: list[int],
    decided: defaultdict[int, list[Ref]],
    violations: Violations,
) -> None:
    window = row.window
    assert window is not None, "only rows with a window come here"
    inside = owed[bisect_left(owed, window.start) : bisect_left(owed, window.end)]
    for instant in inside:
        decided[instant].append(row.ref)
    if len(inside) != window.count:
        message = (
            f"{snapshot.named(row)} says that its window holds {window.count} instants, and it holds {len(inside)}"
        )
        violations.add(Rule.OWED, message, row.instant)


def match(due: Sequence[tuple[int, int]], started: Sequence[int]) -> tuple[list[int | None], list[int]]:
    """Match starts with windows `(from, until)`, earliest deadline first.

    Returns, for each window, the number of its start or None, and the starts that no window is open for. If any
    matching serves all windows, this one does.
    """
    order = sorted(range(len(due)), key=lambda number: due[number][0])
    served: list[int | None] = [None] * len(due)
    spare: list[int] = []
    open_windows: list[tuple[int, int]] = []
    upcoming = 0
    for start in sorted(range(len(started)), key=lambda number: started[number]):
        at = started[start]
        while upcoming < len(order) and due[order[upcoming]][0] <= at:
            heapq.heappush(open_windows, (due[order[upcoming]][1], order[upcoming]))
            upcoming += 1
        while open_windows and open_windows[0][0] < at:
            heapq.heappop(open_windows)
        if open_windows:
            served[heapq.heappop(open_windows)[1]] = start
        else:
            spare.append(start)
    return served, spare
