"""The parts of a node that other threads may read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from itinerary.core.timeline.timeline import Timeline
from itinerary.model.queries import Answer, Query
from itinerary.observe.health import NodePhase
from itinerary.observe.metrics import Gauges
from itinerary.observe.start_rate import StartRate

__all__ = ["NodeProbe"]


class NodeProbe(Protocol):
    """A node, seen from outside. All methods may be called from any thread and return at once."""

    @property
    def phase(self) -> NodePhase:
        """The phase of the node."""

    def ask(self, answer: Callable[[], None]) -> bool:
        """Schedule `answer` on the engine's loop. False if there is no running loop."""

    def timeline(self) -> Timeline | None:
        """Return the timeline as the node knows it."""

    def gauges(self) -> Gauges:
        """Return the current values of the node."""

    @property
    def pulse(self) -> StartRate:
        """The number of starts and their lateness."""

    def read(self, query: Query[Answer]) -> Future[Answer]:
        """Read the node's store through the engine's loop. Raise NodeError if there is no loop."""
