"""A connection to the web server: uvicorn's protocol for HTTP/1.1, with a deadline for every wait on the client.

    connected ──► head ──► (body) ──► work on the request ──► head ──► …
                  10 s      30 s      30 s for the client to read the response

    head, body      the server waits for the client, and may close the connection to make room (see `connections.gate`)
    work            the connection stays; `stream_limits` bounds the number of long responses

A missed deadline ends the connection: with the response 408 if a part of a request has arrived, otherwise without one.

A request with both `Content-Length` and `Transfer-Encoding` is rejected, and its connection closed. Two servers in a
row may disagree about the end of such a request. One of them then reads a part of it as another request.

Every rejection is counted, and logged once a minute. uvicorn's own warnings are disabled, since a client could fill the
log with them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, assert_never

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from itinerary.connections import deadlines
from itinerary.connections.clients import client_key
from itinerary.connections.gate import Gate
from itinerary.connections.refusals import Refusals

__all__ = ["BoundedProtocol"]

_READ_MIN: Final = 16_384
"""The bytes that a client must read within `READ_TIMEOUT`, if more than that are waiting."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""Closes a socket at once, and drops unsent data."""
_CAN_ANSWER: Final = (h11.IDLE, h11.SEND_RESPONSE)
"""States of our side in which no response has begun."""

_logger: Final = logging.getLogger("itinerary.web.http")
_logger.setLevel(logging.ERROR)


class _Awaited(Enum):
    """The part of a request that the server waits for."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()


class BoundedProtocol(H11Protocol):
    """A connection with deadlines."""

    def __init__(self, config: uvicorn.Config, state: ServerState, gate: Gate, refusals: Refusals) -> None:
        super().__init__(config, state, {})
        self.logger = _logger
        self.conn = _OneLength(h11.SERVER, config.h11_max_incomplete_event_size or 0)
        self._gate, self._refusals = gate, refusals
        self._awaited = _Awaited.NOTHING
        self._deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None

    # -- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self._gate.enter(transport)
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._read_deadline):
            if timer is not None:
                timer.cancel()
        self._gate.leave(self.transport)
        if isinstance(exc, TimeoutError):  # from the kernel: the client has read nothing for too long
            self._refusals.add("not_reading", self._client())
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    # -- waits on the client -----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Set the deadline of the current wait, unless it is already set."""
        awaited = self._awaits()
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        match awaited:
            case _Awaited.HEAD:
                self._wait_for(deadlines.HEAD_TIMEOUT)
            case _Awaited.BODY:
                self._wait_for(deadlines.BODY_TIMEOUT)
            case _Awaited.NOTHING:
                self._gate.work(self.transport)
            case _:
                assert_never(awaited)

    def _awaits(self) -> _Awaited:
        if self.conn.their_state is h11.IDLE:
            return _Awaited.HEAD
        return _Awaited.BODY if self.conn.their_state is h11.SEND_BODY else _Awaited.NOTHING

    def _wait_for(self, seconds: float) -> None:
        self._gate.wait(self.transport)
        self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def _on_deadline(self) -> None:
        what = self._awaited.name.lower()
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"{what}_timeout", f"The {what} of the request took too long.")

    def _watch_reader(self, left: int) -> None:
        self._read_deadline = self.loop.call_later(deadlines.READ_TIMEOUT, self._on_slow_reader, left)

    def _on_slow_reader(self, left: int) -> None:
        now_left = self.transport.get_write_buffer_size()
        if now_left <= left - _READ_MIN:
            self._watch_reader(now_left)
            return
        self._refusals.add("not_reading", self._client())
        if (connection := self.transport.get_extra_info("socket")) is not None:  # also drop the kernel's data
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    # -- rejections --------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Reject input that is not HTTP. uvicorn calls this."""
        self._refuse(HTTPStatus.BAD_REQUEST, "bad_request", msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore the upgrade: the request is handled as if it had not asked for another protocol."""

    def _refuse(self, status: HTTPStatus, reason: str, text: str) -> None:
        """End the connection: with a response, if none has begun and a part of a request has arrived."""
        has_part = self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])
        if self.conn.our_state not in _CAN_ANSWER or not has_part:
            self._refusals.add(reason, self._client())
            self.transport.abort()
            return
        self._refusals.add(reason, self._client(), status)
        if self.cycle is not None and not self.cycle.response_complete:  # the handler has no client to respond to
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        answer = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        for event in (answer, h11.Data(data=f"{text}\n".encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _client(self) -> str:
        return client_key(self.client[0] if self.client else None)


class _OneLength(h11.Connection):
    """An HTTP connection that rejects a request with two lengths."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("a request has Content-Length and Transfer-Encoding")
        return event
