"""A bounded number of places, for callers on any event loop.

`asyncio.Semaphore` belongs to one loop, and a task's transaction is asked for on the loop that the task runs on.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

__all__ = ["Semaphore"]


class Semaphore:
    """A fixed number of places. Callers beyond that wait in a queue."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    async def take(self) -> None:
        """Wait for a place. A caller that is cancelled while it waits has none, and must not give one back."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine: Future[None] = Future()
            self._line.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancel() and not mine.cancelled():
                self.give_back()  # the place arrived at the same moment
            raise

    def give_back(self) -> None:
        """Give a place to the next caller in the queue."""
        with self._lock:
            while self._line:
                following = self._line.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1
