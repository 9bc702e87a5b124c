"""The silence of each node, measured by the commits of its heartbeats, and never by a node's own view.

An outage does not count as silence, since no node can send a heartbeat then. So the first node that has contact again
after an outage must not declare the other nodes dead (protocol rule 16).
"""

from __future__ import annotations

from typing import Final

from itinerary.model.rows import NodeNumber, NodeRow

__all__ = ["Silence"]

_FOR_EVER: Final = 2**62


class Silence:
    """The last heartbeat of each node, and the outages."""

    def __init__(self) -> None:
        self._heard_at: dict[NodeNumber, int] = {}
        self._left: set[NodeNumber] = set()
        self._outages: list[tuple[int, int]] = []
        self._away_since: int | None = None

    def see(self, at: int, by: NodeNumber | None, before: NodeRow | None, after: NodeRow) -> None:
        """Record a change of a node's row: a heartbeat, or that the node has left."""
        if before is None or after.counter > before.counter:
            self._heard_at[after.number] = at
            self._left.discard(after.number)
        if after.left_at is not None and by == after.number:
            self._left.add(after.number)

    def store_goes(self, at: int) -> None:
        """Record the start of an outage."""
        if self._away_since is None:
            self._away_since = at

    def store_is_back(self, at: int) -> None:
        """Record the end of an outage."""
        if self._away_since is not None:
            self._outages.append((self._away_since, at))
            self._away_since = None

    def of(self, node: NodeNumber, at: int) -> int:
        """Return the silence of a node in microseconds, without outages. A node that has left is silent forever."""
        if node in self._left:
            return _FOR_EVER
        heard_at = self._heard_at.get(node, at)
        away = sum(max(0, min(end, at) - max(start, heard_at)) for start, end in self._outages)
        return at - heard_at - away
