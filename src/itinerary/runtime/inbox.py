"""The core's inbox: bounded, and the only way to it (L5).

    send ──► room? ──► in the inbox ──► receive takes everything that is there
               └ no ─► in line, first come first served: moved in as soon as there is room

A full inbox makes senders wait. Who has waited for `send_timeout` in vain is told so, and it is logged and counted:
nothing is lost silently. What must arrive, the answer of a store or the end of an attempt, is sent with `deliver`,
which keeps its place in line and goes on waiting; each wait that was too long is still logged and counted.

The loop takes everything that is there at once, so a full inbox is empty again after one iteration. It always lets
others run in between, however much there is to be taken: a loop that is kept busy must not starve those who keep it so.
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
    """How it has been with the inbox."""

    sent: int
    received: int
    timeouts: int
    depth: int
    deepest: int


class _Sender:
    """A message in line, and who waits for it to be in: told True when it is, False when that has taken too long."""

    __slots__ = ("message", "must_arrive", "timer", "told")

    def __init__(self, message: Message, loop: asyncio.AbstractEventLoop, *, must_arrive: bool) -> None:
        self.message, self.must_arrive = message, must_arrive
        self.told: asyncio.Future[bool] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None


class Inbox:
    """Messages on their way to the core."""

    def __init__(self, size: int, send_timeout: int, log: Any) -> None:
        self._size, self._timeout, self._log = size, send_timeout / SECOND, log
        self._messages: list[Message] = []
        self._receiver: asyncio.Future[None] | None = None
        self._line: deque[_Sender] = deque()
        self._is_closed = False
        self._sent = self._received = self._timeouts = self._deepest = 0

    @property
    def statistics(self) -> InboxStatistics:
        """Its five numbers."""
        return InboxStatistics(self._sent, self._received, self._timeouts, len(self._messages), self._deepest)

    def __len__(self) -> int:
        return len(self._messages)

    def take_settings(self, settings: Settings) -> None:
        """Who comes from now on waits as long as these say."""
        self._timeout = settings.inbox_send_timeout / SECOND

    async def send(self, message: Message) -> bool:
        """Put a message in; wait while it is full. False, after the timeout: it is not in, and that is logged."""
        return await self._sent_in_turn(message, must_arrive=False)

    async def deliver(self, message: Message) -> None:
        """Put a message in that must arrive, however long that takes; unless there is nobody left for it to reach."""
        await self._sent_in_turn(message, must_arrive=True)

    def close(self) -> None:
        """Nobody will receive anything any more: who stands in line is told so, and so is who comes later."""
        self._is_closed = True
        for sender in self._line:
            if not sender.told.done():
                sender.told.set_result(False)
        self._line.clear()

    async def _sent_in_turn(self, message: Message, *, must_arrive: bool) -> bool:
        if self._is_closed:
            return False
        if len(self._messages) < self._size:  # then nobody is in line: room is given to those first
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
        """A sender has waited too long. One that must arrive keeps its place, and everybody is told all the same."""
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
        """Everything that is there; if nothing is, wait for something, up to so many seconds."""
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
        """Those who stand in line, as far as there is room; those who have given up are passed over."""
        while self._line and len(self._messages) < self._size:
            sender = self._line.popleft()
            if not sender.told.done():
                self._put(sender.message)
                sender.told.set_result(True)
