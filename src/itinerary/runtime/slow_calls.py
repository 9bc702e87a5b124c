"""Log a store call that takes longer than a heartbeat interval, while the call still waits.

    with logged_if_slow(log, "syncer", "read nodes", settings.node_heartbeat_interval):
        nodes = await store.read(Nodes())

A store ends a call at the deadline of the call, which is far longer than a heartbeat interval. Without this log line,
an operator sees nothing until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from itinerary.schedules.durations import SECOND

__all__ = ["logged_if_slow"]


@contextmanager
def logged_if_slow(
    log: Any, component: str, what: str, after: int, on_slow: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Log the call in the body if it takes longer than a limit. Use this on a running event loop.

    Args:
        log: The log of the node.
        component: The component that makes the call.
        what: A description of the call.
        after: The limit, in microseconds.
        on_slow: Called together with the log line.
    """

    def is_slow() -> None:
        on_slow()
        log.warning(
            "store.slow",
            component=component,
            what=what,
            seconds=after / SECOND,
            hint="the call has not been answered yet; it goes on until its deadline, and is repeated then",
        )

    timer = asyncio.get_running_loop().call_later(after / SECOND, is_slow)
    try:
        yield
    finally:
        timer.cancel()
