"""An event loop in its own daemon thread, for tasks that must not block the node."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["LoopThread"]


class LoopThread:
    """The thread of an event loop. Another loop starts and stops it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> asyncio.AbstractEventLoop:
        """Start the thread, and return its running loop."""
        starter = asyncio.get_running_loop()
        runs = starter.create_future()
        loop = asyncio.new_event_loop()
        self._loop = loop

        def say_so() -> None:
            if not runs.done():  # otherwise the start was cancelled
                runs.set_result(None)

        def live() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(starter.call_soon_threadsafe, say_so)
            try:
                loop.run_forever()
                loop.run_until_complete(loop.shutdown_asyncgens())
            finally:
                loop.close()

        # A daemon thread: a task that never returns must not stop the program from exiting.
        self._thread = threading.Thread(target=live, name=self._name, daemon=True)
        self._thread.start()
        await runs
        return loop

    async def stop(self, timeout: float) -> bool:  # noqa: ASYNC109 - limits a thread, which cannot be cancelled
        """Stop the loop and its thread.

        Args:
            timeout: How long to wait, in seconds.

        Returns:
            False if the loop is still busy after the timeout. The thread is then left behind.
        """
        assert self._thread is not None, "stopped before it was started"
        assert self._loop is not None, "stopped before it was started"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, timeout)
        return not self._thread.is_alive()
