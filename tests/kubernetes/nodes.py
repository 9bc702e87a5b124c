"""Nodes whose tasks are pods, and what their stores say of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ParamSpec

from itinerary import Itinerary, once
from itinerary.api.job import Job
from itinerary.api.running_node import RunningNode
from itinerary.model.queries import Detail, DetailsQuery
from itinerary.read.run_lookup import RunReference
from itinerary.stores.urls import open_store
from tests.kubernetes.cluster import BUSYBOX, PATIENCE, RealCluster

__all__ = ["Site", "happens", "played", "sh", "trail"]

P = ParamSpec("P")


def played(story: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """A test that is a coroutine."""

    @functools.wraps(story)
    def test(*arguments: P.args, **named: P.kwargs) -> None:
        async def whole() -> None:
            await story(*arguments, **named)

        asyncio.run(whole())

    return test


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


class Site:
    """An app on a store of its own, with jobs that are due never, and are triggered."""

    def __init__(self, cluster: RealCluster, tmp_path: Path, **settings: Any) -> None:
        self.cluster, self.url = cluster, f"sqlite:///{tmp_path / 'store.db'}"
        self.app = Itinerary(store=self.url, **settings)

    def job(self, name: str, **overrides: Any) -> Job:
        return self.app.job(name, once("2190-01-01T00:00:00Z"), **overrides)

    def pod(self, name: str, command: list[str], **more: Any) -> Job:
        """A job of one pod."""
        overrides = {key: more.pop(key) for key in ("task_timeout", "retry", "executor") if key in more}
        pod: dict[str, Any] = {"image": BUSYBOX, "namespace": self.cluster.namespace, "pull_policy": "IfNotPresent"}
        return self.job(name, **overrides).pod("main", command=command, **{**pod, **more})

    async def detail(self, run: RunReference) -> Detail:
        async with open_store(self.url) as store:
            (detail,) = await store.read(DetailsQuery((run.ref,)))
            return detail

    async def until(self, run: RunReference, *states: str) -> Detail:
        """Until an occurrence is in one of these states, as the store has it."""
        async with asyncio.timeout(PATIENCE), open_store(self.url) as store:
            while True:
                (detail,) = await store.read(DetailsQuery((run.ref,)))
                if detail.row.status in states:
                    return detail
                await asyncio.sleep(0.02)

    async def ran(self, node: RunningNode, name: str) -> Detail:
        """Trigger a job, and wait for its end."""
        run = await self.app[name].trigger()
        async with asyncio.timeout(PATIENCE):
            await node.wait(run)
        return await self.detail(run)


def trail(detail: Detail) -> str:
    return " ".join(line.after for line in detail.transitions)


async def happens(condition: Callable[[], object]) -> None:
    """Wait for something in the cluster, which tells nobody here."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)
