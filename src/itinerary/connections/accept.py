"""Accept connections from a listening socket at a limited rate, and hand them to a protocol.

The event loop can accept connections itself, but without limits. At the limit of open files it logs a traceback for
every connection in the backlog, repeatedly. This module closes a connection that finds no room before it creates any
object for it. A failure to accept counts as one refusal and causes a pause.

The rate is limited because the scheduler shares the interpreter with this loop. The limit is 500 connections a second,
and 100 while the gate is full, when every new connection closes another one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from itinerary.connections import deadlines
from itinerary.connections.gate import Gate
from itinerary.connections.refusals import Refusals

__all__ = ["accept_connections"]

_AT_ONCE: Final = 5
_INTERVAL: Final = 0.01
_FULL_INTERVAL: Final = 0.05
"""Seconds in which the server accepts at most `_AT_ONCE` connections. The second value holds while the gate is full."""
_RETRY_AFTER: Final = 1.0
"""Seconds to wait after a failure to accept."""
_SEND_BUFFER: Final = 262_144
"""Bytes that the kernel buffers for a client that does not read."""
_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)
"""A Linux option: how long bytes may stay unsent or unacknowledged, in milliseconds. The kernel then closes the
connection of a client that does not read, even if all remaining bytes are in kernel buffers."""


async def accept_connections(
    listening: socket.socket, gate: Gate, refusals: Refusals, new_protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Accept connections until cancelled.

    Args:
        listening: A listening socket.
        gate: Decides whether there is room. The protocol adds each connection to the gate and removes it.
        refusals: Counts every failure to accept.
        new_protocol: Creates the protocol of a connection.
    """
    loop = asyncio.get_running_loop()
    listening.settimeout(0.0)
    taken, since = 0, loop.time()
    while True:
        if taken >= _AT_ONCE:
            interval = _FULL_INTERVAL if gate.is_full else _INTERVAL
            await asyncio.sleep(max(0.0, since + interval - loop.time()))
            taken, since = 0, loop.time()
        taken += 1
        try:
            accepted, address = await loop.sock_accept(listening)
        except OSError as error:
            refusals.add(f"accept: {error.strerror or error}", "unknown")
            await asyncio.sleep(_RETRY_AFTER)
            continue
        if gate.make_room(address[0]):
            await _hand_over(accepted, new_protocol)
        else:
            accepted.close()


async def _hand_over(accepted: socket.socket, new_protocol: Callable[[], asyncio.Protocol]) -> None:
    """Set the limits of the socket, and pass it to a new protocol."""
    try:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if _USER_TIMEOUT is not None:
            accepted.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, round(deadlines.READ_TIMEOUT * 1_000))
        await asyncio.get_running_loop().connect_accepted_socket(new_protocol, accepted)
    except OSError:  # the client has already disconnected
        accepted.close()
