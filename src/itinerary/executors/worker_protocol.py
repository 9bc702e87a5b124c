"""The messages between the pool and its worker processes: MessagePack frames over a socket pair, never a pickle.

    pool ──► Run      the function, with the facts of its attempt
    pool ◄── Called   the function is about to be called
    pool ◄── Answer   the result of the function

A frame is its length in four bytes, followed by the message. A task shares its process with the worker and could write
anything into the socket. An unreadable frame therefore ends that worker, and has no other effect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.model.attempts import AttemptInfo, AttemptKey

__all__ = ["FRAME_MAX", "Answer", "AnswerStatus", "CallRequest", "Called", "WorkerConnection", "receive", "send"]

FRAME_MAX: Final = 4 * 1024 * 1024
"""The longest message, in bytes: a definition is at most 256 kB, a result 64 kB, an error 16,384 characters."""

_LENGTH: Final = struct.Struct(">I")
_CHUNK: Final = 65_536


class CallRequest(msgspec.Struct, frozen=True):
    """A request to call a function."""

    name: str
    key: AttemptKey
    facts: AttemptInfo
    allowed: tuple[str, ...]
    """Modules that the function may be imported from."""
    paths: Mapping[str, str]
    """Modules that are files, such as a script that was given by its path."""
    variables: Mapping[str, str] = {}
    """Environment variables that are set while the function is imported."""


class AnswerStatus(StrEnum):
    """How a function ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class Called(msgspec.Struct, frozen=True, tag=True):
    """The worker is about to call the function.

    If a worker dies without this message, the function was never called.
    """


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The result of a function."""

    ending: AnswerStatus
    result: str | None = None
    error: str = ""
    names: tuple[str, ...] = ()
    was_called: bool = True
    """False if SIGTERM came after `Called`, and still before the function."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_ANSWERS: Final = msgspec.msgpack.Decoder(Answer | Called)
_RUNS: Final = msgspec.msgpack.Decoder(CallRequest)


def _framed(message: msgspec.Struct) -> bytes:
    body = _ENCODER.encode(message)
    if len(body) > FRAME_MAX:
        raise ValueError(f"a message of {len(body)} bytes is too long for a worker; {FRAME_MAX} are allowed")
    return _LENGTH.pack(len(body)) + body


# -- in a worker, blocking ---------------------------------------------------------------------------------------------


def send(connection: socket.socket, answer: Answer | Called) -> None:
    """Send an answer."""
    connection.sendall(_framed(answer))


def receive(connection: socket.socket) -> CallRequest | None:
    """Wait for the next request and return it; None if the pool is gone."""
    header = _exactly(connection, _LENGTH.size)
    if header is None:
        return None
    body = _exactly(connection, _LENGTH.unpack(header)[0])
    return None if body is None else _RUNS.decode(body)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


# -- in the pool, not blocking -----------------------------------------------------------------------------------------


class WorkerConnection:
    """The pool's end of a connection.

    `answered` is called for each answer, and `lost` once, if the other end is gone or sends invalid frames.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: socket.socket,
        answered: Callable[[Answer | Called], None],
        lost: Callable[[], None],
    ) -> None:
        connection.setblocking(False)  # noqa: FBT003 - the socket's own signature
        self._loop = loop
        self._connection = connection
        self._answered = answered
        self._lost = lost
        self._unread = bytearray()
        self._unsent = bytearray()
        self._is_closed = False
        loop.add_reader(connection.fileno(), self._read)

    def send(self, request: CallRequest) -> None:
        """Send a request. Bytes that the socket does not accept now are sent later."""
        frame = _framed(request)
        if not self._unsent:
            self._loop.add_writer(self._connection.fileno(), self._write)
        self._unsent += frame
        self._write()

    def read_now(self) -> None:
        """Read everything that has arrived."""
        while self._read():
            pass

    def close(self) -> None:
        """Close the connection. No callback is called afterwards."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._connection.fileno())
            self._loop.remove_writer(self._connection.fileno())
            self._connection.close()

    def _write(self) -> None:
        if self._is_closed:
            return
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # the other end is gone, which the next read detects
        self._loop.remove_writer(self._connection.fileno())

    def _read(self) -> bool:
        """Read one chunk. Return True if there may be more."""
        if self._is_closed:
            return False
        try:
            chunk = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        self._unread += chunk
        if not chunk or not self._take_frames():
            self.close()
            self._lost()
            return False
        return True

    def _take_frames(self) -> bool:
        """Pass on all complete frames. Return False if a frame is invalid."""
        while not self._is_closed and len(self._unread) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._unread)
            if size > FRAME_MAX:
                return False
            if len(self._unread) < _LENGTH.size + size:
                break
            body = bytes(self._unread[_LENGTH.size : _LENGTH.size + size])
            del self._unread[: _LENGTH.size + size]
            try:
                answer = _ANSWERS.decode(body)
            except msgspec.DecodeError:
                return False
            self._answered(answer)
        return True
