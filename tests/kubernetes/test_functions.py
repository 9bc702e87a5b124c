"""Python functions in pods of a real cluster, in an image that the project's own script has built (K6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary.model.states import TaskState
from tests.kubernetes.cluster import RealCluster, needs_cluster
from tests.kubernetes.nodes import Site, played

needs_cluster()
pytestmark = [pytest.mark.kubernetes, pytest.mark.spec("K6")]


def of_functions(cluster: RealCluster, tmp_path: Path, image: str) -> Site:
    """A site with a job for each function of `work`, which only the image has under that name."""
    site = Site(cluster, tmp_path, allow_modules=["work"])
    pod = {"image": image, "namespace": cluster.namespace, "pull_policy": "IfNotPresent"}
    for name in ("adds", "raises", "waits"):
        declaration = site.job(name)._declaration
        declaration.add_task("main", {"python": f"work:{name}", "pod": pod}, {"executor": "pod"})
    return site


@played
async def test_a_function_in_a_pod_succeeds_with_its_result(cluster: RealCluster, tmp_path: Path, image: str) -> None:
    site = of_functions(cluster, tmp_path, image)
    async with site.app.running() as node:
        detail = await site.ran(node, "adds")
    assert detail.row.status == "completed", detail.attempts
    assert detail.tasks[0].result == '{"sum":3,"attempt":1,"task":"main"}'
    assert detail.attempts[0].output == "adding in adds\n"


@played
async def test_a_function_in_a_pod_that_raises_has_failed_with_its_traceback(
    cluster: RealCluster, tmp_path: Path, image: str
) -> None:
    site = of_functions(cluster, tmp_path, image)
    async with site.app.running() as node:
        detail = await site.ran(node, "raises")
    error = detail.attempts[0].error or ""
    assert detail.row.status == "failed"
    assert error.splitlines()[-1] == "LookupError: nothing there for main"
    assert "Traceback" in (detail.attempts[0].output or "")


@played
async def test_a_function_in_a_pod_is_cancelled_and_cleans_up(cluster: RealCluster, tmp_path: Path, image: str) -> None:
    site = of_functions(cluster, tmp_path, image)
    async with site.app.running() as node:
        run = await site.app["waits"].trigger()
        await site.until(run, "running")
        assert await node.cancel(run, reason="wrong")
        await node.wait(run)
    detail = await site.detail(run)
    assert detail.row.status == "cancelled"
    assert detail.attempts[0].status is TaskState.CANCELLED
