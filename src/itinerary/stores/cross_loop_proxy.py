"""A store that belongs to one event loop, lent to somebody on another: each call is made where the store lives.

Some stores can be opened only once in a process (in memory, LMDB), so whoever looks at them beside the engine asks
through it. What is lent is what people do with a store; what nodes do with it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, cast

from itinerary.errors import NodeError, StoreUnavailable
from itinerary.ports import Store

__all__ = ["lent"]

_CALLS: Final = frozenset({"amend", "append", "claim", "control", "count_prunable", "prune", "read", "tell"})


def lent(store: Store, submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]]) -> Store:
    """The store, for other loops. `submit` runs a coroutine on the store's own; if that is over, the store cannot be
    reached."""
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
