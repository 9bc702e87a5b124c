"""The rules for records at every commit and at the end: the log, the leases, and the batches of the handlers.

At each commit: a lease gets a new holder only if it is free or has expired, and with a higher fence. A record scheduler
appends events only under the partition's current lease. Events are numbered without gaps, and never change.

At the end: the log has each producer's event once. Each record was queued the right number of times, each batch was
acknowledged, and each verification has a result. Handlers received exactly the batches that the log has as picked up,
each attempt once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from itinerary.model.rows import EventRow, PartitionRow
from itinerary.records.event_types import (
    BatchAcknowledged,
    RecordPickedUp,
    RecordQueued,
    VerificationCompleted,
    VerificationTriggered,
    read_fields,
)
from itinerary.stores.tables import EVENTS, PARTITIONS
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.backend import Backend, Commit
from tests.simulation.world.records import DESK, Handled, HandlerEnd, ProducedEvent
from tests.simulation.world.store import Appending

__all__ = ["LogWitness", "check_records", "is_done"]


class LogWitness:
    """A checker of every commit to the log of records."""

    def __init__(self, backend: Backend, violations: Violations) -> None:
        self._backend, self._violations = backend, violations
        self._last: defaultdict[str, int] = defaultdict(int)

    def see(self, commit: Commit) -> None:
        """Check a commit directly after it is made."""
        for before, after in commit.changed(PARTITIONS):
            self._lease(commit.at, before, after)
        appended = commit.changed(EVENTS)
        if appended:
            self._numbers(commit.at, appended)
            if isinstance(commit.request, Appending):
                self._under_lease(commit.at, commit.request)

    def _lease(self, at: int, before: PartitionRow | None, after: PartitionRow) -> None:
        held = 0 if before is None else before.fence
        holder = None if before is None else before.holder
        name = f"partition {after.partition} of {after.stream}"
        if after.fence < held:
            self._add(f"{name}: fence {held} became {after.fence}", at)
        if after.holder is None:
            return
        has_run_out = before is None or holder is None or before.lease_until <= at
        if holder not in (None, after.holder) and not has_run_out:
            self._add(f"{name} was taken from node {holder}, whose lease had not run out", at)
        if has_run_out and after.fence == held:
            self._add(f"{name} went from node {holder} to node {after.holder} under the same fence {held}", at)

    def _numbers(self, at: int, appended: Sequence[tuple[EventRow | None, EventRow]]) -> None:
        for before, after in sorted(appended, key=lambda pair: pair[1].sequence):
            if before is not None:
                self._violations.add(Rule.LOG, f"event {after.sequence} of {after.stream} was changed", at)
            elif after.sequence != self._last[after.stream] + 1:
                message = f"event {after.sequence} of {after.stream} came after {self._last[after.stream]}"
                self._violations.add(Rule.LOG, message, at)
            self._last[after.stream] = max(self._last[after.stream], after.sequence)

    def _under_lease(self, at: int, request: Appending) -> None:
        lease = request.lease
        row = self._backend.rows(PARTITIONS)[request.stream, lease.partition]
        if (row.holder, row.fence) != (lease.holder, lease.fence):
            self._violations.add(
                Rule.STALE_APPEND,
                f"node {lease.holder} appended to partition {lease.partition} under fence {lease.fence}; node "
                f"{row.holder} has it under fence {row.fence}",
                at,
            )

    def _add(self, message: str, at: int) -> None:
        self._violations.add(Rule.LEASE, message, at)


class _Log:
    """The events of the log, by kind."""

    def __init__(self, rows: Iterable[EventRow]) -> None:
        self.said: Counter[tuple[str, str, str | None]] = Counter()
        self.completed: set[str] = set()
        self.queued: defaultdict[str, list[RecordQueued]] = defaultdict(list)
        self.picked_up: defaultdict[tuple[str, str, int], set[str]] = defaultdict(set)
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        self.batches: set[tuple[str, str]] = set()
        self.verified: set[tuple[str, int]] = set()
        for row in rows:
            said = read_fields(row)
            match said:
                case RecordQueued(batch):
                    self.queued[row.record].append(said)
                    self.batches.add((row.partition, batch))
                case RecordPickedUp(batch, attempt):
                    self.picked_up[row.partition, batch, attempt].add(row.record)
                case BatchAcknowledged(batch):
                    self.acknowledged[row.partition, batch] += 1
                case VerificationCompleted(check_time):
                    self.verified.add((row.record, check_time))
                case VerificationTriggered():
                    pass  # the verification is in progress
                case _:
                    self.said[row.kind, row.record, row.data] += 1
                    if row.kind == "RecordCompleted":
                        self.completed.add(row.record)

    def missing(self, said: Sequence[ProducedEvent]) -> list[str]:
        """Return a message for each unfinished record, verification or batch."""
        found: list[str] = []
        callbacks = Counter(one.record for one in said if one.kind == "CallbackScheduled")
        for one in said:
            if one.record in self.completed:
                continue
            if one.kind == "RecordCreated" and len(self.queued[one.record]) != 1 + callbacks[one.record]:
                times, wanted = len(self.queued[one.record]), 1 + callbacks[one.record]
                found.append(f"record {one.record} was queued {times} times, and should have been {wanted} times")
            if one.kind == "VerificationScheduled" and (one.record, one.fields["check_time"]) not in self.verified:
                found.append(f"record {one.record} was not verified")
        found += [f"batch {batch} of {partition} was not acknowledged" for partition, batch in self._open()]
        return found

    def _open(self) -> list[tuple[str, str]]:
        return sorted(self.batches - self.acknowledged.keys())


def _log(backend: Backend) -> _Log:
    return _Log(row for row in backend.rows(EVENTS).values() if row.stream == DESK)


def is_done(backend: Backend, said: Sequence[ProducedEvent]) -> bool:
    """True if all records have been queued, handled and verified."""
    return not _log(backend).missing(said)


def check_records(
    backend: Backend, said: Sequence[ProducedEvent], handled: Sequence[Handled], violations: Violations
) -> None:
    """Compare the log with the producers' events and with the handlers' batches."""
    log = _log(backend)
    for message in log.missing(said):
        violations.add(Rule.PICKED_UP, message)
    expected = len({one.key for one in said})
    if log.said.total() != expected:
        violations.add(Rule.LOG, f"producers said {expected} things, and {log.said.total()} stand in the log")
    for record, queued in log.queued.items():
        times = Counter(one.target_time for one in queued)
        violations_of = [target for target, count in times.items() if count > 1]
        for target in violations_of:
            violations.add(Rule.PICKED_UP, f"record {record} was queued {times[target]} times for {target}")
    _check_handlers(log, handled, violations)


def _check_handlers(log: _Log, handled: Sequence[Handled], violations: Violations) -> None:
    given: Mapping[tuple[str, str, int], list[Handled]] = _by_attempt(handled)
    for (partition, batch, attempt), calls in given.items():
        name = f"batch {batch} of {partition}, attempt {attempt},"
        if len(calls) > 1:
            where = ", ".join(call.process.incarnation for call in calls)
            violations.add(Rule.PICKED_UP, f"{name} was handled {len(calls)} times: on {where}", calls[1].began_at)
        records = {record for record, _ in calls[0].records}
        if not records <= log.picked_up[partition, batch, attempt]:
            violations.add(Rule.PICKED_UP, f"{name} was handled, and not picked up", calls[0].began_at)
    done = {(call.partition, call.batch) for call in handled if call.ending is HandlerEnd.RETURNED}
    attempted = {(partition, batch) for partition, batch, _ in log.picked_up}
    for partition, batch in sorted((log.acknowledged.keys() & attempted) - done):
        if not _is_emptied(log, partition, batch):
            violations.add(Rule.PICKED_UP, f"batch {batch} of {partition} is acknowledged, and no handler finished it")


def _is_emptied(log: _Log, partition: str, batch: str) -> bool:
    """True if producers completed all picked-up records of a batch, so a handler may have none left."""
    records = {
        record
        for (where, which, _), some in log.picked_up.items()
        if (where, which) == (partition, batch)
        for record in some
    }
    return records <= log.completed


def _by_attempt(handled: Sequence[Handled]) -> dict[tuple[str, str, int], list[Handled]]:
    found: defaultdict[tuple[str, str, int], list[Handled]] = defaultdict(list)
    for call in handled:
        found[call.partition, call.batch, call.attempt].append(call)
    return dict(found)
