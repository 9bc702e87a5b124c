"""For how long each node has not been heard of: by the commits of its heartbeats, and by nothing that a node believes.

While the store answers nobody, nobody can be heard of, so that time does not count: the first node that is back from an
outage must not take all others for dead (protocol rule 16).
"""

from __future__ import annotations

from typing import Final

from itinerary.model.rows import NodeNumber, NodeRow

__all__ = ["Silence"]

_FOR_EVER: Final = 2**62


class Silence:
    """What is known of heartbeats."""

    def __init__(self) -> None:
        self._heard_at: dict[NodeNumber, int] = {}
        self._left: set[NodeNumber] = set()
        self._outages: list[tuple[int, int]] = []
        self._away_since: int | None = None

    def see(self, at: int, by: NodeNumber | None, before: NodeRow | None, after: NodeRow) -> None:
        """A node's row has been written: a heartbeat of its own, or its farewell."""
        if before is None or after.counter > before.counter:
            self._heard_at[after.number] = at
            self._left.discard(after.number)
        if after.left_at is not None and by == after.number:
            self._left.add(after.number)

    def store_goes(self, at: int) -> None:
        """The store answers nobody from now on."""
        if self._away_since is None:
            self._away_since = at

    def store_is_back(self, at: int) -> None:
        """It does again."""
        if self._away_since is not None:
            self._outages.append((self._away_since, at))
            self._away_since = None

    def of(self, node: NodeNumber, at: int) -> int:
        """For how long a node has been silent, in which it could have been heard; for ever, if it has left."""
        if node in self._left:
            return _FOR_EVER
        heard_at = self._heard_at.get(node, at)
        away = sum(max(0, min(end, at) - max(start, heard_at)) for start, end in self._outages)
        return at - heard_at - away
