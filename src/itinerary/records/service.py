"""All desks of a program, on one node.

What somebody tells through the store, a cycle that is due above all, is heard once for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from itinerary.errors import NodeError, StoreError
from itinerary.model.stalled import StalledPartition
from itinerary.ports import Store
from itinerary.records.worker import Clerk

__all__ = ["RecordsService"]

_WATCH_AGAIN_AFTER: Final = 1.0
_LEAVE_TIMEOUT: Final = 5.0
"""How long a node that ends tries to give its partitions back, in seconds."""


class RecordsService:
    """Runs the clerks of all desks, on the engine's loop."""

    def __init__(self, store: Store, log: Any, clerks: Sequence[Clerk]) -> None:
        self._store, self._log = store, log
        self._clerks = {clerk.name: clerk for clerk in clerks}

    def clerk(self, desk: str) -> Clerk:
        """The clerk of a desk."""
        clerk = self._clerks.get(desk)
        if clerk is None:
            raise NodeError(f"desk {desk!r} was declared after the node had started; start it again")
        return clerk

    def figures(self) -> dict[str, dict[str, float | dict[str, float]]]:
        """The figures of each desk, by name. They may be looked at from any thread."""
        return {name: clerk.figures.published() for name, clerk in self._clerks.items()}

    def stalled(self) -> list[StalledPartition]:
        """The partitions of this node that are not scheduled for lack of a time zone. May be called from any thread."""
        return [one for clerk in self._clerks.values() for one in clerk.stalled]

    async def run(self) -> None:
        """Until cancelled, or ended."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="records listening")
            for clerk in self._clerks.values():
                group.create_task(clerk.run(), name=f"records {clerk.name}")

    def in_hand(self) -> list[str]:
        """Name what handlers work on. From any thread."""
        return [name for clerk in self._clerks.values() for name in clerk.in_hand()]

    async def end(self, grace: float) -> list[str]:
        """Let handlers finish, for so many seconds at most, and give all partitions back, if the store answers.

        Returns the names of what handlers still worked on when that time was over.
        """
        ends = [self._ended(clerk, grace) for clerk in self._clerks.values()]
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(error, StoreError | TimeoutError):
                self._log.warning(
                    "records.left_without_a_word", error=str(error), hint="its leases run out, and others go on then"
                )
            elif isinstance(error, BaseException):
                raise error
        return [name for clerk in self._clerks.values() for name in clerk.cancelled]

    async def _ended(self, clerk: Clerk, grace: float) -> None:
        async with asyncio.timeout(grace + _LEAVE_TIMEOUT):
            await clerk.end(grace)

    async def _listen(self) -> None:
        while True:
            try:
                async for topics in self._store.watch():
                    for clerk in self._clerks.values():
                        clerk.hear(topics)
            except StoreError as error:
                self._log.debug("records.watch_interrupted", error=str(error))
            await asyncio.sleep(_WATCH_AGAIN_AFTER)
