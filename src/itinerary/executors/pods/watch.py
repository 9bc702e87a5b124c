"""One watch for all pods of a node in a namespace: not one for each, and nobody asks again and again how a pod is.

    list ─► what is there, and a version ─► watch from that version ─► events … ─► ended by the server: watch on
      ▲                                                                   ├─► broken: after a while, watch on
      └────────── the server has forgotten that version (410) ────────────┘

A pod that was there and is not in a list was deleted while nobody looked. Only what was seen before the list was asked
for can be missing from it: a pod that is made meanwhile is in none.

An API server that does not answer says nothing about pods (protocol rule 28): it is asked again, less and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

import structlog

from itinerary.executors.pods.api_client import Cluster, Refused, Unreachable

__all__ = ["RETRY_MAX", "Watch", "backed_off"]

RETRY_MAX: Final = 5.0
"""The longest wait before the API server is asked again, in seconds."""
_RETRY_FIRST: Final = 0.1
_FORGOTTEN: Final = 410

_log: Final = structlog.stdlib.get_logger()


def backed_off(failures: int) -> float:
    """How long to wait after so many failures in a row, in seconds."""
    return min(_RETRY_FIRST * (1 << min(failures - 1, 20)), RETRY_MAX)


class Watch:
    """What happens to the pods of a node in one namespace."""

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
        """`seen` is told of a pod as it is, `gone` of one that is there no more, by name; `known` are the names of
        those that were there when they were last seen."""
        self._cluster, self.namespace, self._selector = cluster, namespace, selector
        self._seen, self._gone, self._known = seen, gone, known
        self._version: str | None = None
        self._failures = 0

    async def run(self) -> None:
        """Watch, for ever."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except Unreachable as error:
                self._failures += 1
                if self._failures == 1:
                    _log.warning("pods.unwatched", namespace=self.namespace, error=str(error), hint="it is tried again")
            except Refused as error:
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
                    pass  # a bookmark says only how far it has come
