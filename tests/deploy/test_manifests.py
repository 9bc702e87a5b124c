"""The manifests keep the database away from tasks: two namespaces, few rights, no token, restricted pods (K5)."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # the library has no types

from itinerary.executors.pods.definition import read_pod
from itinerary.executors.pods.manifest import manifest
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref
from tests.contracts.executors.stage import facts
from tests.deploy.manifests import BASE, NODES, TASKS, manifests, one, pod_specs, violations

pytestmark = pytest.mark.spec("K5")

DATABASE = {"app.kubernetes.io/name": "itinerary-postgres"}
NODE = {"app.kubernetes.io/name": "itinerary"}


def example() -> dict[str, Any]:
    """Return the pod of the task in the example's job file, as a node creates it."""
    jobs = tomllib.loads((BASE / "nodes/jobs.toml").read_text("utf-8"))
    (task,) = jobs["jobs"]["hello"]["tasks"]
    assignment = Assignment(AttemptKey(Ref(1), 0, 1), "auto", {"pod": task["pod"]}, facts())
    return manifest(read_pod(task["pod"]), assignment, "node")


def test_every_file_is_listed_and_every_object_says_which_of_the_two_namespaces_it_is_in() -> None:
    for folder, namespace in (("nodes", NODES), ("tasks", TASKS)):
        kustomization = yaml.safe_load((BASE / folder / "kustomization.yaml").read_text("utf-8"))
        assert kustomization["namespace"] == namespace
        assert {*kustomization["resources"], "kustomization.yaml"} == {
            path.name for path in (BASE / folder).glob("*.yaml")
        }
    for found in manifests():
        if found["kind"] != "Namespace":
            assert found["metadata"]["namespace"] in (NODES, TASKS), found["metadata"]["name"]


# -- the secret of the database ----------------------------------------------------------------------------------------


def test_nothing_in_the_namespace_of_the_tasks_names_the_secret_of_the_database() -> None:
    users = {found["kind"] for found in manifests() if '"secretKeyRef"' in json.dumps(found)}
    assert users == {"Deployment", "StatefulSet"}
    inside = [found for found in manifests() if found["metadata"].get("namespace") == TASKS]
    assert {found["kind"] for found in inside} == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"}
    assert "itinerary-postgres" not in json.dumps(inside)


def test_no_manifest_holds_a_secret() -> None:
    assert not [found for found in manifests() if found["kind"] == "Secret"]


def test_pods_that_name_no_namespace_run_in_the_namespace_of_the_tasks() -> None:
    (container,) = pod_specs()["itinerary"]["containers"]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert values["ITINERARY_POD_NAMESPACE"] == TASKS
    assert example()["metadata"].get("namespace") is None


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("K5", "least rights")
def test_a_node_has_rights_in_the_namespace_of_the_tasks_and_in_no_other() -> None:
    kinds = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    rights = [found for found in manifests() if found["kind"] in kinds]
    assert [(found["kind"], found["metadata"]["namespace"]) for found in rights] == [
        ("Role", TASKS),
        ("RoleBinding", TASKS),
    ]
    role, binding = rights
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "itinerary", "namespace": NODES}]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "itinerary"}
    assert {(what, verb) for rule in role["rules"] for what in rule["resources"] for verb in rule["verbs"]} == {
        *(("pods", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
        ("pods/log", "get"),
    }


def test_only_nodes_and_pods_that_name_an_account_get_a_token_of_the_api_server() -> None:
    assert one("ServiceAccount", "itinerary", NODES)["automountServiceAccountToken"] is False
    assert one("ServiceAccount", "default", TASKS)["automountServiceAccountToken"] is False
    specs = pod_specs()
    assert {name: spec["automountServiceAccountToken"] for name, spec in specs.items()} == {
        "itinerary": True,
        "itinerary-postgres": False,
    }
    assert specs["itinerary"]["serviceAccountName"] == "itinerary"
    assert example()["spec"]["automountServiceAccountToken"] is False


# -- the network -------------------------------------------------------------------------------------------------------


def test_only_the_nodes_in_their_own_namespace_reach_postgresql() -> None:
    policy = one("NetworkPolicy", "itinerary-postgres", NODES)["spec"]
    database, nodes = one("StatefulSet", "itinerary-postgres"), one("Deployment", "itinerary")
    assert policy["podSelector"] == {"matchLabels": DATABASE}
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert rule == {
        "from": [{"podSelector": {"matchLabels": NODE}}],  # without a namespaceSelector: of this namespace
        "ports": [{"protocol": "TCP", "port": 5432}],
    }
    assert database["metadata"]["namespace"] == nodes["metadata"]["namespace"] == NODES
    assert database["spec"]["template"]["metadata"]["labels"] == DATABASE
    assert nodes["spec"]["template"]["metadata"]["labels"] == NODE
    assert one("Service", "itinerary-postgres")["spec"]["selector"] == DATABASE


def test_no_other_policy_lets_a_pod_reach_postgresql() -> None:
    policies = [found for found in manifests() if found["kind"] == "NetworkPolicy"]
    allowing = [found["metadata"]["name"] for found in policies if found["spec"].get("ingress")]
    assert allowing == ["itinerary-postgres"], "policies add up: a second one could open what the first one closes"


def test_no_pod_reaches_the_pod_of_a_task() -> None:
    assert one("NetworkPolicy", "itinerary-tasks", TASKS)["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


# -- pods --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [NODES, TASKS])
def test_both_namespaces_refuse_pods_that_are_not_restricted(namespace: str) -> None:
    labels = one("Namespace", namespace)["metadata"]["labels"]
    assert {mode: labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {
        "enforce": "restricted",
        "audit": "restricted",
        "warn": "restricted",
    }


@pytest.mark.parametrize("owner", ["itinerary", "itinerary-postgres"])
def test_our_own_pods_are_restricted_and_write_to_volumes_only(owner: str) -> None:
    spec = pod_specs()[owner]
    assert violations(spec) == []
    assert all(container["securityContext"]["readOnlyRootFilesystem"] is True for container in spec["containers"])
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["tmp"] == "/tmp"  # noqa: S108 - the path in a pod


def test_the_namespace_of_the_tasks_accepts_the_pod_of_the_example() -> None:
    assert violations(example()["spec"]) == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("privileged", True, "main: privileged"),
        ("allowPrivilegeEscalation", True, "main: allowPrivilegeEscalation"),
        ("runAsNonRoot", False, "main: runAsNonRoot"),
        ("runAsUser", 0, "main: runAsUser"),
        ("seccompProfile", {"type": "Unconfined"}, "main: seccompProfile"),
        ("capabilities", {"drop": ["NET_RAW"]}, "main: capabilities.drop"),
        ("capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "main: capabilities.add"),
    ],
)
def test_these_tests_see_a_pod_that_is_not_restricted(key: str, value: object, told: str) -> None:
    spec = example()["spec"]
    spec["containers"][0]["securityContext"][key] = value
    assert violations(spec) == [told]


def test_these_tests_see_the_machine_in_a_pod() -> None:
    spec = {**example()["spec"], "hostPID": True, "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}
    assert violations(spec) == ["hostPID", "volume root"]
