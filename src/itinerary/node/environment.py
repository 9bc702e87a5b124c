"""What an engine stands on: where its store is, what runs its tasks, and which clocks it goes by.

In a program all of that is real. A test puts other ground under the same engine (see `testing`): a store in memory,
tasks that take no real time, and a clock that the test moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.router import ExecutorOptions, standard_router
from itinerary.executors.transactions import TransactionFactory
from itinerary.ports import Executor
from itinerary.runtime.clock import awake_time, boot_time
from itinerary.runtime.index_builder import Elsewhere
from itinerary.stores.store import EngineStore
from itinerary.stores.urls import open_store

__all__ = ["Ground"]


class Ground:
    """The real world."""

    def __init__(self) -> None:
        self.elapsed: Callable[[], int] = boot_time
        self.awake: Callable[[], int] = awake_time
        self.elsewhere: Elsewhere = asyncio.to_thread

    def store(self, url: str) -> EngineStore:
        """The store of that URL, to be opened."""
        return open_store(url, for_node=True)

    def executors(
        self,
        registry: Registry,
        options: ExecutorOptions,
        *,
        loop: asyncio.AbstractEventLoop | None,
        transaction: TransactionFactory,
    ) -> tuple[Executor, CoroutineExecutor]:
        """What runs attempts, and again the part of it that runs coroutines, on `loop` if one is given."""
        return standard_router(registry, options, loop=loop, transaction=transaction)

    def asked(self, answer: Future[Any]) -> None:
        """Something was asked of the engine from outside; its loop turns by itself, and will answer."""
