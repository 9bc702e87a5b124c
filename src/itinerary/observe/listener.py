"""The listener: `/health/live`, `/health/ready`, `/health/progress` and `/metrics`, on a thread of their own (U8).

    engine's thread          listener's thread
    the node        ◄─ask──  a pulse, once a second
    the store       ◄─read─  a connection of its own (`store_status`)
                             an HTTP server: one request a connection, and then it is closed (`probe_server`)

A probe is answered whatever the engine does: a node that hangs is reported, and does not block the probe.

Off loopback, every request must have a token (Q1): `Authorization: Bearer …`. On loopback the token is optional, so the
`Host` of a request must be a loopback name. A page of another site whose name resolves to 127.0.0.1 (DNS rebinding)
still sends its own name. Any port is allowed, since a tunnel has another port.

Requests are not trusted: only GET and HEAD, no body, short lines, few connections at a time, each for some seconds.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import HttpVersion11, web

from itinerary.connections.accept import accept_connections
from itinerary.connections.descriptors import connections_max
from itinerary.connections.gate import Gate
from itinerary.connections.refusals import Refusals
from itinerary.daemon_pool import DaemonPool
from itinerary.errors import NodeError, StoreUnavailable
from itinerary.model.queries import Answer, Query
from itinerary.observe.counters import MetricCounters
from itinerary.observe.health import NodePhase
from itinerary.observe.listen_address import ListenAt, authority
from itinerary.observe.metrics import CONTENT_TYPE
from itinerary.observe.node_probe import NodeProbe
from itinerary.observe.probe_server import ProbeServer
from itinerary.observe.probes import PROBES, Probes
from itinerary.signal_safe_wait import join_thread, result_of
from itinerary.stores.store import EngineStore
from itinerary.stores.urls import is_opened_once, open_store

__all__ = ["CONNECTIONS_MAX", "HttpListener"]

CONNECTIONS_MAX: Final = 64
_FILES_SHARE: Final = 16
"""Connections may use one in this number of the process's open files."""
_BACKLOG: Final = 128
_PULSE_INTERVAL: Final = 1.0
_START_TIMEOUT: Final = 10.0
_STOP_TIMEOUT: Final = 5.0
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Connection": "close"}


class HttpListener:
    """The HTTP listener of one node. Created, started and stopped once; `stop` may be called from any thread."""

    def __init__(
        self,
        at: ListenAt,
        watched: NodeProbe,
        tally: MetricCounters,
        *,
        store: str,
        heartbeat_interval: int,
        log: Any,
        token: str | None = None,
    ) -> None:
        """Keep the parts of the listener.

        Args:
            at: The address to listen on.
            watched: The node.
            tally: The counts of the node.
            store: The URL of the store.
            heartbeat_interval: The heartbeat interval of nodes in microseconds.
            log: The logger.
            token: The token that requests must have; None, on loopback only: no token.

        Raises:
            NodeError: The address is not on loopback, and there is no token.
        """
        if token is None and not at.is_loopback:
            raise NodeError(f"health: {at} can be reached from elsewhere, and needs a token; set health_token")
        self._at, self._watched, self._tally, self._token = at, watched, tally, token
        self._store, self._interval, self._log = store, heartbeat_interval, log
        self._thread = threading.Thread(target=self._live, name="itinerary-health", daemon=True)
        self._started: Future[ListenAt] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    def start(self) -> ListenAt:
        """Start to listen, and return the address.

        Raises:
            NodeError: The address cannot be used.
        """
        self._thread.start()
        return result_of(self._started, _START_TIMEOUT)

    @property
    def at(self) -> ListenAt:
        """The address on which the listener accepts connections."""
        return self._started.result(_START_TIMEOUT)

    def stop(self) -> None:
        """Stop listening."""
        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            try:
                loop.call_soon_threadsafe(end.set)
            except RuntimeError:
                return  # the loop stopped at this moment
        if threading.current_thread() is not self._thread:
            join_thread(self._thread, _STOP_TIMEOUT)

    # -- in the listener's thread ------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_default_executor(DaemonPool("itinerary-health-helper"))
        reader = _Reader(self._store, self._watched)
        probes = Probes(
            self._watched, self._tally, reader.read, heartbeat_interval=self._interval, time=self._loop.time
        )
        refusals = Refusals("health", self._log, self._tally.count_refusal)
        in_all = connections_max(_FILES_SHARE, CONNECTIONS_MAX)
        gate = Gate(in_all, max(1, in_all // 2), lambda client: refusals.add("too_many_connections", client))
        routes = _Routes(probes, self._token, is_loopback=self._at.is_loopback)
        server = ProbeServer(routes.answer, gate, refusals)
        routes.server = server
        sockets = await self._bind()
        self._started.set_result(ListenAt(self._at.host, sockets[0].getsockname()[1]))
        accepting = [
            asyncio.create_task(accept_connections(one, gate, refusals, server), name="accept probes")
            for one in sockets
        ]
        try:
            while not self._end.is_set():
                for task in accepting:
                    if task.done():
                        task.result()
                probes.feel()
                await _either(self._end, _PULSE_INTERVAL)
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for one in sockets:
                one.close()
            await server.shutdown(0.0)
            refusals.close()
            await probes.close()
            await reader.close()

    async def _bind(self) -> list[socket.socket]:
        """Listen on every address of the host. Raise NodeError if one cannot be used."""
        sockets: list[socket.socket] = []
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                self._at.host, self._at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, address in dict.fromkeys(found):
                sockets.append(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
                if not self._at.port:
                    break  # a free port of one address may be in use on another
        except OSError as error:
            for one in sockets:
                one.close()
            raise NodeError(f"health: {self._at} cannot be listened on: {error.strerror or error}") from error
        return sockets


async def _either(event: asyncio.Event, timeout: float) -> None:  # noqa: ASYNC109 - the length of the wait, not a limit
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return


class _Reader:
    """A reader of the store: through its own connection, or through the engine if the store allows only one."""

    def __init__(self, url: str, watched: NodeProbe) -> None:
        self._url, self._watched = url, watched
        self._store: EngineStore | None = None
        self._lock = asyncio.Lock()

    async def read(self, query: Query[Answer]) -> Answer:
        """Return the answer of the store."""
        if self._watched.phase is NodePhase.STARTING:
            raise StoreUnavailable("the node is starting")
        if is_opened_once(self._url):
            return await self._through_the_engine(query)
        async with self._lock:
            if self._store is None:
                store = open_store(self._url)
                await store.open()
                self._store = store
        return await self._store.read(query)

    async def _through_the_engine(self, query: Query[Answer]) -> Answer:
        try:
            return await asyncio.wrap_future(self._watched.read(query))
        except NodeError as error:
            raise StoreUnavailable(str(error)) from error

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class _Routes:
    """The routes of the listener."""

    server: ProbeServer

    def __init__(self, probes: Probes, token: str | None, *, is_loopback: bool) -> None:
        self._probes, self._is_loopback = probes, is_loopback
        self._token = None if token is None else f"Bearer {token}".encode()
        self._routes: dict[str, Callable[[], Awaitable[web.Response]]] = {
            f"/health/{probe}": partial(self._told, probe) for probe in PROBES
        }
        self._routes["/metrics"] = self._all_metrics

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request and close its connection."""
        self.server.begin(request)
        refusal = self._refusal(request)
        if refusal is None:
            response = await self._routes[request.path]()
        else:
            reason, response = refusal
            self.server.refused(reason, request, response.status)
        response.force_close()
        return response

    def _refusal(self, request: web.BaseRequest) -> tuple[str, web.Response] | None:
        """Return why a request is refused; None if it is not."""
        if self._is_loopback and not _is_for_loopback(request):
            return "wrong_host", _text(421, "this server is reached as localhost, 127.0.0.1 or [::1]")
        if not self._may(request.headers.get("Authorization", "")):
            needed = {"WWW-Authenticate": "Bearer"}
            return "no_token", _text(401, "this needs a token; send Authorization: Bearer …", needed)
        if request.path not in self._routes:
            return "not_found", _text(404, f"there is only {', '.join(self._routes)}")
        if request.method not in ("GET", "HEAD"):
            return "unknown_method", _text(405, "this can only be read", {"Allow": "GET, HEAD"})
        if request.body_exists:
            return "body", _text(413, "nothing is read here that comes with a request")
        return None

    def _may(self, given: str) -> bool:
        if self._token is None:
            return True
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    async def _all_metrics(self) -> web.Response:
        headers = {**_HEADERS, "Content-Type": CONTENT_TYPE}
        return web.Response(body=await self._probes.metrics(), headers=headers)

    async def _told(self, probe: str) -> web.Response:
        verdict = await self._probes.verdict(probe)
        body = msgspec.json.encode({"status": "ok" if verdict.ok else "failing", "why": verdict.why})
        headers = {**_HEADERS, "Content-Type": "application/json"}
        return web.Response(status=200 if verdict.ok else 503, body=body, headers=headers)


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={**_HEADERS, **(headers or {})})


def _is_for_loopback(request: web.BaseRequest) -> bool:
    """True if the request names a loopback host. HTTP/1.0, which no browser speaks, needs no name."""
    given = request.headers.getall("Host", [])
    if not given:
        return request.version < HttpVersion11
    read = authority(given[0]) if len(given) == 1 else None
    return read is not None and ListenAt(read[0], 0).is_loopback
