"""What a node shows to those who look at it from another thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from itinerary.core.timeline.timeline import Timeline
from itinerary.model.queries import Answer, Query
from itinerary.observe.health import Phase
from itinerary.observe.metrics import Gauges
from itinerary.observe.start_rate import Pulse

__all__ = ["Watched"]


class Watched(Protocol):
    """A node, from outside. Everything here may be called from any thread, and returns at once."""

    @property
    def phase(self) -> Phase:
        """How far it is."""

    def ask(self, answer: Callable[[], None]) -> bool:
        """Have the engine's loop call `answer`. False: there is no such loop, or not any more."""

    def timeline(self) -> Timeline | None:
        """As far as the node has read it."""

    def gauges(self) -> Gauges:
        """How it is."""

    @property
    def pulse(self) -> Pulse:
        """How many occurrences it starts, and how late."""

    def read(self, query: Query[Answer]) -> Future[Answer]:
        """Ask its store, through the engine's loop. Raises NodeError if there is none."""
