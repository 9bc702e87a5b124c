"""A process that writes to a store which stops answering: what it is told, and how it ends.

    python -m tests.integration.stores.silent URL

It says `open`, waits for a line, writes, says what came of the write and of a read, and of closing, and ends. A second
argument `heals` makes it wait for another line and write again, before it closes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from itinerary.errors import StoreError
from itinerary.model.queries import StoreStatusQuery
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


class _Log:
    def warning(self, event: str, **fields: Any) -> None:
        _say(event=event, **fields)


async def _write(store: EngineStore) -> None:
    try:
        await store.notify(["topic"])
    except StoreError as error:
        _say(error=type(error).__name__, message=str(error))
    else:
        _say(written=True)


async def _main(url: str, *, heals: bool) -> None:
    store = open_store(url)
    store.log_to(_Log())
    await store.open()
    _say(open=True)
    sys.stdin.readline()
    await _write(store)
    await store.read(StoreStatusQuery())
    _say(read=True)
    if heals:
        sys.stdin.readline()
        await _write(store)
    await store.close()
    _say(closed=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], heals="heals" in sys.argv))
