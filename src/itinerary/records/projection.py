"""The state of one partition, computed from its events (E1): a pure fold.

    events ──► fold ──► new records · callbacks with their times · verifications · the queue

Only events and the passing of time change the state. The same log, folded again from any point, gives the same state;
`advance` only moves entries from "later" to "due". So a node that takes a partition over knows what its predecessor
knew. A node that crashed between two writes sees which of them was made.

**Duplicates and disorder.** The name identifies a record: created twice, it is queued once. Record and time identify a
callback; a verification also has its kind. Callbacks and verifications may precede the creation of their record, and
wait for it. A completed record takes no part, regardless of other events before or after. Events of the record
scheduler follow the events that they are about, since the log is in commit order.

**Memory.** An idle record is one number: its flags, how often it was queued, and the number of the event with its data.
The data stays in the log until a handler needs it. The cost of a cycle depends on the new and due entries, not on the
number of records.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from itinerary.errors import RecordError
from itinerary.model.rows import EventRow
from itinerary.records.event_types import (
    BatchAcknowledged,
    CallbackScheduled,
    RecordPickedUp,
    RecordQueued,
    VerificationCompleted,
    VerificationScheduled,
    VerificationTriggered,
    read_fields,
)

__all__ = ["Callback", "OpenBatch", "Projection", "Verification"]

_CREATED, _QUEUED, _COMPLETED = 1, 2, 4
_FLAGS: Final = 3
_TIMES: Final = 20
"""The bits of a record's number: three flags, then how often it was queued, then the number of its first event."""
_TIMES_MASK: Final = (1 << _TIMES) - 1
_WAITS, _IN_HAND, _HAS_BEEN = 0, 1, 2
"""The status of a callback or a verification."""
_DONE: Final = _COMPLETED
"""The value of a completed record. Nothing else is kept."""


class Callback(NamedTuple):
    """A request to queue a record again at a time."""

    target_time: int
    record: str


class Verification(NamedTuple):
    """A request to verify a record at a time."""

    check_time: int
    kind: str
    record: str


class OpenBatch:
    """A batch that is not acknowledged."""

    __slots__ = ("attempts", "id", "records")

    def __init__(self, name: str) -> None:
        self.id = name
        self.records: dict[str, RecordQueued] = {}
        """The records of the batch that are not completed."""
        self.attempts = 0
        """The number of deliveries to handlers."""


class Projection:
    """The state of one partition."""

    def __init__(self, partition: str) -> None:
        self.partition = partition
        self.sequence = 0
        """The number of the last event that was folded."""
        self.batches: dict[str, OpenBatch] = {}
        """The batches in the queue, in the order of arrival."""
        self.queue_size = 0
        """The number of records in the queue."""
        self.new_backlog = 0
        """The number of records that were created and not queued."""
        self.callback_backlog = 0
        """The number of waiting callbacks, due or not. `verification_backlog` counts verifications without a result."""
        self.verification_backlog = 0
        self.triggered: dict[Verification, None] = {}
        """Verifications that went to their handlers and have no result."""
        self.arrived: list[str | Verification] = []
        """Batches and verifications that arrived for handlers. The delivery removes them from here."""
        self._records: dict[str, int] = {}
        self._new: deque[str] = deque()
        self._batch_of: dict[str, str] = {}
        """The batch of each record in the queue."""
        self._callbacks: dict[str, dict[int, int]] = {}
        """The callbacks of each record that has any, with their status."""
        self._later_callbacks: list[Callback] = []
        self._due_callbacks: OrderedDict[Callback, None] = OrderedDict()
        self._parked: dict[str, list[Callback | Verification]] = {}
        """Due entries that wait for their record: to be created, or to leave the queue."""
        self._verifications: dict[str, dict[tuple[int, str], int]] = {}
        self._later_verifications: list[Verification] = []
        self._due_verifications: OrderedDict[Verification, None] = OrderedDict()
        self._folds: Final[dict[str, Callable[[EventRow], None]]] = {
            "RecordCreated": self._created,
            "RecordCompleted": self._completed,
            "CallbackScheduled": self._callback_scheduled,
            "VerificationScheduled": self._verification_scheduled,
            "RecordQueued": self._queued,
            "RecordPickedUp": self._picked_up,
            "BatchAcknowledged": self._acknowledged,
            "VerificationTriggered": self._triggered,
            "VerificationCompleted": self._verified,
        }

    def __len__(self) -> int:
        """Return the number of records that the log has ever named."""
        return len(self._records)

    # -- the state ---------------------------------------------------------------------------------------------------

    def is_completed(self, record: str) -> bool:
        """True if a record is completed."""
        return bool(self._records.get(record, 0) & _COMPLETED)

    def created_at(self, record: str) -> int:
        """Return the number of the event that created a record; 0 if unknown."""
        return self._records.get(record, 0) >> (_FLAGS + _TIMES)

    def times_queued(self, record: str) -> int:
        """Return how often a record was queued; 0 once it is completed."""
        return self._records.get(record, 0) >> _FLAGS & _TIMES_MASK

    def new_records(self) -> Iterator[str]:
        """Return the records to be queued for the first time, the oldest first."""
        records = self._records
        while self._new and not self._is_new(self._new[0]):
            self._new.popleft()
        return (record for record in self._new if records[record] & (_QUEUED | _COMPLETED) == 0)

    def due_callbacks(self, now: int) -> Iterator[Callback]:
        """Return the due callbacks whose record is not in the queue, the longest due first."""
        self.advance(now)
        return iter(self._due_callbacks)

    def due_verifications(self, now: int) -> Iterator[Verification]:
        """Return the due verifications whose record exists and that are not triggered, the longest due first."""
        self.advance(now)
        return iter(self._due_verifications)

    def advance(self, now: int) -> None:
        """Mark everything due up to `now`. An earlier `now` changes nothing."""
        later = self._later_callbacks
        while later and later[0].target_time <= now:
            callback = heapq.heappop(later)
            if self._callbacks.get(callback.record, {}).get(callback.target_time) == _WAITS:
                self._due(callback)
        waiting = self._later_verifications
        while waiting and waiting[0].check_time <= now:
            one = heapq.heappop(waiting)
            if self._verifications.get(one.record, {}).get((one.check_time, one.kind)) == _WAITS:
                self._due(one)

    def _due(self, what: Callback | Verification) -> None:
        """Mark an entry as due, or park it until its record is ready."""
        if isinstance(what, Callback) and self._can_be_queued_again(what.record):
            self._due_callbacks[what] = None
        elif isinstance(what, Verification) and self._records.get(what.record, 0) & _CREATED:
            self._due_verifications[what] = None
        else:
            self._parked.setdefault(what.record, []).append(what)

    def _unpark(self, record: str) -> None:
        """Check the parked entries of a record again after its state changed."""
        for what in self._parked.pop(record, ()):
            self._due(what)

    def _is_new(self, record: str) -> bool:
        return self._records[record] & (_QUEUED | _COMPLETED) == 0

    def _can_be_queued_again(self, record: str) -> bool:
        return bool(self._records.get(record, 0) & _QUEUED) and record not in self._batch_of

    # -- folding -----------------------------------------------------------------------------------------------------

    def fold(self, rows: Iterable[EventRow]) -> list[RecordError]:
        """Fold events in the order of their numbers. Events that were folded before have no effect.

        Returns:
            The errors of unreadable events, which are skipped.
        """
        unread: list[RecordError] = []
        for row in rows:
            if row.sequence <= self.sequence:
                continue
            self.sequence = row.sequence
            fold = self._folds.get(row.kind)
            if fold is None:
                continue
            try:
                fold(row)
            except RecordError as error:
                unread.append(error)
        return unread

    def _created(self, row: EventRow) -> None:
        state = self._records.get(row.record, 0)
        if state & (_CREATED | _COMPLETED):
            return
        self._records[row.record] = state | _CREATED | row.sequence << (_FLAGS + _TIMES)
        self._new.append(row.record)
        self.new_backlog += 1
        self._unpark(row.record)

    def _completed(self, row: EventRow) -> None:
        record, state = row.record, self._records.get(row.record, 0)
        if state & _COMPLETED:
            return
        self._records[record] = _DONE
        self._parked.pop(record, None)
        if state & _CREATED and not state & _QUEUED:
            self.new_backlog -= 1
        batch = self._batch_of.pop(record, None)
        if batch is not None:
            del self.batches[batch].records[record]
            self.queue_size -= 1
        for target_time, standing in self._callbacks.pop(record, {}).items():
            if standing == _WAITS:
                self.callback_backlog -= 1
                self._due_callbacks.pop(Callback(target_time, record), None)
        for (check_time, kind), standing in self._verifications.pop(record, {}).items():
            if standing != _HAS_BEEN:
                self._drop_verification(Verification(check_time, kind, record))

    def _callback_scheduled(self, row: EventRow) -> None:
        said: CallbackScheduled = read_fields(row)
        if self.is_completed(row.record):
            return
        callbacks = self._callbacks.setdefault(row.record, {})
        if said.target_time not in callbacks:
            callbacks[said.target_time] = _WAITS
            heapq.heappush(self._later_callbacks, Callback(said.target_time, row.record))
            self.callback_backlog += 1

    def _verification_scheduled(self, row: EventRow) -> None:
        said: VerificationScheduled = read_fields(row)
        if self.is_completed(row.record):
            return
        verifications = self._verifications.setdefault(row.record, {})
        key = said.check_time, said.verification
        if key not in verifications:
            verifications[key] = _WAITS
            heapq.heappush(self._later_verifications, Verification(*key, row.record))
            self.verification_backlog += 1

    def _queued(self, row: EventRow) -> None:
        said: RecordQueued = read_fields(row)
        record, state = row.record, self._records.get(row.record, 0)
        batch = self.batches.get(said.batch)
        if batch is None:
            batch = self.batches[said.batch] = OpenBatch(said.batch)
            self.arrived.append(said.batch)
        if state & _COMPLETED:
            return  # the batch exists nevertheless and must be acknowledged
        if not state & _QUEUED:
            self.new_backlog -= bool(state & _CREATED)
        self._records[record] = (state | _QUEUED) + (1 << _FLAGS)
        if said.target_time is not None:
            self._callback_has_been(Callback(said.target_time, record))
        assert record not in self._batch_of, "a record that is in the queue is not queued"
        batch.records[record] = said
        self._batch_of[record] = said.batch
        self.queue_size += 1
        for target_time in self._callbacks.get(record, ()):
            callback = Callback(target_time, record)
            if callback in self._due_callbacks:  # it waits until this batch is acknowledged
                del self._due_callbacks[callback]
                self._parked.setdefault(record, []).append(callback)

    def _callback_has_been(self, callback: Callback) -> None:
        callbacks = self._callbacks.setdefault(callback.record, {})
        if callbacks.get(callback.target_time) == _WAITS:
            self.callback_backlog -= 1
        callbacks[callback.target_time] = _HAS_BEEN
        self._due_callbacks.pop(callback, None)

    def _picked_up(self, row: EventRow) -> None:
        said: RecordPickedUp = read_fields(row)
        batch = self.batches.get(said.batch)
        if batch is not None:
            batch.attempts = max(batch.attempts, said.attempt)

    def _acknowledged(self, row: EventRow) -> None:
        said: BatchAcknowledged = read_fields(row)
        batch = self.batches.pop(said.batch, None)
        if batch is not None:
            for record in batch.records:
                del self._batch_of[record]
                self._unpark(record)
            self.queue_size -= len(batch.records)

    def _triggered(self, row: EventRow) -> None:
        said: VerificationTriggered = read_fields(row)
        known = self._verifications.get(row.record, {})
        key = said.check_time, said.verification
        if known.get(key) == _WAITS:
            known[key] = _IN_HAND
            one = Verification(*key, row.record)
            self._due_verifications.pop(one, None)
            self.triggered[one] = None
            self.arrived.append(one)

    def _verified(self, row: EventRow) -> None:
        said: VerificationCompleted = read_fields(row)
        known = self._verifications.get(row.record, {})
        key = said.check_time, said.verification
        if known.get(key, _HAS_BEEN) != _HAS_BEEN:
            known[key] = _HAS_BEEN  # the entry stays known, so that a duplicate has no effect
            self._drop_verification(Verification(*key, row.record))

    def _drop_verification(self, one: Verification) -> None:
        self.verification_backlog -= 1
        self._due_verifications.pop(one, None)
        self.triggered.pop(one, None)
