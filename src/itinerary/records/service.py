"""The record schedulers of a program, on one node.

One watch on the store receives the notifications for all of them, above all that a cycle is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from itinerary.errors import NodeError, StoreError
from itinerary.model.stalled import StalledPartition
from itinerary.ports import Store
from itinerary.records.worker import RecordWorker

__all__ = ["RecordsService"]

_WATCH_AGAIN_AFTER: Final = 1.0
_LEAVE_TIMEOUT: Final = 5.0
"""The time in seconds for which an ending node tries to give its partitions back."""


class RecordsService:
    """The workers of all record schedulers, on the engine's loop."""

    def __init__(self, store: Store, log: Any, clerks: Sequence[RecordWorker]) -> None:
        self._store, self._log = store, log
        self._clerks = {worker.name: worker for worker in clerks}

    def worker(self, desk: str) -> RecordWorker:
        """Return the worker of a record scheduler.

        Raises:
            NodeError: The record scheduler was declared after the start of the node.
        """
        worker = self._clerks.get(desk)
        if worker is None:
            raise NodeError(f"desk {desk!r} was declared after the node had started; start it again")
        return worker

    def figures(self) -> dict[str, dict[str, float | dict[str, float]]]:
        """Return the metrics of each record scheduler, by name. May be called from any thread."""
        return {name: worker.figures.published() for name, worker in self._clerks.items()}

    def stalled(self) -> list[StalledPartition]:
        """Return the partitions that are not scheduled because of an unknown time zone. Safe from any thread."""
        return [one for worker in self._clerks.values() for one in worker.stalled]

    async def run(self) -> None:
        """Run until cancelled or ended."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="records listening")
            for worker in self._clerks.values():
                group.create_task(worker.run(), name=f"records {worker.name}")

    def in_hand(self) -> list[str]:
        """Return the names of the deliveries in progress. May be called from any thread."""
        return [name for worker in self._clerks.values() for name in worker.in_hand()]

    async def end(self, grace: float) -> list[str]:
        """Wait for the handlers to finish, and give all partitions back if the store answers.

        Args:
            grace: The longest wait for the handlers, in seconds.

        Returns:
            The names of the deliveries that were still in progress after that time.
        """
        ends = [self._ended(worker, grace) for worker in self._clerks.values()]
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(error, StoreError | TimeoutError):
                self._log.warning(
                    "records.left_without_a_word", error=str(error), hint="its leases run out, and others go on then"
                )
            elif isinstance(error, BaseException):
                raise error
        return [name for worker in self._clerks.values() for name in worker.cancelled]

    async def _ended(self, worker: RecordWorker, grace: float) -> None:
        async with asyncio.timeout(grace + _LEAVE_TIMEOUT):
            await worker.end(grace)

    async def _listen(self) -> None:
        while True:
            try:
                async for topics in self._store.watch():
                    for worker in self._clerks.values():
                        worker.handle(topics)
            except StoreError as error:
                self._log.debug("records.watch_interrupted", error=str(error))
            await asyncio.sleep(_WATCH_AGAIN_AFTER)
