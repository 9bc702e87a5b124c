"""A node with its web server but for the socket: requests are handed to the application, on a loop of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from itinerary import Itinerary
from itinerary.api.running_node import RunningNode
from itinerary.config.log_setup import engine_log
from itinerary.observe.listen_address import ListenAt
from itinerary.web.access import RateLimits
from itinerary.web.asgi import WebApplication
from tests.local_callers import all_allowed, own_user

T = TypeVar("T")
AT = ListenAt("127.0.0.1", 8321)
MANY = RateLimits(
    reads_per_second=1e6, reads_at_once=1_000_000, changes_per_second=1e6, changes_at_once=1_000_000,
    failures_per_second=1e6, failures_at_once=1_000_000,
)  # fmt: skip
PATIENCE = 60.0


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """What it says."""
        return json.loads(self.body)


class Served(AbstractContextManager["Served"]):
    """Use it in a block: the node runs as long as that."""

    def __init__(self, app: Itinerary, at: ListenAt = AT) -> None:
        self._app, self._at = app, at
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="web of a test", daemon=True)

    def __enter__(self) -> Served:
        self._running = self._app.running()
        self.node: RunningNode = self._running.__enter__()
        self._thread.start()
        configuration = all_allowed(self._app.configuration)
        self._serving = WebApplication(self.node, configuration, self._at, engine_log(), limits=MANY, owner_of=own_user)
        self._asgi = self.run(self._serving.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._serving.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        self._running.__exit__(kind, error, trace)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for something on the loop of the web server."""
        return self.submit(call).result(PATIENCE)

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done on the loop of the web server."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def ask(
        self,
        method: str,
        address: str,
        body: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """Send a request, with JSON if it has a body."""
        return self.run(self._answer(method, address, body, key, headers, raw, None))

    def begin(self, address: str, *, until: bytes, headers: Mapping[str, str] | None = None) -> Future[Answer]:
        """Follow something, until this has come."""
        return self.submit(self._answer("GET", address, None, None, headers, None, until))

    def get(self, address: str) -> Any:
        """What stands there."""
        answer = self.ask("GET", address)
        assert answer.status == 200, answer
        return answer.json

    def post(self, address: str, body: object = None, *, key: str | None = None) -> Any:
        """What comes of a change."""
        answer = self.ask("POST", address, {} if body is None else body, key=key)
        assert answer.status in (200, 202), answer
        return answer.json

    async def _answer(
        self,
        method: str,
        address: str,
        body: object,
        key: str | None,
        headers: Mapping[str, str] | None,
        raw: bytes | None,
        until: bytes | None,
    ) -> Answer:
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        heads = {"host": str(self._at)} | dict(headers or {})
        if content:
            heads = {"content-type": "application/json", "content-length": str(len(content))} | heads
        if key is not None:
            heads["idempotency-key"] = key
        parts = urlsplit(address)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote_to_bytes(parts.path).decode("utf-8", "replace"),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in heads.items()],
            "client": ("127.0.0.1", 50_000),
            "server": (self._at.host, self._at.port),
        }
        return await self.exchange(scope, content, until)

    async def exchange(self, scope: dict[str, Any], content: bytes, until: bytes | None = None) -> Answer:
        """One request as ASGI has it."""
        started: dict[str, Any] = {}
        found = bytearray()
        is_over = asyncio.Event()
        is_read = False

        async def receive() -> dict[str, Any]:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": content, "more_body": False}
            await is_over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
                return
            found.extend(message.get("body", b""))
            if (until is not None and until in found) or not message.get("more_body", False):
                is_over.set()

        answering = asyncio.ensure_future(self._asgi(scope, receive, send))
        await asyncio.wait([answering, asyncio.ensure_future(is_over.wait())], return_when=asyncio.FIRST_COMPLETED)
        is_over.set()
        if until is not None and until in found:
            answering.cancel()
            await asyncio.wait([answering])
        else:
            await answering
        headers = {name.decode(): value.decode("latin-1") for name, value in started["headers"]}
        return Answer(started["status"], headers, bytes(found))
