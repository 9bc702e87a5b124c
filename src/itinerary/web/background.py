"""Work that continues after the response to the request that started it: a backfill, an audit.

The number of concurrent works is bounded. When the web server stops, it cancels them before it closes the store. Their
changes in the store remain, and the work can be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["WORKS_MAX", "Background"]

WORKS_MAX: Final = 8


class Background:
    """The background work of one web server, by name."""

    def __init__(self) -> None:
        self._works: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a work. The caller has checked that the name is not running and that there is room."""
        assert name not in self._works, "it does not run twice"
        task = self._works[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._works.pop(name, None))

    def runs(self, name: str) -> bool:
        """True if the work is running."""
        return name in self._works

    @property
    def is_full(self) -> bool:
        """True if no further work may start now."""
        return len(self._works) >= WORKS_MAX

    def stop(self, name: str) -> None:
        """Cancel a work. No effect if it is not running."""
        if name in self._works:
            self._works[name].cancel()

    async def close(self) -> None:
        """Cancel all works, and wait until they have ended."""
        works = list(self._works.values())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
