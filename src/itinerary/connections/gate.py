"""The connections of a server, limited in all and per client, and the choice of which one to close for a new one.

    waiting      the server waits for the client: for the head or the body of a request
    working      the server handles a request, or sends its answer

    a new connection ──► below both limits ──────────────────────────────────► enters
                    └──► at a limit: the gate closes the connection that
                           has waited longest (of this client, or of all) ───► enters
                    └──► at a limit, and every connection is working ────────► refused

The gate closes the longest wait first, so silent connections never lock out an active client. A request that follows
its connection at once finds room, even among any number of silent connections.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable

from itinerary.connections.clients import client_key

__all__ = ["Gate"]


class Gate:
    """The connections of one server. Use it on one event loop."""

    def __init__(
        self,
        in_all: int,
        per_client: int,
        on_refused: Callable[[str], None],
        *,
        is_shared: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Create a gate without connections.

        Args:
            in_all: The most connections at a time.
            per_client: The most connections of one client at a time.
            on_refused: Receives the client of every connection that is refused, or closed to make room.
            is_shared: True for the address of a proxy, which serves many clients. Only `in_all` limits such an address.
        """
        self.in_all, self.per_client = in_all, per_client
        self._on_refused, self._is_shared = on_refused, is_shared
        self.is_full = False
        """True if the last new connection found the gate at a limit."""
        self._clients: dict[asyncio.Transport, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[asyncio.Transport, None] = {}
        """The waiting connections, in the order in which they began to wait. `_waiting_of` has the same order per
        client."""
        self._waiting_of: defaultdict[str, dict[asyncio.Transport, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._clients)

    def make_room(self, address: str) -> bool:
        """Prepare for a connection from an address. At a limit, close the connection that has waited longest.

        Returns:
            False if there is no room: the connection is refused.
        """
        client = client_key(address)
        waiting = self._waiting
        if self._counts[client] >= (self.in_all if self._is_shared(address) else self.per_client):
            waiting = self._waiting_of.get(client, {})
        elif len(self._clients) < self.in_all:
            self.is_full = False
            return True
        self.is_full = True
        longest = next(iter(waiting), None)
        self._on_refused(client if longest is None else self._clients[longest])
        if longest is None:
            return False
        self.leave(longest)
        longest.abort()
        return True

    def enter(self, transport: asyncio.Transport) -> None:
        """Count a new connection. The server now waits for its first request."""
        peer = transport.get_extra_info("peername")
        client = client_key(peer[0] if peer else None)
        self._clients[transport] = client
        self._counts[client] += 1
        self.wait(transport)

    def wait(self, transport: asyncio.Transport) -> None:
        """Mark a connection as waiting: the server waits for the client."""
        self.work(transport)
        client = self._clients.get(transport)
        if client is not None:
            self._waiting[transport] = self._waiting_of[client][transport] = None

    def work(self, transport: asyncio.Transport) -> None:
        """Mark a connection as working. The gate does not close a working connection to make room."""
        client = self._clients.get(transport)
        self._waiting.pop(transport, None)
        if client is not None and (waiting := self._waiting_of.get(client)) is not None:
            waiting.pop(transport, None)
            if not waiting:
                del self._waiting_of[client]

    def leave(self, transport: asyncio.Transport) -> None:
        """Remove a connection from the counts. Do nothing if it was already removed."""
        self.work(transport)
        client = self._clients.pop(transport, None)
        if client is None:
            return
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
