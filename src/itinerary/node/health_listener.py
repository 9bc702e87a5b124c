"""The listener of a node, as its app starts it: on a thread of its own, before the engine, and until that has ended."""

from __future__ import annotations

from typing import Any

from itinerary.config.configuration import Configuration
from itinerary.executors.secrets import environment_secret
from itinerary.observe.counters import Tally
from itinerary.observe.listen_address import ListenAt
from itinerary.observe.listener import Listener
from itinerary.observe.node_probe import Watched

__all__ = ["NodeHealth"]


class NodeHealth:
    """The listener that publishes what is counted of a node."""

    def __init__(self, configuration: Configuration, at: ListenAt, watched: Watched, tally: Tally, log: Any) -> None:
        settings, token = configuration.settings, configuration.health_token
        self._listener = Listener(
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
        """Where it listens."""
        return self._listener.at

    def start(self) -> ListenAt:
        """Begin to listen. Raises NodeError if that cannot be."""
        return self._listener.start()

    def stop(self) -> None:
        """Listen no more."""
        self._listener.stop()
