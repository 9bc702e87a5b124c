"""Pods of a real cluster: each way one can end, and that the states follow it (K1, K2, K3)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from itinerary.executors.pods.api_client import connect
from itinerary.executors.pods.status import DELETED
from itinerary.model.states import TaskState
from tests.kubernetes.cluster import RealCluster, needs_cluster
from tests.kubernetes.nodes import Site, happens, played, sh, trail

needs_cluster()
pytestmark = pytest.mark.kubernetes

CREATED = "pending container_creating"


@pytest.fixture
def site(cluster: RealCluster, tmp_path: Path) -> Site:
    return Site(cluster, tmp_path)


@pytest.mark.spec("K1")
@pytest.mark.spec("K3", "logs")
@played
async def test_a_pod_succeeds_and_its_output_is_kept(site: Site) -> None:
    site.pod("works", sh("echo $A $B; sleep 1"), env={"A": "one", "B": "$(A)"}, labels={"team": "ml"})
    async with site.app.running() as node:
        detail = await site.ran(node, "works")
    assert trail(detail).endswith(f"{CREATED} running completed")
    (attempt,) = detail.attempts
    assert (attempt.status, attempt.output) == (TaskState.SUCCESS, "one $(A)\n")
    (pod,) = site.cluster.pods("team=ml")
    assert len(pod["metadata"]["labels"]) == 7
    assert pod["metadata"]["labels"]["itinerary/attempt"] == pod["metadata"]["name"]


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_that_exits_with_3_has_failed_with_its_output(site: Site) -> None:
    site.pod("fails", sh("echo no room; exit 3"))
    async with site.app.running() as node:
        detail = await site.ran(node, "fails")
    (attempt,) = detail.attempts
    assert (detail.row.status, attempt.error, attempt.output) == ("failed", "exit code 3", "no room\n")


@pytest.mark.spec("K2", "errors")
@played
async def test_an_image_that_does_not_exist_is_said_and_its_pod_is_removed(site: Site) -> None:
    site.pod("lacks", ["true"], image="local/nothing:1", pull_policy="Never", labels={"case": "image"})
    async with site.app.running() as node:
        detail = await site.ran(node, "lacks")
        await happens(lambda: not site.cluster.pods("case=image"))
    (attempt,) = detail.attempts
    assert detail.row.status == "failed"
    assert (attempt.error or "").startswith("its image local/nothing:1 cannot be pulled, ErrImageNeverPull")
    assert trail(detail).endswith(f"{CREATED} terminating failed")


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_that_takes_more_memory_than_its_limit_is_said_to_be_oom_killed(site: Site) -> None:
    script = sh("a=x; while true; do a=$a$a; done")
    site.pod("hungry", script, resources={"limits": {"memory": "16Mi"}})
    async with site.app.running() as node:
        detail = await site.ran(node, "hungry")
    (attempt,) = detail.attempts
    assert (detail.row.status, attempt.error) == ("failed", "OOM-killed: it took more memory than its limit")


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_too_big_to_schedule_fails_with_the_schedulers_words(site: Site) -> None:
    labels = {"case": "big"}
    site.pod("big", ["true"], resources={"requests": {"cpu": 1000}}, start_timeout="2s", labels=labels)
    async with site.app.running() as node:
        detail = await site.ran(node, "big")
        await happens(lambda: not site.cluster.pods("case=big"))
    (attempt,) = detail.attempts
    assert detail.row.status == "failed"
    assert (attempt.error or "").startswith("unschedulable: 0/")
    assert "Insufficient cpu" in (attempt.error or "")


@pytest.mark.spec("K3", "cancel")
@pytest.mark.spec("O5", "pods")
@played
async def test_a_pod_is_cancelled_while_it_is_created(site: Site) -> None:
    labels = {"case": "creating"}
    site.pod("big", ["true"], resources={"requests": {"cpu": 1000}}, start_timeout="5m", labels=labels)
    async with site.app.running() as node:
        run = await site.app["big"].trigger()
        await happens(lambda: site.cluster.pods("case=creating"))
        assert await node.cancel(run, reason="wrong")
        await node.wait(run)
        await happens(lambda: not site.cluster.pods("case=creating"))
    detail = await site.detail(run)
    assert trail(detail).endswith(f"{CREATED} terminating cancelled")
    assert detail.attempts[0].status is TaskState.CANCELLED


@pytest.mark.spec("K3", "cancel")
@pytest.mark.spec("O5", "pods")
@played
async def test_a_pod_is_cancelled_while_it_runs_and_what_it_says_at_last_is_kept(site: Site) -> None:
    site.pod(
        "waits",
        sh("trap 'echo bye; exit 0' TERM; echo here; while true; do sleep 0.1; done"),
        labels={"case": "cancel"},
    )
    async with site.app.running() as node:
        run = await site.app["waits"].trigger()
        await site.until(run, "running")
        assert await node.cancel(run, reason="wrong")
        await node.wait(run)
        await happens(lambda: not site.cluster.pods("case=cancel"))
    detail = await site.detail(run)
    assert trail(detail).endswith(f"{CREATED} running terminating cancelled")
    assert (detail.attempts[0].status, detail.attempts[0].output) == (TaskState.CANCELLED, "here\nbye\n")


@pytest.mark.spec("K3", "timeout")
@played
async def test_a_pod_over_its_time_is_deleted(site: Site) -> None:
    site.pod("slow", ["sleep", "1000"], task_timeout="3s", labels={"case": "timeout"})
    async with site.app.running() as node:
        detail = await site.ran(node, "slow")
        await happens(lambda: not site.cluster.pods("case=timeout"))
    assert detail.row.status == "failed"
    assert detail.attempts[0].status is TaskState.TIMEOUT


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_deleted_by_hand_has_failed_and_it_is_said_why(site: Site) -> None:
    site.pod("waits", sh("echo here; exec sleep 1000"), labels={"case": "hand"})
    async with site.app.running() as node:
        run = await site.app["waits"].trigger()
        await site.until(run, "running")
        delete = ("delete", "pod", "-l", "case=hand", "--grace-period=1", "--wait=false")
        await asyncio.to_thread(site.cluster.kubectl, *delete)
        await node.wait(run)
    detail = await site.detail(run)
    assert detail.row.status == "failed"
    assert (detail.attempts[0].error, detail.attempts[0].output) == (DELETED, "here\n")
    assert "terminating" in trail(detail)


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_over_its_own_deadline_is_told_apart_from_a_timeout(site: Site) -> None:
    site.pod("late", ["sleep", "1000"], template={"spec": {"activeDeadlineSeconds": 2}})
    async with site.app.running() as node:
        detail = await site.ran(node, "late")
    assert detail.attempts[0].status is TaskState.FAILED
    assert (detail.attempts[0].error or "").startswith("over its activeDeadlineSeconds")


@pytest.mark.spec("K1", "secrets and config maps")
@played
async def test_secrets_and_config_maps_get_into_a_pod_by_name(site: Site, tmp_path: Path) -> None:
    site.cluster.kubectl("create", "secret", "generic", "api", "--from-literal=token=s3cret")
    site.cluster.kubectl("create", "configmap", "levels", "--from-literal=LEVEL=high")
    env = {"TOKEN": {"secret": "api", "key": "token"}}
    site.pod("reads", sh("echo ${#TOKEN} $X_LEVEL"), env=env, env_from=[{"config_map": "levels", "prefix": "X_"}])
    async with site.app.running() as node:
        detail = await site.ran(node, "reads")
    assert detail.attempts[0].output == "6 high\n"
    assert not any(b"s3cret" in file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240 - nothing else runs


@pytest.mark.spec("K1", "errors")
@played
async def test_a_namespace_that_is_not_there_is_said(site: Site) -> None:
    site.pod("lost", ["true"], namespace="no-such-namespace")
    async with site.app.running() as node:
        detail = await site.ran(node, "lost")
    error = detail.attempts[0].error or ""
    assert error.startswith("its pod cannot be created: Kubernetes refused it, 404")
    assert "no-such-namespace" in error


@pytest.mark.spec("K2", "within a second")
@played
async def test_the_states_follow_the_pod(site: Site) -> None:
    """How soon is printed, against when another watch saw the same: a test does not measure."""
    site.pod("works", ["sleep", "2"], labels={"case": "states"})
    seen: dict[str, float] = {}
    api = await connect()
    _, version = await api.pods(site.cluster.namespace, "case=states")  # before there is any: no phase is missed

    async def look() -> None:
        async for event in api.watch(site.cluster.namespace, "case=states", version):
            seen.setdefault(event["object"]["status"].get("phase") or "Pending", time.time())
            if "Succeeded" in seen:
                break
        await api.close()

    async with site.app.running() as node:
        looking = asyncio.create_task(look())
        detail = await site.ran(node, "works")
        await looking
    shown = {str(line.after): line.at / 1_000_000 for line in detail.transitions}
    for state, phase in (("container_creating", "Pending"), ("running", "Running"), ("completed", "Succeeded")):
        print(f"{state} {shown[state] - seen[phase]:+.3f} s after the cluster said {phase}")
    assert trail(detail).endswith(f"{CREATED} running completed")


@pytest.mark.spec("K3", "finished pods go")
@played
async def test_finished_pods_go_when_their_time_is_over_and_running_ones_and_others_stay(
    site: Site, cluster: RealCluster, tmp_path: Path
) -> None:
    (tmp_path / "another").mkdir()
    another = Site(cluster, tmp_path / "another")
    site.pod("works", sh("echo done"), labels={"case": "goes"})
    site.pod("waits", sh("sleep 300"), labels={"case": "stays"})
    another.pod("works", sh("echo done"), labels={"case": "of-another"})
    async with another.app.running() as node:
        await another.ran(node, "works")
    async with site.app.running() as node:
        await site.ran(node, "works")
        run = await site.app["waits"].trigger()
        await site.until(run, "running")
        engine = site.app._engine
        assert engine._loop is not None
        assert engine._node is not None
        remover = engine._node._remover
        assert remover is not None
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(remover.look(), engine._loop))
        assert len(cluster.pods("case=goes")) == 1, "an hour is not over"
        remover._keep_for = 0
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(remover.look(), engine._loop))
        await happens(lambda: not cluster.pods("case=goes"))
        assert [len(cluster.pods(f"case={case}")) for case in ("stays", "of-another")] == [1, 1]
        assert await node.cancel(run, reason="enough")
        await node.wait(run)
        await happens(lambda: not cluster.pods("case=stays"))
    cluster.kubectl("delete", "pods", "-l", "case=of-another", "--grace-period=1")
