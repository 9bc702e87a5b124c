"""Work that goes on when the request that began it has been answered: a backfill, an audit.

It is bounded: at most so many at a time. When the web server ends it is cancelled before the store is closed; whatever
it had asked of the store stands, and can be gone on with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["WORKS_MAX", "Background"]

WORKS_MAX: Final = 8


class Background:
    """All work of one web server that nobody waits for, by name."""

    def __init__(self) -> None:
        self._works: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin. Whoever starts something has looked whether it runs, and whether there is room."""
        assert name not in self._works, "it does not run twice"
        task = self._works[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._works.pop(name, None))

    def runs(self, name: str) -> bool:
        """Whether it goes on."""
        return name in self._works

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be begun for now."""
        return len(self._works) >= WORKS_MAX

    def stop(self, name: str) -> None:
        """End one. Without effect if it does not run."""
        if name in self._works:
            self._works[name].cancel()

    async def close(self) -> None:
        """End all, and wait until they have."""
        works = list(self._works.values())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
