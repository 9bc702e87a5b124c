"""The environment of a node: its store, its executors, and its clocks.

In a program all of them are real. A test gives the same node another environment (see `testing`). There the store is in
memory, tasks take no real time, and the test moves the clock.
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

__all__ = ["NodeEnvironment"]


class NodeEnvironment:
    """The real environment."""

    def __init__(self) -> None:
        self.elapsed: Callable[[], int] = boot_time
        self.awake: Callable[[], int] = awake_time
        self.elsewhere: Elsewhere = asyncio.to_thread

    def store(self, url: str) -> EngineStore:
        """Return the store of that URL, not yet opened."""
        return open_store(url, for_node=True)

    def executors(
        self,
        registry: Registry,
        options: ExecutorOptions,
        *,
        loop: asyncio.AbstractEventLoop | None,
        transaction: TransactionFactory,
    ) -> tuple[Executor, CoroutineExecutor]:
        """Return the executor of attempts, and its part that runs coroutines, on `loop` if one is given."""
        return standard_router(registry, options, loop=loop, transaction=transaction)

    def asked(self, answer: Future[Any]) -> None:
        """Handle a call from another thread to the node. Nothing to do here: the real loop runs by itself."""
