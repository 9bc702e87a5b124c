"""An event loop in a daemon thread of its own: where tasks run that must not be in the engine's way."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["LoopThread"]


class LoopThread:
    """Started and stopped from another loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs."""
        starter = asyncio.get_running_loop()
        runs = starter.create_future()
        loop = asyncio.new_event_loop()
        self._loop = loop

        def say_so() -> None:
            if not runs.done():  # else the start was cancelled meanwhile
                runs.set_result(None)

        def live() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(starter.call_soon_threadsafe, say_so)
            try:
                loop.run_forever()
                loop.run_until_complete(loop.shutdown_asyncgens())
            finally:
                loop.close()

        # A daemon: a task that never returns must not keep the program from ending.
        self._thread = threading.Thread(target=live, name=self._name, daemon=True)
        self._thread.start()
        await runs
        return loop

    async def stop(self, timeout: float) -> bool:  # noqa: ASYNC109 - it bounds a thread, which cannot be cancelled
        """End the loop and its thread. False if it is still busy after so many seconds, and is left behind."""
        assert self._thread is not None, "stopped before it was started"
        assert self._loop is not None, "stopped before it was started"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, timeout)
        return not self._thread.is_alive()
