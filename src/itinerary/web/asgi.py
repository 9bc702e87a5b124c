"""The parts that serve requests, assembled for one start of the web server."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from itinerary.api.running_node import RunningNode
from itinerary.config.configuration import Configuration
from itinerary.connections.refusals import Refusals
from itinerary.model.queries import Answer, Query
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import TokenBook, has_tokens
from itinerary.web.access import Admission, RateLimits, check_listening
from itinerary.web.access.local import OwnerOf
from itinerary.web.api.routes import API_ROUTES
from itinerary.web.api.state import ApiState
from itinerary.web.application import application
from itinerary.web.live import LivePages
from itinerary.web.pages.routes import PAGES
from itinerary.web.pages.templates import read_ahead
from itinerary.web.requests import ASGIApp
from itinerary.web.server_state import ServerState
from itinerary.web.stream_limits import STREAMS_MAX

__all__ = ["WebApplication"]


class WebApplication(AbstractAsyncContextManager[ASGIApp]):
    """The application and its resources."""

    def __init__(
        self,
        node: RunningNode,
        configuration: Configuration,
        at: ListenAt,
        log: Any,
        *,
        limits: RateLimits | None = None,
        owner_of: OwnerOf | None = None,
        refusals: Refusals | None = None,
        streams_max: int = STREAMS_MAX,
    ) -> None:
        """Prepare the application.

        Args:
            node: The node that the dashboard shows.
            configuration: The settings of the node.
            at: The address that the server really listens on.
            log: The log of the node.
            limits: The rate limits of a caller; None: the default limits.
            owner_of: Looks up the user id behind a connection; None: the lookup of this system.
            refusals: Counts and logs rejections; None: only logs.
            streams_max: The maximum number of concurrent streams and live pages.
        """
        self._refusals, self._streams_max = refusals, streams_max
        self._owner_of = owner_of
        self._server = ServerState(node, configuration, log=log)
        self._at, self._log, self._limits = at, log, limits
        self._service: ApiState | None = None
        self._going_on: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> ASGIApp:
        """Open all resources. Raises NodeError if the server may not listen at its address."""
        if not self._at.is_loopback:
            check_listening(self._at, has_tokens=await has_tokens(self._read))
        for name, work in (("rounds", self._server.rounds.run()), ("templates", read_ahead())):
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(self._tell_of)
            self._going_on.append(task)
        configuration = self._server.configuration
        admission = Admission(
            self._at,
            TokenBook(self._read),
            names=configuration.web_names,
            proxies=configuration.web_proxies,
            local=configuration.web_local,
            owner_of=self._owner_of,
            limits=self._limits,
        )
        self._service = ApiState(self._server, self._log)
        return application(
            LivePages(self._server),
            admission,
            self._log,
            [*PAGES, *API_ROUTES],
            api=self._service,
            refusals=self._refusals,
            streams_max=self._streams_max,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._going_on:
            task.cancel()
        if self._going_on:
            await asyncio.wait(self._going_on)
        if self._service is not None:
            await self._service.close()
        await self._server.close()

    def _tell_of(self, task: asyncio.Task[None]) -> None:
        """Log the failure of a background task. Such a failure is our bug; pages work without the task."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("web.failed", path=task.get_name(), exc_info=error)

    async def _read(self, query: Query[Answer]) -> Answer:
        return await (await self._server.store()).read(query)
