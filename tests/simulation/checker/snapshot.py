"""The rows of a store at one moment, in the form that the checks need."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from itinerary.model.audit_trail import all_attempts, whole_trail
from itinerary.model.rows import (
    AttemptRow,
    ConfigRow,
    JobNumber,
    JobRow,
    MailRow,
    NodeNumber,
    NodeRow,
    OccurrenceRow,
    OverlapSlotRow,
    Ref,
    ShareRow,
    SweepRow,
    TaskRow,
    TransitionRow,
)
from itinerary.stores import tables
from itinerary.stores.transaction import Transaction

__all__ = ["Snapshot"]

_ALL_OF_THEM: Final = 10_000_000


class Snapshot:
    """The rows for the checks. `engine.read(Snapshot)` takes a snapshot."""

    def __init__(self, tx: Transaction) -> None:
        self.now = tx.now()
        self.jobs: dict[JobNumber, JobRow] = {row.number: row for row in tx.scan(tables.JOBS, limit=_ALL_OF_THEM)}
        self.nodes: dict[NodeNumber, NodeRow] = {row.number: row for row in tx.scan(tables.NODES, limit=_ALL_OF_THEM)}
        self.occurrences: dict[Ref, OccurrenceRow] = {
            row.ref: row for row in tx.scan(tables.OCCURRENCES, limit=_ALL_OF_THEM)
        }
        self.tasks: defaultdict[Ref, list[TaskRow]] = defaultdict(list)
        for task in tx.scan(tables.TASKS, limit=_ALL_OF_THEM):
            self.tasks[task.ref].append(task)
        self.trails: defaultdict[Ref, list[TransitionRow]] = defaultdict(list)
        for line in tx.scan(tables.TRANSITIONS, limit=_ALL_OF_THEM):
            self.trails[line.ref].append(line)
        kept: defaultdict[Ref, list[AttemptRow]] = defaultdict(list)
        for attempt in tx.scan(tables.ATTEMPTS, limit=_ALL_OF_THEM):
            kept[attempt.ref].append(attempt)
        self.attempts: dict[Ref, tuple[AttemptRow, ...]] = {
            ref: all_attempts(row, self.trails.get(ref, []), kept.get(ref, [])) for ref, row in self.occurrences.items()
        }
        self.configs: dict[int, ConfigRow] = {row.number: row for row in tx.scan(tables.CONFIGS, limit=_ALL_OF_THEM)}
        self.slots: dict[JobNumber, OverlapSlotRow] = {
            row.job: row for row in tx.scan(tables.OVERLAP_SLOTS, limit=_ALL_OF_THEM)
        }
        self.shares: list[ShareRow] = tx.scan(tables.SHARES, limit=_ALL_OF_THEM)
        self.mail: list[MailRow] = tx.scan(tables.MAIL, limit=_ALL_OF_THEM)
        self.sweep: SweepRow | None = next(iter(tx.scan(tables.SWEEP, limit=1)), None)

    def trail(self, row: OccurrenceRow) -> tuple[TransitionRow, ...]:
        """Return the audit trail of an occurrence, with the transitions that its row implies."""
        return whole_trail(row, self.trails.get(row.ref, []))

    def named(self, row: OccurrenceRow) -> str:
        """Return the name of an occurrence in messages."""
        job = self.jobs[row.job].name if row.job in self.jobs else f"job {row.job}"
        return f"{job}:{row.instant // 1_000_000} ({row.kind}, occurrence {row.ref})"
