"""Running of a command's coroutine so that Ctrl-C always works.

`asyncio.run` runs the handler of Ctrl-C in the main thread, when its loop wakes up. The kernel may deliver the signal
to another thread. The loop then sleeps until the store answers, and a store that hangs never does. So the loop wakes up
twice a second (see `signal_safe_wait`).

The first Ctrl-C cancels the command, which closes its store. A second one ends the process at once.

Process 1 of a container is special: the kernel ignores SIGTERM there unless the process has a handler for it. So the
command installs one that does what the kernel does for all other processes. A node replaces it while it runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from itinerary.daemon_pool import DaemonPool
from itinerary.signal_safe_wait import TURN

__all__ = ["obey_as_first_process", "run_command"]

T = TypeVar("T")


def obey_as_first_process() -> None:
    """End on SIGTERM, if this is process 1 and nothing else handles the signal."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))


def run_command(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C.
    """
    return asyncio.run(_kept_awake(work))


async def _kept_awake(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonPool("itinerary-command"))

    waking = loop.create_task(_wake_up(), name="wake up for signals")
    try:
        with _second_ends_at_once():
            return await work
    finally:
        waking.cancel()


async def _wake_up() -> None:
    while True:  # noqa: ASYNC110 - this only wakes the loop and waits for nothing
        await asyncio.sleep(TURN)


@contextmanager
def _second_ends_at_once() -> Iterator[None]:
    """Keep the effect of the first Ctrl-C, and end the process on the second."""
    first = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(first):
        yield
        return
    is_first = True

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_first
        if not is_first:
            os._exit(128 + number)
        is_first = False
        first(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, first)
