"""The three probes and the metrics of a node, for whoever publishes them: the listener, or the web server.

They are asked on a thread that is not the engine's. Somebody has to feel the pulse once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from itinerary.errors import ItineraryError, StoreError
from itinerary.observe.counters import Tally
from itinerary.observe.health import Health, Pulse, Verdict
from itinerary.observe.metrics import Gauges, NodeMetrics
from itinerary.observe.node_probe import Watched
from itinerary.observe.store_status import Lookout, Seen
from itinerary.stores.paging import Read

__all__ = ["PROBES", "Probes"]

PROBES = ("live", "ready", "progress")
"""What can be asked."""


class Probes:
    """What is known of one node from outside. Used on one loop only."""

    def __init__(
        self, watched: Watched, tally: Tally, read: Read, *, heartbeat_interval: int, time: Callable[[], float]
    ) -> None:
        """`read` asks the store past the engine, where that can be; `time` is in seconds, and may be read anywhere."""
        self._watched, self._tally = watched, tally
        self._lookout = Lookout(read, watched.timeline, heartbeat_interval)
        self._pulse = Pulse(watched, time)
        self._health = Health(
            watched, self._pulse, self._lookout, lambda: watched.gauges().behind, lambda: watched.gauges().stalled
        )
        self._metrics = NodeMetrics(tally, self)

    def feel(self) -> None:
        """Ask the engine's loop whether it is there, and count what it has told."""
        self._pulse.feel()
        self._tally.count()

    async def verdict(self, probe: str) -> Verdict:
        """The answer to one of the three."""
        try:
            match probe:
                case "live":
                    return self._health.live()
                case "ready":
                    return await self._health.ready()
                case _:
                    return await self._health.progress()
        except ItineraryError as error:
            return Verdict(ok=False, why=str(error))

    async def metrics(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        try:
            await self._lookout.look()
        except StoreError:
            self._lookout.last = None  # what it said before is not so any more: these metrics are missing then
        return await asyncio.to_thread(self._metrics.text)

    async def close(self) -> None:
        """Look no more."""
        await self._lookout.close()

    # -- what is published and not counted -----------------------------------------------------------------------------

    def gauges(self) -> Gauges:
        """How the node is."""
        return self._watched.gauges()

    def seen(self) -> Seen | None:
        """How the store was, last."""
        return self._lookout.last
