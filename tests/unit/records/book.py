"""A log of one partition in plain Python, for tests of what is decided from it: no store, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from itinerary.model.events import NewEvent
from itinerary.model.rows import EventRow
from itinerary.records.cycle import Backpressure, due_callbacks, due_pickups, due_verifications
from itinerary.records.event_types import acknowledged, produced, verified
from itinerary.records.projection import Projection
from itinerary.records.settings import DeskSettings

__all__ = ["Book"]


class Book:
    """Events, numbered; one cause makes one event, as in a store."""

    def __init__(self, settings: DeskSettings | None = None) -> None:
        self.settings = DeskSettings(enable_early_morning_skip=False) if settings is None else settings
        self.rows: list[EventRow] = []
        self.causes: dict[str, int] = {}
        self.known = Projection("here")
        self.pressure = Backpressure(self.settings)

    def add(self, events: Iterable[NewEvent], at: int = 0) -> list[NewEvent]:
        """Append events; returns those that were new."""
        new = []
        for event in events:
            if event.cause not in self.causes:
                number = self.causes[event.cause] = len(self.rows) + 1
                self.rows.append(EventRow("desk", "here", number, event.kind, event.record, at, event.data))
                new.append(event)
        return new

    def say(self, kind: str, record: str, key: str | None = None, **fields: Any) -> None:
        """What a producer says."""
        key = f"{len(self.rows)}" if key is None else key
        self.add([produced(kind, record, fields, key)])

    def read(self) -> Projection:
        """Fold what is new."""
        assert self.known.fold(self.rows[self.known.sequence :]) == []
        return self.known

    def replayed(self) -> Projection:
        """The same, from zero."""
        known = Projection("here")
        assert known.fold(self.rows) == []
        return known

    def cycle(self, now: int) -> list[NewEvent]:
        """All three cycles, once; what they emit."""
        emitted = self.add(due_pickups(self.read(), self.settings, self.pressure.room(self.known.queue_size)))
        room = self.pressure.room(self.read().queue_size)
        emitted += self.add(due_callbacks(self.read(), now, self.settings, room))
        emitted += self.add(due_verifications(self.read(), now))
        self.read()
        return emitted

    def work_off(self) -> None:
        """Handlers take everything that is in the queue, and are done with it; verifications as well."""
        self.add([acknowledged(batch) for batch in self.read().batches])
        self.add([verified(one.record, one.check_time, one.kind, "fine") for one in self.known.triggered])
        self.read()

    def kinds(self) -> list[tuple[str, str]]:
        """What was said of whom."""
        return [(row.kind, row.record) for row in self.rows]
