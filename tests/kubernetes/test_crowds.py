"""Many pods at once, an API server that goes away, nodes that die: nothing is lost, and nothing is made twice (K4)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from itinerary.model.queries import Detail, DetailsQuery, HistoryQuery, JobsByNameQuery
from itinerary.model.states import TaskState
from itinerary.stores.urls import open_store
from tests.kubernetes.cluster import BUSYBOX, RealCluster, needs_cluster, until
from tests.kubernetes.nodes import Site, happens, played, sh, trail

needs_cluster()
pytestmark = pytest.mark.kubernetes

PODS = int(os.environ.get("ITINERARY_TEST_PODS", "100"))
"""How many at once; a small machine has room for fewer at a time, and the rest waits."""


def crowd(site: Site, count: int, script: str, **more: Any) -> None:
    """One job of so many pods, all at once."""
    job = site.job("crowd", mode="parallel", execution_timeout="30m", task_timeout="25m")
    for number in range(count):
        job.pod(
            f"pod{number}",
            image=BUSYBOX,
            pull_policy="IfNotPresent",
            namespace=site.cluster.namespace,
            command=sh(script),
            env={"N": str(number)},
            start_timeout="20m",
            **more,
        )


@pytest.mark.spec("K2", "many")
@played
async def test_a_hundred_pods_at_once_are_followed_to_the_end(cluster: RealCluster, tmp_path: Path) -> None:
    site = Site(cluster, tmp_path)
    crowd(site, PODS, "echo pod $N", labels={"case": "crowd"})
    async with site.app.running() as node:
        run = await site.app["crowd"].trigger()
        async with asyncio.timeout(1_500):
            await node.wait(run)
    detail = await site.detail(run)
    assert detail.row.status == "completed"
    assert Counter(one.status for one in detail.attempts) == {TaskState.SUCCESS: PODS}
    assert {one.output for one in detail.attempts} == {f"pod {number}\n" for number in range(PODS)}
    assert len(cluster.pods("case=crowd")) == PODS
    cluster.kubectl("delete", "pods", "-l", "case=crowd", "--wait=false")


@pytest.mark.spec("K4", "unreachable is not dead")
@played
async def test_an_api_server_that_is_restarted_in_the_middle_changes_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    if "ITINERARY_TEST_APISERVER_PID" not in os.environ:
        pytest.skip("the API server is not ours to restart: ITINERARY_TEST_APISERVER_PID names no file with its pid")
    site = Site(cluster, tmp_path)
    crowd(site, 10, "echo pod $N; sleep $((5 + N))", labels={"case": "restart"})
    async with site.app.running() as node:
        run = await site.app["crowd"].trigger()
        await happens(lambda: cluster.phases().count("Running") >= 3)
        await asyncio.to_thread(cluster.restart_the_api_server)
        async with asyncio.timeout(300):
            await node.wait(run)
    detail = await site.detail(run)
    assert (detail.row.status, len(detail.attempts)) == ("completed", 10)
    assert {one.output for one in detail.attempts} == {f"pod {number}\n" for number in range(10)}
    cluster.kubectl("delete", "pods", "-l", "case=restart", "--wait=false")


JOB = """
[jobs.job{number}]
schedule = {{ once = "{at}" }}
[[jobs.job{number}.tasks]]
name = "main"
[jobs.job{number}.tasks.pod]
image = "{image}"
namespace = "{namespace}"
pull_policy = "IfNotPresent"
command = ["sh", "-c", "echo pod {number}; sleep 60"]
labels = {{ case = "gone" }}
"""
JOBS = tuple(f"job{number}" for number in range(20))


def begun(folder: Path) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("itinerary")), "up", "jobs.toml", "--no-web"]
    with (folder / "node.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


async def details(url: str) -> Sequence[Detail]:
    """All that has ended."""
    async with open_store(url) as store:
        jobs = await store.read(JobsByNameQuery(JOBS))
        rows = [row for job in jobs.values() for row in (await store.read(HistoryQuery(job.number))).rows]
        return await store.read(DetailsQuery(tuple(row.ref for row in rows)))


@pytest.mark.spec("K4")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "shut down"])
def test_the_pods_of_a_node_that_is_gone_are_adopted_by_another(
    cluster: RealCluster, tmp_path: Path, how: signal.Signals
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    at = f"{datetime.now(UTC) + timedelta(seconds=10):%Y-%m-%dT%H:%M:%SZ}"
    common = {"at": at, "image": BUSYBOX, "namespace": cluster.namespace}
    jobs = "".join(JOB.format(number=number, **common) for number in range(len(JOBS)))
    (tmp_path / "jobs.toml").write_text(f'store = "{url}"\n{jobs}')
    nodes = [begun(tmp_path)]
    try:
        until(lambda: cluster.phases().count("Running") >= len(JOBS), within=300)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods("case=gone")}
        nodes[0].send_signal(how)
        assert nodes[0].wait(60) == (0 if how is signal.SIGTERM else -signal.SIGKILL)
        nodes.append(begun(tmp_path))
        until(lambda: len(asyncio.run(details(url))) == len(JOBS), within=300)
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods("case=gone")}
        assert after == before, "the same pods, and no others"
    finally:
        for process in nodes:
            process.terminate()
            process.wait(60)
        cluster.kubectl("delete", "pods", "-l", "case=gone", "--grace-period=1")
    found = asyncio.run(details(url))
    assert Counter(str(detail.row.status) for detail in found) == {"completed": len(JOBS)}
    assert all(len(detail.attempts) == 1 for detail in found), [trail(detail) for detail in found]
    assert {detail.attempts[0].output for detail in found} == {f"pod {number}\n" for number in range(len(JOBS))}
