"""Waits for the main thread during which no signal is lost.

Python runs a signal handler in the main thread, and only when that thread returns to Python code. The kernel may
deliver a signal to any thread of the process, even to one that is just being created. Nothing then wakes a main thread
that waits for a lock: Ctrl-C has no effect until the lock is free, which may be never. So the main thread waits in
short turns. Between two turns the handlers of all signals run.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from typing import Final, TypeVar

__all__ = ["TURN", "join_thread", "result_of", "wait_for"]

T = TypeVar("T")

TURN: Final = 0.5
"""The longest time that a signal can wait for the main thread, in seconds."""


def wait_for(future: Future[T], timeout: float | None = None) -> bool:
    """Wait until a future is done.

    Args:
        future: The future to wait for.
        timeout: The longest wait, in seconds. None waits without a limit.

    Returns:
        False if the future is not done after `timeout` seconds.
    """
    ends_at = None if timeout is None else time.monotonic() + timeout
    while not future.done():
        left = TURN if ends_at is None else min(TURN, ends_at - time.monotonic())
        if left <= 0:
            return False
        wait([future], left)
    return True


def result_of(future: Future[T], timeout: float | None = None) -> T:
    """Wait for the result of a future.

    Raises:
        TimeoutError: The future is not done after `timeout` seconds.
        Exception: The future failed with this exception.
    """
    wait_for(future, timeout)
    return future.result(0)


def join_thread(thread: threading.Thread, timeout: float | None = None) -> bool:
    """Wait until a thread has ended. Return False if it still runs after `timeout` seconds."""
    ends_at = None if timeout is None else time.monotonic() + timeout
    while thread.is_alive():
        left = TURN if ends_at is None else min(TURN, ends_at - time.monotonic())
        if left <= 0:
            return False
        thread.join(left)
    return True
