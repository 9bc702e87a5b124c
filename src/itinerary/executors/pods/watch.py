"""A shared watch for all pods of a node in a namespace, instead of one per pod or regular requests.

    list ─► the existing pods, and a version ─► watch from that version ─► events … ─► ended by the server: watch again
      ▲                                                                       ├─► broken: watch again after a while
      └────────── the server no longer has that version (410) ────────────────┘

A pod that existed and is missing from a list was deleted while there was no watch. Only pods that were observed before
the request for the list can count as missing. A pod that is created during the request may be in no list.

An API server that does not answer says nothing about pods (protocol rule 28). The watch retries with growing delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import structlog

from itinerary.executors.pods.api_client import ApiRefused, Cluster, Unreachable

__all__ = ["RETRY_MAX", "Watch", "backed_off"]

RETRY_MAX: Final = 5.0
"""The longest wait before a retry, in seconds."""
_RETRY_FIRST: Final = 0.1
_FORGOTTEN: Final = 410

_log: Final = structlog.stdlib.get_logger()


def backed_off(failures: int) -> float:
    """Return how long to wait after a number of failures in a row, in seconds."""
    return min(_RETRY_FIRST * (1 << min(failures - 1, 20)), RETRY_MAX)


class Watch:
    """The watch of a node's pods in one namespace."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        selector: str,
        *,
        seen: Callable[[dict[str, Any]], None],
        gone: Callable[[str, dict[str, Any] | None], None],
        known: Callable[[], Collection[str]],
    ) -> None:
        """Create a watch.

        Args:
            cluster: The API server.
            namespace: The namespace to watch.
            selector: The label selector of the pods.
            seen: Receives every new state of a pod.
            gone: Receives the name of a pod that no longer exists, and its last state if known.
            known: Returns the names of the pods that existed when they were last observed.
        """
        self._cluster, self.namespace, self._selector = cluster, namespace, selector
        self._seen, self._gone, self._known = seen, gone, known
        self._version: str | None = None
        self._failures = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except Unreachable as error:
                self._failures += 1
                if self._failures == 1:
                    _log.warning("pods.unwatched", namespace=self.namespace, error=str(error), hint="it is tried again")
            except ApiRefused as error:
                if error.status != _FORGOTTEN:
                    self._failures += 1
                if self._failures == 1:
                    _log.error("pods.unwatched", namespace=self.namespace, error=str(error), hint="it is tried again")
                self._version = None
            else:
                self._failures = 0
            if self._failures:
                await asyncio.sleep(backed_off(self._failures))

    async def _list(self) -> None:
        before = set(self._known())
        pods, version = await self._cluster.pods(self.namespace, self._selector)
        self._failures = 0
        for pod in pods:
            self._seen(pod)
        for name in before - {pod["metadata"]["name"] for pod in pods}:
            self._gone(name, None)
        self._version = version

    async def _watch(self) -> None:
        assert self._version is not None, "it was listed"
        async for event in self._cluster.watch(self.namespace, self._selector, self._version):
            pod = event["object"]
            self._version, self._failures = pod["metadata"]["resourceVersion"], 0
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self._seen(pod)
                case "DELETED":
                    self._gone(pod["metadata"]["name"], pod)
                case _:
                    pass  # a bookmark has only a version
