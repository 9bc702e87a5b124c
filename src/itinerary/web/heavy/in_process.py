"""Heavy work in the node's own process, with stricter limits, where no other process can do it.

A store in memory lives in this process, and an LMDB store belongs to the process that has opened it. Zone data or kinds
of schedules that the program itself defines are known only here. Such work runs in a thread with its own event loop.
Before each store read it sleeps for as long as it has worked. If its request has ended, it stops there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

from itinerary.audit import AuditProgress
from itinerary.model.settings import Settings
from itinerary.ports import Store
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import ZoneData
from itinerary.web.heavy.bounds import IN_PROCESS
from itinerary.web.heavy.perform import Environment, perform
from itinerary.web.heavy.works import AnyWork

__all__ = ["InProcess"]

_REST_MAX: Final = 1.0


class _Stopped(Exception):
    """Raised in the thread when the request has ended."""


class InProcess:
    """A work in this process. Used once."""

    def __init__(
        self, view: StoreView, settings: Settings, zone_data: ZoneData, handle: Callable[[AuditProgress], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._view, self._settings, self._zone_data, self._handle = view, settings, zone_data, handle
        self._is_stopped = False
        self._began = self._since = 0.0
        self.cpu = 0.0
        """The CPU seconds that the work has used."""

    async def run(self, work: AnyWork) -> bytes:
        """Run the work. If this is cancelled, the thread ends at its next store read."""
        working = asyncio.ensure_future(asyncio.to_thread(self._work, work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._is_stopped = True
            await asyncio.wait([working])
            raise

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _work(self, work: AnyWork) -> bytes:
        try:
            return asyncio.run(self._perform(work))
        except _Stopped:
            return b""  # no request waits for the result
        finally:
            self.cpu = time.thread_time() - self._began

    async def _perform(self, work: AnyWork) -> bytes:
        self._began = self._since = time.thread_time()
        view = StoreView(cast("Store", self), self._view.timeline)
        await view.read()
        env = Environment(
            view=view, settings=self._settings, zone_data=self._zone_data, bounds=IN_PROCESS, handle=self._heard
        )
        return await perform(work, env)

    def _heard(self, far: AuditProgress) -> None:
        self._loop.call_soon_threadsafe(self._handle, far)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._view.store.url

    async def read(self, query: Any) -> Any:
        """Read from the store, on the event loop that the store belongs to."""
        await asyncio.sleep(min(time.thread_time() - self._since, _REST_MAX))
        if self._is_stopped:
            raise _Stopped
        read: Coroutine[Any, Any, Any] = self._view.store.read(query)
        answer = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(read, self._loop))
        self._since = time.thread_time()
        return answer
