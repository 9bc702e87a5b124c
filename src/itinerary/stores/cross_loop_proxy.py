"""A proxy for a store that belongs to another event loop: each call runs on the loop of the store.

A process can open some stores only once (in memory, LMDB), so readers beside the node call the store through the node.
The proxy offers the operations of people, not those of nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, cast

from itinerary.errors import NodeError, StoreUnavailable
from itinerary.ports import Store

__all__ = ["lent"]

_CALLS: Final = frozenset({"amend", "append", "claim", "control", "count_prunable", "prune", "read", "notify"})


def lent(store: Store, submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]]) -> Store:
    """Return a proxy of the store for other event loops.

    Args:
        store: The store, which lives on its own loop.
        submit: Runs a coroutine on that loop. A NodeError from `submit` becomes StoreUnavailable.
    """
    return cast("Store", _Lent(store, submit))


class _Lent:
    def __init__(self, store: Store, submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]]) -> None:
        self._store, self._submit = store, submit

    @property
    def url(self) -> str:
        return self._store.url

    def __getattr__(self, name: str) -> Any:
        if name not in _CALLS:
            raise AttributeError(f"a store that is lent has no {name}; that is for the node that it belongs to")
        call = getattr(self._store, name)

        async def asked(*arguments: Any, **options: Any) -> Any:
            try:
                return await asyncio.wrap_future(self._submit(call(*arguments, **options)))
            except NodeError as error:
                raise StoreUnavailable(str(error)) from error

        return asked
