"""The line for a job's slot: who stands in it is served in the order of instants (X6), read from the audit trail."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from itinerary.model.policies import Overlap
from itinerary.model.rows import Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.simulate.checker.snapshot import Snapshot
from itinerary.simulate.violations import Rule, Violations
from itinerary.simulate.witness import frozen_config

__all__ = ["check_lines"]

_FOREVER = 2**62


class _Wait(NamedTuple):
    """A time `[since, until)` that an occurrence stood in line."""

    row: OccurrenceRow
    since: int
    until: int


def check_lines(snapshot: Snapshot, violations: Violations) -> None:
    """Nobody gets a slot while one with an earlier instant stands in line for it, and goes on standing there."""
    waits: defaultdict[int, list[_Wait]] = defaultdict(list)
    turns: defaultdict[int, list[tuple[int, OccurrenceRow]]] = defaultdict(list)
    for row in snapshot.occurrences.values():
        turn = _turn(snapshot, row, waits[row.job])
        if turn is not None and _queues(snapshot, row):
            turns[row.job].append((turn, row))
    for job, taken in turns.items():
        for at, row in taken:
            for wait in waits[job]:
                if wait.row.ref != row.ref and _before(wait.row.key, row.key) and wait.since < at < wait.until:
                    message = f"{snapshot.named(row)} was served while {snapshot.named(wait.row)} stood in line"
                    violations.add(Rule.LINE, message, at)


def _turn(snapshot: Snapshot, row: OccurrenceRow, waits: list[_Wait]) -> int | None:
    """When it was given the slot, if it was; each time that it stood in line is noted in `waits`."""
    since: int | None = None
    for line in snapshot.trail(row):
        if line.after is OccurrenceState.QUEUED:
            since = line.at
        elif since is not None:
            waits.append(_Wait(row, since, line.at))
            return line.at if line.after is OccurrenceState.PENDING else None
    if since is not None:
        waits.append(_Wait(row, since, _FOREVER))
    return row.started_at


def _queues(snapshot: Snapshot, row: OccurrenceRow) -> bool:
    body = row.own_config if row.config is None else snapshot.configs[row.config].body
    return body is not None and frozen_config(body).job.overlap is Overlap.QUEUE


def _before(one: Key, other: Key) -> bool:
    return one < other
