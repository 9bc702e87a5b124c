"""What a cycle does: `now`, what is known and the settings go in, events come out (E4). Pure.

    pickup           records that are new                     ──► RecordQueued, in batches
    callbacks        records whose callback is due            ──► RecordQueued with the retry flag, in batches
    verifications    verifications that are due               ──► VerificationTriggered

Nothing is queued in quiet hours (E5), nor while the queue is too long (E6); what is held back for either reason waits
where it is, and the next cycle finds it there.

A batch is named by the event that its first record is in it for: the number of its creation, or its callback's time and
name. So whoever decides the same thing again names it the same.
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

__all__ = ["EVENTS_MAX", "Cycle", "Pressure", "due_callbacks", "due_pickups", "due_verifications", "interval_of"]

T = TypeVar("T")

EVENTS_MAX: Final = 2_500
"""About how many events of a kind are decided about at once, of one partition; what is left is decided about right
after. Three kinds of so many, two of them with the rest of a batch, fit into one write: a batch is written whole."""


class Cycle(StrEnum):
    """The three cycles of a desk."""

    PICKUP = "pickup"
    CALLBACKS = "callbacks"
    VERIFICATIONS = "verifications"


def interval_of(cycle: Cycle, settings: DeskSettings) -> int:
    """From one instant of a cycle to the next."""
    match cycle:
        case Cycle.PICKUP:
            return settings.schedule_interval
        case Cycle.CALLBACKS:
            return settings.callback_check_interval
        case Cycle.VERIFICATIONS:
            return settings.verification_check_interval
        case _:
            assert_never(cycle)


class Pressure:
    """Whether the queue is too long: above `queue_high` it is, and stays so until there are fewer than `queue_low`."""

    def __init__(self, settings: DeskSettings) -> None:
        self._high, self._low = settings.queue_high, settings.queue_low
        self.is_paused = False

    def room(self, queue_size: int) -> int:
        """How many records may be queued now, before the queue is too long; 0: it is."""
        if queue_size > self._high:
            self.is_paused = True
        elif queue_size < self._low:
            self.is_paused = False
        return 0 if self.is_paused else self._high - queue_size + 1


def due_pickups(known: Projection, settings: DeskSettings, room: int) -> list[NewEvent]:
    """New records, as many as there is room for and a batch at a time: the last may go over by less than a batch."""
    events: list[NewEvent] = []
    for batch in _batches(known.new_records(), settings, room):
        name = f"{known.created_at(batch[0])}"
        events += [first_queued(record, name) for record in batch]
    return events


def due_callbacks(known: Projection, now: int, settings: DeskSettings, room: int) -> list[NewEvent]:
    """Records whose callback is due, as many as there is room for. One that has several due is queued for the oldest,
    and again when that is done with."""
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
    """Verifications that are due and have not gone to their handler."""
    return [
        triggered(record, check_time, kind)
        for check_time, kind, record in islice(known.due_verifications(now), EVENTS_MAX)
    ]


def _batches(due: Iterable[T], settings: DeskSettings, room: int) -> Iterator[list[T]]:
    """Batches, as long as there is room for the first of one. The last is whole, so it may go over."""
    source, left = iter(due), min(room, EVENTS_MAX)
    while left > 0 and (batch := list(islice(source, settings.batch_size_max))):
        left -= len(batch)
        yield batch
