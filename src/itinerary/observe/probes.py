"""The three probes and the metrics of a node, for their publisher: the listener or the web server.

The publisher calls them on a thread other than the engine's, and must call `feel` once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from itinerary.errors import ItineraryError, StoreError
from itinerary.observe.counters import MetricCounters
from itinerary.observe.health import Health, LastAnswer, ProbeAnswer
from itinerary.observe.metrics import Gauges, NodeMetrics
from itinerary.observe.node_probe import NodeProbe
from itinerary.observe.store_status import StoreStatus, StoreStatusReader
from itinerary.stores.paging import StoreRead

__all__ = ["PROBES", "Probes"]

PROBES = ("live", "ready", "progress")
"""The names of the probes."""


class Probes:
    """The probes and metrics of one node. Used on one loop only."""

    def __init__(
        self,
        watched: NodeProbe,
        tally: MetricCounters,
        read: StoreRead,
        *,
        heartbeat_interval: int,
        time: Callable[[], float],
    ) -> None:
        """Create the probes.

        Args:
            watched: The node.
            tally: The counts of the node.
            read: Reads from the store, without the engine where possible.
            heartbeat_interval: The heartbeat interval of nodes in microseconds.
            time: Returns seconds from any fixed moment. May be called from any thread.
        """
        self._watched, self._tally = watched, tally
        self._lookout = StoreStatusReader(read, watched.timeline, heartbeat_interval)
        self._pulse = LastAnswer(watched, time)
        self._health = Health(
            watched, self._pulse, self._lookout, lambda: watched.gauges().behind, lambda: watched.gauges().stalled
        )
        self._metrics = NodeMetrics(tally, self)

    def feel(self) -> None:
        """Ask the engine's loop for a sign of life, and count the waiting events."""
        self._pulse.feel()
        self._tally.count()

    async def verdict(self, probe: str) -> ProbeAnswer:
        """Return the answer to a probe."""
        try:
            match probe:
                case "live":
                    return self._health.live()
                case "ready":
                    return await self._health.ready()
                case _:
                    return await self._health.progress()
        except ItineraryError as error:
            return ProbeAnswer(ok=False, why=str(error))

    async def metrics(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        try:
            await self._lookout.look()
        except StoreError:
            self._lookout.last = None  # the old status is no longer valid; its metrics are left out
        return await asyncio.to_thread(self._metrics.text)

    async def close(self) -> None:
        """Stop reading the store."""
        await self._lookout.close()

    # -- values that are published and not counted ---------------------------------------------------------------------

    def gauges(self) -> Gauges:
        """Return the current values of the node."""
        return self._watched.gauges()

    def seen(self) -> StoreStatus | None:
        """Return the last known status of the store."""
        return self._lookout.last
