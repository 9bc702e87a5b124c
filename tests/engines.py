"""An engine around an engine: what a test changes about it is all that such a class says."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from itinerary.ports import TaskTransaction
from itinerary.stores.engine import Engine, T, Work

__all__ = ["Wrapped"]


class Wrapped(Engine):
    """Hands everything on to the real one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def url(self) -> str:
        return self.engine.url

    async def open(self) -> None:
        await self.engine.open()

    async def close(self) -> None:
        await self.engine.close()

    async def write(self, work: Work[T]) -> T:
        return await self.engine.write(work)

    async def read(self, work: Work[T]) -> T:
        return await self.engine.read(work)

    def transaction(self, end: Work[None], *, timeout: float) -> AbstractAsyncContextManager[TaskTransaction]:
        return self.engine.transaction(end, timeout=timeout)
