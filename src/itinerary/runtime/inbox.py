"""The core's inbox: bounded, and the only way to reach the core (L5).

    send ──► room? ──► in the inbox ──► receive takes all messages
               └ no ─► in the queue, first come first served: moved to the inbox as soon as there is room

A full inbox makes senders wait. A sender that has waited for `send_timeout` gets False, and the inbox logs and counts
the timeout: no message is lost silently. A message that must arrive, such as the answer of a store or the end of an
attempt, is sent with `deliver`. Such a message keeps its place in the queue and continues to wait. The inbox still logs
and counts every wait that is too long.

The loop takes all messages at once, so a full inbox is empty after one iteration. `receive` always lets other tasks run
in between: a busy loop must not starve its senders.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from itinerary.core.loop.messages import Message
from itinerary.model.settings import Settings
from itinerary.schedules.durations import SECOND

__all__ = ["Inbox", "InboxStatistics"]


class InboxStatistics(msgspec.Struct, frozen=True):
    """The counters of an inbox."""

    sent: int
    received: int
    timeouts: int
    depth: int
    deepest: int


class _Sender:
    """A message in the queue, with a future for its sender: True when the message is in, False after the timeout."""

    __slots__ = ("message", "must_arrive", "timer", "told")

    def __init__(self, message: Message, loop: asyncio.AbstractEventLoop, *, must_arrive: bool) -> None:
        self.message, self.must_arrive = message, must_arrive
        self.told: asyncio.Future[bool] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None


class Inbox:
    """Messages that wait for the core."""

    def __init__(self, size: int, send_timeout: int, log: Any) -> None:
        self._size, self._timeout, self._log = size, send_timeout / SECOND, log
        self._messages: list[Message] = []
        self._receiver: asyncio.Future[None] | None = None
        self._line: deque[_Sender] = deque()
        self._is_closed = False
        self._sent = self._received = self._timeouts = self._deepest = 0

    @property
    def statistics(self) -> InboxStatistics:
        """The counters of this inbox."""
        return InboxStatistics(self._sent, self._received, self._timeouts, len(self._messages), self._deepest)

    def __len__(self) -> int:
        return len(self._messages)

    def take_settings(self, settings: Settings) -> None:
        """Use the send timeout of these settings for new messages."""
        self._timeout = settings.inbox_send_timeout / SECOND

    async def send(self, message: Message) -> bool:
        """Put a message in the inbox. Wait while the inbox is full.

        Returns:
            False if the wait timed out. The message is then not in the inbox, and the timeout is logged.
        """
        return await self._sent_in_turn(message, must_arrive=False)

    async def deliver(self, message: Message) -> None:
        """Put a message that must arrive in the inbox. Wait without a limit, unless the inbox is closed."""
        await self._sent_in_turn(message, must_arrive=True)

    def close(self) -> None:
        """Close the inbox. Senders in the queue and later senders get False."""
        self._is_closed = True
        for sender in self._line:
            if not sender.told.done():
                sender.told.set_result(False)
        self._line.clear()

    async def _sent_in_turn(self, message: Message, *, must_arrive: bool) -> bool:
        if self._is_closed:
            return False
        if len(self._messages) < self._size:  # the queue is then empty: free room goes to the queue first
            self._put(message)
            return True
        sender = _Sender(message, asyncio.get_running_loop(), must_arrive=must_arrive)
        self._line.append(sender)
        self._set_timer(sender)
        try:
            return await sender.told
        finally:
            assert sender.timer is not None, "it was set when it stood in line"
            sender.timer.cancel()

    def _set_timer(self, sender: _Sender) -> None:
        sender.timer = asyncio.get_running_loop().call_later(self._timeout, self._give_up, sender)

    def _give_up(self, sender: _Sender) -> None:
        """End the wait of a sender, and log it. A message that must arrive keeps its place in the queue."""
        if sender.told.done():
            return
        self._timeouts += 1
        self._log.warning(
            "inbox.full",
            message=type(sender.message).__name__,
            depth=len(self._messages),
            waited_seconds=self._timeout,
            hint="the loop is too slow for what it is told, or inbox_buffer_size is too small",
        )
        if sender.must_arrive:
            self._set_timer(sender)
        else:
            sender.told.set_result(False)

    def _put(self, message: Message) -> None:
        self._messages.append(message)
        self._sent += 1
        self._deepest = max(self._deepest, len(self._messages))
        self._wake()

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    async def receive(self, wait_for: float) -> list[Message]:
        """Return all messages. If there are none, wait for one, up to `wait_for` seconds."""
        if self._messages or wait_for <= 0:
            await asyncio.sleep(0)
        else:
            await self._something(wait_for)
        taken, self._messages = self._messages, []
        self._received += len(taken)
        self._move_in()
        return taken

    async def _something(self, wait_for: float) -> None:
        loop = asyncio.get_running_loop()
        self._receiver = loop.create_future()
        timer = loop.call_later(wait_for, self._wake)
        try:
            await self._receiver
        finally:
            timer.cancel()
            self._receiver = None

    def _move_in(self) -> None:
        """Move messages from the queue to the inbox while there is room, without those that have timed out."""
        while self._line and len(self._messages) < self._size:
            sender = self._line.popleft()
            if not sender.told.done():
                self._put(sender.message)
                sender.told.set_result(True)
