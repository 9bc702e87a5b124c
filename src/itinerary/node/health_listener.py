"""The health listener of a node: in its own thread, started before the node and stopped after it."""

from __future__ import annotations

from typing import Any

from itinerary.config.configuration import Configuration
from itinerary.executors.secrets import environment_secret
from itinerary.observe.counters import MetricCounters
from itinerary.observe.listen_address import ListenAt
from itinerary.observe.node_probe import NodeProbe

__all__ = ["NodeHealth"]


class NodeHealth:
    """The listener that publishes the metrics of a node."""

    def __init__(
        self, configuration: Configuration, at: ListenAt, watched: NodeProbe, tally: MetricCounters, log: Any
    ) -> None:
        from itinerary.observe.listener import HttpListener  # noqa: PLC0415 - aiohttp, which few nodes listen with

        settings, token = configuration.settings, configuration.health_token
        self._listener = HttpListener(
            at,
            watched,
            tally,
            store=configuration.store,
            heartbeat_interval=settings.node_heartbeat_interval,
            log=log,
            token=None if token is None else environment_secret(token),
        )

    @property
    def at(self) -> ListenAt:
        """The address of the listener."""
        return self._listener.at

    def start(self) -> ListenAt:
        """Start listening. Raises NodeError if the address cannot be used."""
        return self._listener.start()

    def stop(self) -> None:
        """Stop listening."""
        self._listener.stop()
