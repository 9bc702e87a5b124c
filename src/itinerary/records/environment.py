"""The environment of a record scheduler on a node: everything that it takes from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Settings
from itinerary.ports import Clock, Store

__all__ = ["RecordsEnvironment"]

_SLOW_AFTER: Final = Settings().node_heartbeat_interval


class RecordsEnvironment:
    """The store, the node, its clock, and the way to call a function of the program."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        clock: Clock,
        log: Any,
        *,
        call: Callable[[Callable[[Any], Any], Any], Awaitable[Any]],
        slow_after: int = _SLOW_AFTER,
    ) -> None:
        """Keep the parts of the environment.

        Args:
            store: The store with the log of events.
            node: The number of this node.
            clock: The clock of the node.
            log: The logger.
            call: Calls a function where the program's functions run, not on the engine's loop.
            slow_after: A store call longer than this is logged, in microseconds. The node's heartbeat interval.
        """
        self.slow_after = slow_after
        self.store, self.node, self.clock, self.log, self.call = store, node, clock, log, call
