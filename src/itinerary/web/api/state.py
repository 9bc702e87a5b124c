"""State that all routes of the API share while the web server runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from itinerary.model.rows import JobRow
from itinerary.observe.probes import Probes
from itinerary.operations.job_updates import Updates
from itinerary.operations.operator import Operator
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web.api.backfills import BackfillRegistry
from itinerary.web.api.feed import Feed
from itinerary.web.api.lookup import JobNames
from itinerary.web.guard import caller_of
from itinerary.web.problems import RequestRefused
from itinerary.web.request_policy import check_definition
from itinerary.web.requests import Request
from itinerary.web.server_state import ServerState

__all__ = ["ApiState"]

_PULSE_INTERVAL: Final = 1.0


class ApiState:
    """The shared state of the API routes. Starts background tasks: call `close` at the end."""

    def __init__(self, server: ServerState, log: Any) -> None:
        self.server, self.log = server, log
        self.names = JobNames(server)
        self.backfills = BackfillRegistry(log)
        self.feed = Feed(server)
        self.probes = Probes(
            server.watched,
            server.node.tally(),
            self._read,
            heartbeat_interval=server.configuration.settings.node_heartbeat_interval,
            time=asyncio.get_running_loop().time,
        )
        self._pruning = asyncio.Lock()
        self._pulse = asyncio.create_task(self._feel(), name="pulse of the node")

    async def close(self) -> None:
        """Stop all background tasks."""
        self._pulse.cancel()
        await asyncio.wait([self._pulse])
        await self.backfills.close()
        await self.feed.close()
        await self.probes.close()

    async def job(self, wanted: str) -> tuple[StoreSnapshot, JobRow]:
        """Return a snapshot and the job with a name or an id in it. Raises NotFoundError."""
        snapshot = await self.server.snapshot()
        return snapshot, self.names.job(snapshot, wanted)

    async def operator(self, request: Request) -> Operator:
        """Return an operator that acts in the name of the caller."""
        return await self.server.operator(caller_of(request))

    async def operate(self, request: Request, wanted: str) -> tuple[Operator, JobRow]:
        """Return an operator in the name of the caller, and the current row of a job. Raises NotFoundError."""
        operator = await self.operator(request)
        snapshot = await self.server.snapshot()
        return operator, self.names.job(snapshot, wanted)

    def updates(self, operator: Operator) -> Updates:
        """Return the update interface, in the name of the caller."""
        server = self.server
        return Updates(
            operator.view.store,
            operator.view,
            operator.by,
            server.node.rules,
            lambda: server.configuration.settings.update_policy,
            lambda job, wanted, stored: check_definition(job, wanted, stored, server.node.rules),
        )

    @asynccontextmanager
    async def pruning(self) -> AsyncIterator[None]:
        """Hold the prune lock: each prune scans the whole store, so only one runs at a time. Raises Refused."""
        if self._pruning.locked():
            raise RequestRefused(503, "Busy", "another request removes old history on this node; ask again in a while")
        async with self._pruning:
            yield

    async def _feel(self) -> None:
        while True:
            self.probes.feel()
            await asyncio.sleep(_PULSE_INTERVAL)

    async def _read(self, query: Any) -> Any:
        return await (await self.server.store()).read(query)
