"""The web server of a node: a thread with its own event loop, beside the engine's.

    bind()      before the node starts: an address that cannot be bound is an error of the command
    check()     before the node starts: the names of the server, and a token if other machines can reach it
    start()     when the node runs
    stop()      when the node has ended; followers of pages are disconnected

No user can delay the engine: all reads use another connection, and all pages are rendered on another thread.
Connections are limited in number and time (`protocol`, `itinerary.connections`), so that the engine has enough file
descriptors.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any, Final

import uvicorn

from itinerary.api.running_node import RunningNode
from itinerary.config.configuration import Configuration
from itinerary.connections.accept import accept_connections
from itinerary.connections.descriptors import connections_max
from itinerary.connections.gate import Gate
from itinerary.connections.refusals import Refusals
from itinerary.daemon_pool import DaemonPool
from itinerary.errors import NodeError
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import has_tokens
from itinerary.signal_safe_wait import join_thread, result_of
from itinerary.stores.urls import open_store
from itinerary.web.access import check_listening
from itinerary.web.access.hosts import Hosts
from itinerary.web.access.proxies import Proxies
from itinerary.web.asgi import WebApplication
from itinerary.web.protocol import BoundedProtocol

__all__ = ["WebServer"]

_START_TIMEOUT: Final = 30.0
_STOP_TIMEOUT: Final = 5.0
_BACKLOG: Final = 256
_CONNECTIONS_MAX: Final = 1_000
_FILES_SHARE: Final = 4
"""The server may use 1/N of the process's open files for connections."""
_CLIENT_SHARE: Final = 2
"""A single client may use 1/N of the connections."""
_HEAD_MAX: Final = 32_768
"""The maximum size of a request's line and headers, in bytes."""
_TRIED_MAX: Final = 20
"""The number of further ports that are tried, if the port is not configured."""


class WebServer:
    """The web server of one node. Created, bound, started and stopped once."""

    def __init__(self, at: ListenAt, *, log: Any, may_move: bool = False) -> None:
        """Set the address. `may_move`: the port is not configured, so another may be used if it is taken."""
        self._wanted, self._log, self._may_move = at, log, may_move
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[None] = Future()

    def bind(self) -> ListenAt:
        """Bind the address. Raises NodeError if that fails."""
        wanted, ports = self._wanted, [self._wanted.port]
        if self._may_move and wanted.port:
            ports += range(wanted.port + 1, min(wanted.port + 1 + _TRIED_MAX, 65_536))
        for port in ports:
            try:
                family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
                self._socket = socket.create_server((wanted.host, port), family=family, backlog=_BACKLOG)
            except OSError as error:
                if port == ports[-1]:
                    at = ListenAt(wanted.host, wanted.port)
                    raise NodeError(
                        f"web: {at} cannot be listened on: {error.strerror or error}; "
                        "name another address with --web HOST:PORT, or use --no-web"
                    ) from error
            else:
                return self.at
        raise AssertionError("the last port was either bound or refused")

    @property
    def at(self) -> ListenAt:
        """The address that the server listens on."""
        assert self._socket is not None, "bound before"
        return ListenAt(self._wanted.host, self._socket.getsockname()[1])

    async def check(self, configuration: Configuration) -> None:
        """Check the names and the tokens before the node starts anything.

        Raises:
            ConfigError: One of `web_names` is not a host name.
            NodeError: Other machines can reach the address, and no token is valid.
            StoreError: The tokens cannot be read.
        """
        Hosts(self.at, configuration.web_names)
        if not self.at.is_loopback:
            async with open_store(configuration.store) as store:
                check_listening(self.at, has_tokens=await has_tokens(store.read))

    def start(self, node: RunningNode, configuration: Configuration) -> None:
        """Start to serve. Raises the error that prevented the start."""
        self._thread = threading.Thread(
            target=self._live, args=(node, configuration), name="itinerary-web", daemon=True
        )
        self._thread.start()
        result_of(self._started, _START_TIMEOUT)
        self._log.info("web.listening", at=str(self.at))

    def stop(self) -> None:
        """Stop serving. No effect if the server does not run."""
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
        if self._thread is not None:
            join_thread(self._thread, _STOP_TIMEOUT)
        if self._socket is not None:
            self._socket.close()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _live(self, node: RunningNode, configuration: Configuration) -> None:
        try:
            asyncio.run(self._run(node, configuration))
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _run(self, node: RunningNode, configuration: Configuration) -> None:
        assert self._socket is not None, "bound before"
        asyncio.get_running_loop().set_default_executor(DaemonPool("itinerary-web-helper"))
        refusals = Refusals("web", self._log, node.tally().count_refusal)
        in_all = connections_max(_FILES_SHARE, _CONNECTIONS_MAX)
        gate = Gate(
            in_all,
            max(1, in_all // _CLIENT_SHARE),
            lambda client: refusals.add("too_many_connections", client),
            is_shared=Proxies(configuration.web_proxies).__contains__,
        )
        serving = WebApplication(node, configuration, self.at, self._log, refusals=refusals, streams_max=in_all // 2)
        async with serving as app:
            config = uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=_HEAD_MAX,
                timeout_graceful_shutdown=1,
            )
            self._server = _BoundedServer(config, gate, refusals)
            self._started.set_result(None)
            await self._server.serve(sockets=[self._socket])
        refusals.close()


class _BoundedServer(uvicorn.Server):
    """uvicorn's server, which accepts connections through our gate."""

    def __init__(self, config: uvicorn.Config, gate: Gate, refusals: Refusals) -> None:
        super().__init__(config)
        self._gate, self._refusals = gate, refusals
        self._accepting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        assert sockets, "bound before"
        self.servers = []
        self._accepting = asyncio.create_task(
            accept_connections(sockets[0], self._gate, self._refusals, self._protocol), name="accept connections"
        )
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Run the work of a tick, ten times a second. Raises the error that ended the accept loop, which is a bug."""
        if self._accepting is not None and self._accepting.done():
            self._accepting.result()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and close the open ones."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return BoundedProtocol(self.config, self.server_state, self._gate, self._refusals)
