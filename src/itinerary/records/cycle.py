"""The decisions of a cycle: time, projection and settings go in, events come out (E4). Pure.

    pickup           new records                              ──► RecordQueued, in batches
    callbacks        records whose callback is due            ──► RecordQueued with the retry flag, in batches
    verifications    verifications that are due               ──► VerificationTriggered

Nothing is queued in quiet hours (E5) or while the queue is too long (E6). Records that are held back stay as they are,
and a later cycle finds them.

The name of a batch comes from its first record: the number of its creation event, or the time of its callback and that
number. So the same decision, made again, gives the batch the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Final, TypeVar, assert_never

from itinerary.model.events import NewEvent
from itinerary.records.event_types import callback_queued, first_queued, triggered
from itinerary.records.projection import Projection
from itinerary.records.settings import DeskSettings

__all__ = ["EVENTS_MAX", "Backpressure", "Cycle", "due_callbacks", "due_pickups", "due_verifications", "interval_of"]

T = TypeVar("T")

EVENTS_MAX: Final = 2_500
"""About how many events one pass decides for each cycle of a partition. The next pass follows at once.

Three times this number, and the rest of two batches, fit into one write. So a batch is always written whole.
"""


class Cycle(StrEnum):
    """The three cycles of a record scheduler."""

    PICKUP = "pickup"
    CALLBACKS = "callbacks"
    VERIFICATIONS = "verifications"


def interval_of(cycle: Cycle, settings: DeskSettings) -> int:
    """Return the interval between two instants of a cycle."""
    match cycle:
        case Cycle.PICKUP:
            return settings.schedule_interval
        case Cycle.CALLBACKS:
            return settings.callback_check_interval
        case Cycle.VERIFICATIONS:
            return settings.verification_check_interval
        case _:
            assert_never(cycle)


class Backpressure:
    """Backpressure: queueing pauses above `queue_high` records and resumes below `queue_low`."""

    def __init__(self, settings: DeskSettings) -> None:
        self._high, self._low = settings.queue_high, settings.queue_low
        self.is_paused = False

    def room(self, queue_size: int) -> int:
        """Return how many records may be queued now; 0 if queueing is paused."""
        if queue_size > self._high:
            self.is_paused = True
        elif queue_size < self._low:
            self.is_paused = False
        return 0 if self.is_paused else self._high - queue_size + 1


def due_pickups(known: Projection, settings: DeskSettings, room: int) -> list[NewEvent]:
    """Return events that queue new records, in whole batches.

    Args:
        known: The state of the partition.
        settings: The settings of the record scheduler.
        room: The number of records that may be queued. The last batch may exceed it by less than a batch.
    """
    events: list[NewEvent] = []
    for batch in _batches(known.new_records(), settings, room):
        name = f"{known.created_at(batch[0])}"
        events += [first_queued(record, name) for record in batch]
    return events


def due_callbacks(known: Projection, now: int, settings: DeskSettings, room: int) -> list[NewEvent]:
    """Return events that queue records whose callback is due, in whole batches.

    A record with several due callbacks is queued for the oldest. The next follows when that batch is acknowledged.
    """
    taken: dict[str, int] = {}
    oldest = (
        callback
        for callback in known.due_callbacks(now)
        if taken.setdefault(callback.record, callback.target_time) == callback.target_time
    )
    events: list[NewEvent] = []
    for batch in _batches(oldest, settings, room):
        name = f"{batch[0].target_time}:{known.created_at(batch[0].record)}"
        for target_time, record in batch:
            events.append(callback_queued(record, name, known.times_queued(record) + 1, target_time))
    return events


def due_verifications(known: Projection, now: int) -> list[NewEvent]:
    """Return events that trigger verifications that are due."""
    return [
        triggered(record, check_time, kind)
        for check_time, kind, record in islice(known.due_verifications(now), EVENTS_MAX)
    ]


def _batches(due: Iterable[T], settings: DeskSettings, room: int) -> Iterator[list[T]]:
    """Yield batches while there is room for at least one record. The last batch is whole and may exceed the room."""
    source, left = iter(due), min(room, EVENTS_MAX)
    while left > 0 and (batch := list(islice(source, settings.batch_size_max))):
        left -= len(batch)
        yield batch
