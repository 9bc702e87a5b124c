"""An API server with nothing behind it, for what no real one does when asked: a watch that breaks, expires, or lies
still; a call whose answer is lost; a pod that comes into every state there is.

It keeps pods, gives them versions, sends events to watches by label, and answers with 404, 409, 410 and 422 where a
real one does. No kubelet runs anything: tests say what becomes of a pod.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from aiohttp import web

__all__ = ["ApiServer", "serving"]

_PODS: Final = "/api/v1/namespaces/{namespace}/pods"
_KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me", "namespace": "home"}}],
    "current-context": "here",
}


class ApiServer:
    """Pods, by name, and everything that has happened to them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, bytes] = {}
        self.created: list[str] = []
        self.deleted: list[dict[str, Any]] = []
        self.version = 100
        self.forgotten = 0
        """Versions below this are gone (410)."""
        self.refuses: list[Callable[[web.Request], web.Response | None]] = []
        """Asked first about every request."""
        self.loses_answers_to: list[str] = []
        """Methods whose next call is carried out, and not answered."""
        self.watches = 0
        self.lists = 0
        self._events: list[tuple[int, str, dict[str, Any], dict[str, Any] | None]] = []
        self._happened = asyncio.Condition()
        self._broken = asyncio.Event()

    # -- what tests do -------------------------------------------------------------------------------------------------

    async def change(self, name: str, status: dict[str, Any], *, deleted: bool = False) -> None:
        """A pod is in another state."""
        before = deepcopy(self.pods[name])
        self.pods[name]["status"] = status
        if deleted:
            self.pods[name]["metadata"]["deletionTimestamp"] = "2026-11-16T12:00:00Z"
        await self._notify("MODIFIED", self.pods[name], before)

    async def remove(self, name: str) -> None:
        """A pod is gone."""
        pod = self.pods.pop(name)
        await self._notify("DELETED", pod, pod)

    async def break_watches(self) -> None:
        """All watches end in the middle."""
        self._broken.set()
        async with self._happened:
            self._happened.notify_all()
        self._broken = asyncio.Event()

    def forget(self) -> None:
        """All that has happened so far is forgotten: who wants to watch from then must list again."""
        self.forgotten = self.version + 1
        self.version += 1

    async def _notify(self, kind: str, pod: dict[str, Any], before: dict[str, Any] | None) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self._events.append((self.version, kind, deepcopy(pod), before))
        async with self._happened:
            self._happened.notify_all()

    # -- what it answers -----------------------------------------------------------------------------------------------

    @web.middleware
    async def gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        for refuse in self.refuses:
            if (refusal := refuse(request)) is not None:
                return refusal
        answer: web.StreamResponse = await handler(request)
        if request.method in self.loses_answers_to:
            self.loses_answers_to.remove(request.method)
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def create(self, request: web.Request) -> web.Response:
        pod = await request.json()
        name = pod["metadata"]["name"]
        if name in self.pods:
            return refused(409, f'pods "{name}" already exists')
        self.created.append(name)
        pod["metadata"] |= {"uid": str(uuid4()), "namespace": request.match_info["namespace"]}
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        await self._notify("ADDED", pod, None)
        return web.json_response(pod, status=201)

    async def read(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        return refused(404, "not found") if pod is None else web.json_response(pod)

    async def patch(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/json-patch+json"
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return refused(404, "not found")
        changed, before = deepcopy(pod), deepcopy(pod)
        for step in await request.json():
            *path, last = [part.replace("~1", "/") for part in step["path"].split("/")[1:]]
            place = changed
            for part in path:
                place = place[part]
            if step["op"] == "test" and place[last] != step["value"]:
                return refused(422, "the server rejected our request due to an error in our request")
            place[last] = step["value"]
        self.pods[request.match_info["name"]] = changed
        await self._notify("MODIFIED", changed, before)
        return web.json_response(changed)

    async def delete(self, request: web.Request) -> web.Response:
        name, body = request.match_info["name"], await request.json()
        pod = self.pods.get(name)
        if pod is None:
            return refused(404, "not found")
        if body["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return refused(409, "the UID in the precondition does not match")
        self.deleted.append({"name": name, **body})
        if body["gracePeriodSeconds"] == 0:
            await self.remove(name)
        else:
            await self.change(name, pod["status"], deleted=True)
        return web.json_response(pod)

    async def log(self, request: web.Request) -> web.Response:
        return web.Response(body=self.logs.get(request.match_info["name"], b""))

    async def all(self, request: web.Request) -> web.StreamResponse:
        key, _, value = request.query.get("labelSelector", "").partition("=")

        def matches(pod: dict[str, Any] | None) -> bool:
            return pod is not None and pod["metadata"]["labels"].get(key) == value

        if request.query.get("watch") != "true" and request.query.get("watch") != "True":
            self.lists += 1
            items = [pod for pod in self.pods.values() if matches(pod)]
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        since = int(request.query["resourceVersion"])
        if since < self.forgotten:
            return refused(410, "too old resource version")
        self.watches += 1
        return await self._watch(request, since, matches)

    async def _watch(self, request: web.Request, since: int, matches: Callable[[Any], bool]) -> web.StreamResponse:
        response, broken = web.StreamResponse(), self._broken
        await response.prepare(request)
        while True:
            for version, kind, pod, before in [event for event in self._events if event[0] > since]:
                since = version
                told = _as_told(kind, is_in=matches(pod), was_in=matches(before))
                if told is not None:
                    await response.write(json.dumps({"type": told, "object": pod}).encode() + b"\n")
            async with self._happened:
                if broken.is_set():
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                if not any(event[0] > since for event in self._events):
                    await self._happened.wait()


def _as_told(kind: str, *, is_in: bool, was_in: bool) -> str | None:
    """To a watch by label, a pod that gets the label is new, and one that loses it is gone."""
    if kind == "MODIFIED" and is_in != was_in:
        return "ADDED" if is_in else "DELETED"
    return kind if is_in or was_in else None


def refused(status: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[ApiServer]:
    """A server, and a file that KUBECONFIG may name, which leads there."""
    server = ApiServer()
    app = web.Application(middlewares=[server.gate])
    app.add_routes(
        [
            web.post(_PODS, server.create),
            web.get(_PODS, server.all),
            web.get("/api/v1/pods", server.all),
            web.get(_PODS + "/{name}", server.read),
            web.patch(_PODS + "/{name}", server.patch),
            web.delete(_PODS + "/{name}", server.delete),
            web.get(_PODS + "/{name}/log", server.log),
        ]
    )
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # it is a server with sockets
    clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    (folder / "kubeconfig").write_text(json.dumps({**_KUBECONFIG, "clusters": clusters}))
    try:
        yield server
    finally:
        await runner.cleanup()
