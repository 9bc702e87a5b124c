"""Waiting for something that must not be left half done, whatever happens to the one who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["to_its_end"]

A = TypeVar("A")


async def to_its_end(work: Coroutine[Any, Any, A]) -> A:
    """Wait for this even if cancelled, and raise the cancellation then: nothing is under way any more when it comes.

    How the work ended is then nobody's concern: whoever cancelled is told that it was cancelled, and nothing else.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:  # the wait's, never the task's
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # taken note of
        raise cancelled
    return task.result()
