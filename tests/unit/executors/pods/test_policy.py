"""Which pods a node may create: images, namespaces, service accounts, and rights on the machine (K1, Q3)."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.definitions import read_task
from itinerary.executors.pods.policy import RIGHTS, PodPolicy, check_rights
from itinerary.executors.registry import Registry
from itinerary.executors.task_policy import TaskPolicy

pytestmark = pytest.mark.spec("Q3", "pods")

MAIN = {"name": "main"}


def check(policy: PodPolicy, spec: dict[str, Any] | None = None, **pod: Any) -> None:
    """Check a task that is a pod."""
    task = {"pod": {"image": "jobs/work:1", **pod, **({} if spec is None else {"template": {"spec": spec}})}}
    TaskPolicy(pods=policy).check(read_task(task, "auto", Registry()))


def secured(**context: Any) -> dict[str, Any]:
    """The spec of a pod whose main container has this security context."""
    return {"containers": [{**MAIN, "securityContext": context}]}


ASKING: list[tuple[str, dict[str, Any]]] = [
    ("privileged", secured(privileged=True)),
    ("privileged", {"initContainers": [{"name": "first", "image": "a", "securityContext": {"privileged": True}}]}),
    ("privileged", {"containers": [MAIN, {"name": "side", "securityContext": {"privileged": True}}]}),
    ("privileged", {"ephemeralContainers": [{"name": "debug", "securityContext": {"privileged": True}}]}),
    ("privileged", secured(Privileged=True)),
    ("privileged", secured(privileged="true")),
    ("hostPath", {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}),
    ("hostPath", {"volumes": [{"name": "root", "hostPath": {}}]}),
    ("hostPID", {"hostPID": True}),
    ("hostIPC", {"hostIPC": True}),
    ("hostNetwork", {"hostNetwork": True}),
    ("hostPorts", {"containers": [{**MAIN, "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
    ("hostProcess", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
    ("hostProcess", secured(windowsOptions={"hostProcess": True})),
    ("capabilities", secured(capabilities={"add": ["SYS_ADMIN"]})),
    ("capabilities", secured(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]})),
    ("procMount", secured(procMount="Unmasked")),
]


@pytest.mark.parametrize(("right", "spec"), ASKING)
def test_a_right_on_the_machine_is_refused_unless_the_node_allows_it(right: str, spec: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf'asks for {right}, .* write pod_allow = \["{right}"\]'):
        check(PodPolicy(), spec)
    with pytest.raises(ConfigError, match=f"asks for {right}"):
        check(PodPolicy(rights=tuple(one for one in RIGHTS if one != right)), spec)
    check(PodPolicy(rights=(right,)), spec)


def test_every_right_is_tried() -> None:
    assert {right for right, _ in ASKING} == set(RIGHTS)


def test_a_pod_that_asks_for_no_right_is_allowed() -> None:
    check(
        PodPolicy(),
        {
            "hostPID": False,
            "hostNetwork": False,
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [
                {
                    **MAIN,
                    "ports": [{"containerPort": 80, "hostPort": 0}],
                    "securityContext": {
                        "privileged": False,
                        "procMount": "Default",
                        "capabilities": {"drop": ["ALL"], "add": []},
                    },
                }
            ],
        },
    )


@pytest.mark.parametrize(
    ("patterns", "image", "is_allowed"),
    [
        (("jobs/*",), "jobs/work:1", True),
        (("jobs/work:1",), "jobs/work:1", True),
        (("jobs/work:1",), "jobs/work:10", False),
        (("jobs/*",), "evil.example/jobs/work:1", False),
        (("registry.example/*/work:*",), "registry.example/team/work:7", True),
        (("registry.example/*",), "registryxexample/work", False),
        ((), "jobs/work:1", False),
    ],
)
def test_an_image_is_allowed_by_a_pattern(patterns: tuple[str, ...], image: str, is_allowed: bool) -> None:
    policy = PodPolicy(images=patterns)
    if is_allowed:
        check(policy, image=image)
    else:
        with pytest.raises(ConfigError, match=r"pod\.image: .* is not allowed .* pod_images"):
            check(policy, image=image)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [MAIN, {"name": "side", "image": "evil/miner"}]},
        {"initContainers": [{"name": "first", "image": "evil/miner"}]},
        {"volumes": [{"name": "code", "image": {"reference": "evil/miner"}}]},
    ],
)
def test_the_images_of_the_template_count_too(spec: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"pod\.image: 'evil/miner' is not allowed"):
        check(PodPolicy(images=("jobs/*",)), spec)


def test_namespaces_and_service_accounts_are_those_that_the_node_lists() -> None:
    policy = PodPolicy(namespaces=("jobs",), service_accounts=("worker",))
    check(policy, namespace="jobs", service_account="worker")
    check(policy, {"serviceAccountName": "worker"})
    with pytest.raises(ConfigError, match=r"pod\.namespace: 'kube-system' is not allowed \(allowed: jobs\)"):
        check(policy, namespace="kube-system", service_account="worker")
    with pytest.raises(ConfigError, match=r"pod\.service_account: 'default' is not allowed \(allowed: worker\)"):
        check(policy, namespace="jobs")
    for key in ("serviceAccountName", "serviceAccount"):
        with pytest.raises(ConfigError, match=r"pod\.service_account: 'admin' is not allowed"):
            check(policy, {key: "admin"})
    with pytest.raises(ConfigError, match=r"pod\.service_account: 'admin' is not allowed"):
        check(policy, {"serviceAccount": "admin"}, service_account="worker")


def test_a_right_that_does_not_exist_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"pod_allow: 'hostpath' is no right of a pod; did you mean 'hostPath'\?"):
        check_rights("pod_allow", ["hostpath"])
