"""The API server: credentials, and the few calls to it. Only this module knows `kubernetes-asyncio`.

    KUBECONFIG is set            that file, or files
    in a pod                     the service account's token, which is read again as it changes
    neither                      ~/.kube/config

Pods are passed as JSON, because the library's models know one version of Kubernetes, and servers have another. There
are two kinds of errors, and callers need to distinguish only these:

    Unreachable    no answer, or "later": the server may have made the change or not; the caller retries
    Refused        an answer that refuses: 404, 409, 403, 422 …
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from itinerary.errors import ConfigError, ItineraryError
from itinerary.executors.pods.definition import require_library

__all__ = ["ApiRefused", "Cluster", "Unreachable", "connect"]

CALL_TIMEOUT: Final = 15.0
WATCH_FOR: Final = 60
"""Seconds after which the server ends a watch, and the client starts another. This detects a dead connection."""
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_LINE_MAX: Final = 4 * 1024 * 1024
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOME: Final = "~/.kube/config"
_CHUNK: Final = 65_536
_TOKEN_FOR: Final = 60.0
"""Seconds after which a token is requested again. Its source knows whether the old one is still valid."""


class Unreachable(ItineraryError):
    """The API server did not answer, or cannot answer now."""


class ApiRefused(ItineraryError):
    """The API server refused a call."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def connect() -> Cluster:
    """Connect to the cluster of this process's credentials. Raises ConfigError if there are none."""
    require_library()
    from kubernetes_asyncio import client  # noqa: PLC0415 - an extra, which takes a second to import

    configuration, namespace = await asyncio.to_thread(_credentials)
    api = client.ApiClient(configuration)
    return Cluster(client.CoreV1Api(api), namespace)


def _credentials() -> tuple[Any, str]:
    """Read the credentials, in a helper thread, because this reads files and may run programs that return tokens."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - see above

    configuration = type.__call__(client.Configuration)
    path = os.environ.get("KUBECONFIG")
    try:
        if not path and os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library has none
            return configuration, (_ACCOUNT / "namespace").read_text().strip()
        if not path and not Path(_HOME).expanduser().exists():
            raise ConfigError(
                "there are no credentials for Kubernetes: set KUBECONFIG, write ~/.kube/config, or run in a pod with a "
                "service account"
            )
        loader = asyncio.run(
            config.load_kube_config(path or _HOME, client_configuration=configuration, persist_config=False)
        )
        _keep_fresh(configuration, loader)
        context = loader.current_context or {}
        return configuration, context.get("context", {}).get("namespace") or "default"
    except (config.ConfigException, OSError, TypeError, AttributeError) as error:
        raise ConfigError(f"the credentials for Kubernetes cannot be read: {type(error).__name__}: {error}") from error


def _keep_fresh(configuration: Any, loader: Any) -> None:
    """Renew a short-lived token from a program or a provider regularly."""
    if not {"exec", "auth-provider"} & set(loader._user.value if loader._user else ()):  # noqa: SLF001 - private
        return
    asked_at = time.monotonic()

    async def refresh(_: Any) -> None:
        nonlocal asked_at
        if time.monotonic() - asked_at >= _TOKEN_FOR:
            asked_at = time.monotonic()
            await loader.load_and_set(configuration)

    configuration.refresh_api_key_hook = refresh


class Cluster:
    """The pods of a cluster."""

    def __init__(self, api: Any, namespace: str) -> None:
        self._api, self.namespace = api, namespace

    async def close(self) -> None:
        """Close all connections."""
        await self._api.api_client.close()

    async def create(self, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
        """Create a pod. Raises Refused with status 409 if a pod of that name exists."""
        return await self._call(self._api.create_namespaced_pod, namespace, pod)

    async def find(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the pod of that name; None if there is none."""
        try:
            return await self._call(self._api.read_namespaced_pod, name, namespace)
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def patch(self, namespace: str, name: str, patch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Change a pod with a JSON patch."""
        kind = "application/json-patch+json"
        return await self._call(self._api.patch_namespaced_pod, name, namespace, list(patch), _content_type=kind)

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> bool:
        """Delete a pod, if it still has that UID.

        Args:
            namespace: The namespace of the pod.
            name: The name of the pod.
            uid: The UID that the pod must have.
            grace: The grace period, in seconds.

        Returns:
            False if that pod no longer exists.
        """
        body = {"preconditions": {"uid": uid}, "gracePeriodSeconds": grace}
        try:
            await self._call(self._api.delete_namespaced_pod, name, namespace, body=body)
        except ApiRefused as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def pods(self, namespace: str | None, selector: str) -> tuple[list[dict[str, Any]], str]:
        """Return the pods with these labels, in one namespace or in all, and the version of the list."""
        call = self._api.list_pod_for_all_namespaces if namespace is None else self._api.list_namespaced_pod
        where = () if namespace is None else (namespace,)
        found = await self._call(call, *where, label_selector=selector)
        return found.get("items") or [], found["metadata"]["resourceVersion"]

    async def watch(self, namespace: str, selector: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of pods with these labels, from a version on, until the server ends the watch.

        Raises:
            Refused: With status 410 if the server no longer has that version.
        """
        call = self._api.list_namespaced_pod(
            namespace,
            label_selector=selector,
            resource_version=version,
            watch=True,
            allow_watch_bookmarks=True,
            timeout_seconds=WATCH_FOR,
            _preload_content=False,
            _request_timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CALL_TIMEOUT, sock_read=WATCH_FOR + CALL_TIMEOUT
            ),
        )
        async with _answer(call) as response:
            unread = b""
            async for chunk in response.content.iter_any():
                unread += chunk
                *lines, unread = unread.split(b"\n")
                if len(unread) > _LINE_MAX:
                    raise Unreachable(f"an event of a watch is longer than {_LINE_MAX} bytes")
                for line in lines:
                    if line.strip():
                        yield _event(line)

    async def log(
        self, namespace: str, name: str, container: str, write: Callable[[bytes], None], *, follow: bool
    ) -> None:
        """Read the output of a container up to now, or until the container ends if `follow` is true."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CALL_TIMEOUT, sock_read=None if follow else CALL_TIMEOUT
        )
        call = self._api.read_namespaced_pod_log(
            name, namespace, container=container, follow=follow, _preload_content=False, _request_timeout=timeout
        )
        async with _answer(call) as response:
            async for chunk in response.content.iter_chunked(_CHUNK):
                write(chunk)

    async def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        async with _answer(call(*arguments, _preload_content=False, _request_timeout=timeout, **named)) as response:
            found = msgspec.json.decode(await response.read())
        if not isinstance(found, dict):
            raise Unreachable("the API server answered with something that is no object")
        return found


@asynccontextmanager
async def _answer(call: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    """Open the answer to a call while it is read. Raises Unreachable or Refused for an error."""
    try:
        response: aiohttp.ClientResponse = await call
        async with response:
            if response.status >= 300:
                raise _refusal(response.status, await response.text())
            yield response
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
        raise Unreachable(f"the API server cannot be reached: {type(error).__name__}: {error}") from error


def _refusal(status: int, text: str) -> ItineraryError:
    try:
        message = str(msgspec.json.decode(text)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = text[:500]
    if status in _LATER:
        return Unreachable(f"the API server cannot answer now, {status}: {message}")
    return ApiRefused(status, f"Kubernetes refused it, {status}: {message}")


def _event(line: bytes) -> dict[str, Any]:
    event = msgspec.json.decode(line)
    if event.get("type") == "ERROR":
        raise ApiRefused(event["object"].get("code", 500), str(event["object"].get("message", "the watch failed")))
    assert isinstance(event, dict), "a watch sends objects"
    return event
