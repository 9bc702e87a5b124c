"""Wait for work that must not be left half done, even if the waiting caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["to_its_end"]

A = TypeVar("A")


async def to_its_end(work: Coroutine[Any, Any, A]) -> A:
    """Wait until this work ends, even if the caller is cancelled, and raise the cancellation only then.

    A cancelled caller gets the cancellation alone. The result or the error of the work is dropped.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:  # the wait was cancelled, never the task
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved
        raise cancelled
    return task.result()
