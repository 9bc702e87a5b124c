"""What a desk stands on while a node runs: everything that it takes from outside, handed to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Settings
from itinerary.ports import Clock, Store

__all__ = ["Ground"]

_SLOW_AFTER: Final = Settings().node_heartbeat_interval


class Ground:
    """The store, the node and its clock, and how a function of the program is called."""

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
        """`call` calls a function where the program's functions run, and not on the engine's loop. A call to
        the store that takes longer than `slow_after` microseconds is logged: the heartbeat interval of the node."""
        self.slow_after = slow_after
        self.store, self.node, self.clock, self.log, self.call = store, node, clock, log, call
