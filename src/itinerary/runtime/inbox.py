"""The core's inbox: bounded, and the only way to it (L5).

A full inbox makes senders wait. Who has waited for `send_timeout` in vain is told so, and it is logged and counted:
nothing is lost silently. What must arrive, the answer of a store or the end of an attempt, is sent with `deliver`,
which goes on waiting; each wait that was too long is still logged and counted.

The loop takes everything that is there at once, so a full inbox is empty again after one iteration.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from itinerary.core.messages import Message
from itinerary.schedules.durations import SECOND

__all__ = ["Inbox", "InboxStatistics"]


class InboxStatistics(msgspec.Struct, frozen=True):
    """How it has been with the inbox."""

    sent: int
    received: int
    timeouts: int
    depth: int
    deepest: int


class Inbox:
    """Messages on their way to the core."""

    def __init__(self, size: int, send_timeout: int, log: Any) -> None:
        self._size, self._timeout, self._log = size, send_timeout / SECOND, log
        self._messages: list[Message] = []
        self._receiver: asyncio.Future[None] | None = None
        self._senders: deque[asyncio.Future[None]] = deque()
        self._sent = self._received = self._timeouts = self._deepest = 0

    @property
    def statistics(self) -> InboxStatistics:
        """Its five numbers."""
        return InboxStatistics(self._sent, self._received, self._timeouts, len(self._messages), self._deepest)

    def __len__(self) -> int:
        return len(self._messages)

    async def send(self, message: Message) -> bool:
        """Put a message in; wait while it is full. False, after the timeout: it is not in, and that is logged."""
        if len(self._messages) >= self._size and not await self._room():
            self._timeouts += 1
            self._log.warning(
                "inbox.full",
                message=type(message).__name__,
                depth=len(self._messages),
                waited_seconds=self._timeout,
                hint="the loop is too slow for what it is told, or inbox_buffer_size is too small",
            )
            return False
        self._messages.append(message)
        self._sent += 1
        self._deepest = max(self._deepest, len(self._messages))
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)
        return True

    async def deliver(self, message: Message) -> None:
        """Put a message in that must arrive, however long that takes."""
        while not await self.send(message):
            pass

    async def _room(self) -> bool:
        """Wait until there is room, first come first served."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + self._timeout
        while len(self._messages) >= self._size:
            turn: asyncio.Future[None] = loop.create_future()
            self._senders.append(turn)
            timer = loop.call_at(limit, _wake, turn)
            try:
                await turn
            finally:
                timer.cancel()
            if len(self._messages) >= self._size and loop.time() >= limit:
                return False
        return True

    async def receive(self, wait_for: float) -> list[Message]:
        """Everything that is there; if nothing is, wait for something, up to so many seconds."""
        if not self._messages and wait_for > 0:
            loop = asyncio.get_running_loop()
            self._receiver = loop.create_future()
            timer = loop.call_later(wait_for, _wake, self._receiver)
            try:
                await self._receiver
            finally:
                timer.cancel()
                self._receiver = None
        taken, self._messages = self._messages, []
        self._received += len(taken)
        for _ in range(min(len(self._senders), self._size)):
            _wake(self._senders.popleft())
        return taken


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
