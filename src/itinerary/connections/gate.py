"""How many connections a server has, in all and per client, and which one makes room for a new one.

    waiting      the server waits for the client: for a request's head, or for its body
    working      the server works on a request, or sends its answer

    a new connection ──► below both limits ──────────────────────────────────► enters
                    └──► at a limit: the connection that has waited longest
                           (of this client, or of all) is closed ────────────► enters
                    └──► at a limit, and every one is working ───────────────► refused

Closing the longest wait means that silent connections never lock out a client that speaks: a request that follows its
connection at once finds room, however many silent ones there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable

from itinerary.connections.clients import client_key

__all__ = ["Gate"]


class Gate:
    """The connections of one server. Used on one loop."""

    def __init__(
        self,
        in_all: int,
        per_client: int,
        on_refused: Callable[[str], None],
        *,
        is_shared: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Open a gate.

        Args:
            in_all: The most connections at a time.
            per_client: The most connections of one client at a time.
            on_refused: Receives the client of each connection that is refused, or closed to make room.
            is_shared: True of the address of a proxy, which has many clients: only the limit in all holds for it.
        """
        self.in_all, self.per_client = in_all, per_client
        self._on_refused, self._is_shared = on_refused, is_shared
        self.is_full = False
        """Whether the last connection found no room at once."""
        self._clients: dict[asyncio.Transport, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[asyncio.Transport, None] = {}
        """In the order in which they began to wait, as are those of each client."""
        self._waiting_of: defaultdict[str, dict[asyncio.Transport, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._clients)

    def make_room(self, address: str) -> bool:
        """Prepare for a connection from an address: at a limit, close the one that has waited longest.

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
        """Count a connection, which waits for its first request."""
        peer = transport.get_extra_info("peername")
        client = client_key(peer[0] if peer else None)
        self._clients[transport] = client
        self._counts[client] += 1
        self.wait(transport)

    def wait(self, transport: asyncio.Transport) -> None:
        """Note that the server waits for the client, from now on."""
        self.work(transport)
        client = self._clients.get(transport)
        if client is not None:
            self._waiting[transport] = self._waiting_of[client][transport] = None

    def work(self, transport: asyncio.Transport) -> None:
        """Note that the server works on a request: the connection makes no room."""
        client = self._clients.get(transport)
        self._waiting.pop(transport, None)
        if client is not None and (waiting := self._waiting_of.get(client)) is not None:
            waiting.pop(transport, None)
            if not waiting:
                del self._waiting_of[client]

    def leave(self, transport: asyncio.Transport) -> None:
        """Remove a connection from the counts. Without effect on one that has left."""
        self.work(transport)
        client = self._clients.pop(transport, None)
        if client is None:
            return
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
