"""The HTTP server of the health listener: one request a connection, few connections at a time, each with a deadline.

    a connection ──► head within 10 s ──► an answer ──► closed, at the latest 15 s after its start

Silent connections are closed in favour of those that send, so that a probe is always answered (see `gate`).
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from itinerary.connections import deadlines
from itinerary.connections.clients import client_key
from itinerary.connections.gate import Gate
from itinerary.connections.refusals import Refusals

__all__ = ["CONNECTION_MAX", "ProbeServer"]

CONNECTION_MAX: Final = 15.0
"""The maximum age of a connection, in seconds."""
_LINE_MAX: Final = 4_096


class ProbeServer(web.Server):
    """A server whose connections enter a gate and have deadlines."""

    def __init__(self, handler: Any, gate: Gate, refusals: Refusals) -> None:
        super().__init__(handler, access_log=None, max_line_size=_LINE_MAX, max_field_size=_LINE_MAX)
        self._gate, self._refusals = gate, refusals
        self._timers: dict[asyncio.Transport, list[asyncio.TimerHandle]] = {}

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return _Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Set the deadlines of a connection."""
        super().connection_made(handler, transport)
        self._gate.enter(transport)
        later = self._loop.call_later
        self._timers[transport] = [
            later(CONNECTION_MAX, self._close, transport, "connection_timeout"),
            later(deadlines.HEAD_TIMEOUT, self._close, transport, "head_timeout"),
        ]

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Remove a connection and its deadlines."""
        transport = self._connections.get(handler)
        if transport is not None:
            self._gate.leave(transport)
            for timer in self._timers.pop(transport, []):
                timer.cancel()
        super().connection_lost(handler, exc)

    def begin(self, request: web.BaseRequest) -> None:
        """Record that a request has arrived: from now on, only the last deadline of its connection applies."""
        transport = request.transport
        if isinstance(transport, asyncio.Transport) and transport in self._timers:
            self._gate.work(transport)
            self._timers[transport].pop().cancel()

    def refused(self, reason: str, request: web.BaseRequest, status: int) -> None:
        """Count a refusal, and log it together with others."""
        self._refusals.add(reason, client_key(request.remote), status)

    def _close(self, transport: asyncio.Transport, reason: str) -> None:
        peer = transport.get_extra_info("peername")
        self._refusals.add(reason, client_key(peer[0] if peer else None))
        transport.abort()


class _Handler(web.RequestHandler):
    """A connection that counts requests that are not HTTP."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an unreadable request or an internal error."""
        is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if isinstance(self._manager, ProbeServer):
            self._manager.refused("failed" if is_ours else "bad_request", request, status)
        if is_ours or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        # No traceback for a request that is not HTTP: otherwise any client could fill the log.
        response = web.Response(status=status, text="this is not HTTP as it is spoken here\n")
        response.force_close()
        return response
