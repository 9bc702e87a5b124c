"""Takes connections from a listening socket, at a bounded pace, and hands them to a protocol.

The event loop can do this by itself, but not with limits: at the limit of open files it logs a traceback for each
connection in the backlog, again and again. Here a connection that finds no room is closed before any object is made for
it, and a failure to accept is one refusal and a pause.

The pace is bounded since the engine shares the interpreter with this loop: 500 connections a second, and 100 while
there are as many as there may be, so that each new one closes another.
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
"""Seconds in which at most `_AT_ONCE` connections are taken: the second one while the gate is full."""
_RETRY_AFTER: Final = 1.0
"""Seconds until the next try where a connection could not be taken."""
_SEND_BUFFER: Final = 262_144
"""Bytes that the kernel keeps for a client that does not read."""
_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)
"""An option of Linux: how long bytes may stay unsent or unacknowledged, in milliseconds. A client that
does not read then loses its connection while all that waits for it is still with the kernel."""


async def accept_connections(
    listening: socket.socket, gate: Gate, refusals: Refusals, new_protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Take connections until cancelled.

    Args:
        listening: A socket that listens.
        gate: Decides whether there is room. The protocol enters each connection there, and has it leave.
        refusals: Counts every failure to accept.
        new_protocol: Makes the protocol of a connection.
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
    """Set the limits of the socket, and give it to a protocol."""
    try:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if _USER_TIMEOUT is not None:
            accepted.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, round(deadlines.READ_TIMEOUT * 1_000))
        await asyncio.get_running_loop().connect_accepted_socket(new_protocol, accepted)
    except OSError:  # the client has left meanwhile
        accepted.close()
