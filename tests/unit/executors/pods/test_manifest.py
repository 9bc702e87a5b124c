"""The pod that a task becomes: its name, its labels, and what the template and the task make together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from itinerary.executors.pods.attempts import PodAttempt
from itinerary.executors.pods.definition import read_pod
from itinerary.executors.pods.manifest import adoption, manifest
from itinerary.executors.registry import Registry
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref
from tests.contracts.executors.stage import facts

NODE = "3e8a4a9e-1111-4d6b-9d3a-0b6a3a4a9e11"


def assignment(run: Any, **values: Any) -> Assignment:
    return Assignment(AttemptKey(Ref(7), 2, 1), "auto", run, facts(**values), fence=3)


def made(pod: dict[str, Any], **values: Any) -> dict[str, Any]:
    task = {"image": "local/train:1", **pod}
    return manifest(read_pod(task), assignment({"pod": task}, **values), NODE)


@pytest.mark.spec("K2", "name")
def test_the_name_of_a_pod_is_the_id_of_its_attempt() -> None:
    first, again, second = made({}), made({}), made({}, attempt=2)
    assert first["metadata"]["name"] == str(facts().attempt_id)
    assert again == first
    assert second["metadata"]["name"] != first["metadata"]["name"]


@pytest.mark.spec("K4", "labels")
def test_labels_say_whose_it_is_in_at_most_63_characters() -> None:
    labels = made({"labels": {"team": "ml"}}, job="a-job-with-a-long-name-" * 8 + "x")["metadata"]["labels"]
    told = facts(job="a-job-with-a-long-name-" * 8 + "x")
    assert labels == {
        "team": "ml",
        "app.kubernetes.io/managed-by": "itinerary",
        "itinerary/node": NODE,
        "itinerary/job": str(told.job_id),
        "itinerary/occurrence": str(told.occurrence_id),
        "itinerary/attempt": str(told.attempt_id),
        "itinerary/fence": "3",
    }
    assert all(len(value) <= 63 for value in labels.values())


@pytest.mark.spec("K1", "template")
def test_what_the_task_says_lies_over_the_template() -> None:
    pod = made(
        {
            "command": ["train"],
            "env": {"A": "1", "B": "over"},
            "resources": {"limits": {"memory": "64Mi"}},
            "service_account": "trainer",
            "labels": {"team": "ml"},
            "template": {
                "metadata": {"labels": {"team": "none", "tier": "batch"}},
                "spec": {
                    "nodeSelector": {"gpu": "yes"},
                    "serviceAccountName": "nobody",
                    "containers": [
                        {"name": "sidecar", "image": "local/proxy:1"},
                        {
                            "name": "main",
                            "image": "local/other:1",
                            "env": [{"name": "B", "value": "under"}, {"name": "C", "value": "3"}],
                            "resources": {"limits": {"cpu": "1", "memory": "1Mi"}},
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        },
                    ],
                    "volumes": [{"name": "data", "secret": {"secretName": "data"}}],
                },
            },
        }
    )
    assert pod["metadata"]["labels"]["team"] == "ml"
    assert pod["metadata"]["labels"]["tier"] == "batch"
    assert pod["spec"] == {
        "nodeSelector": {"gpu": "yes"},
        "serviceAccountName": "trainer",
        "restartPolicy": "Never",
        "containers": [
            {"name": "sidecar", "image": "local/proxy:1"},
            {
                "name": "main",
                "image": "local/train:1",
                "command": ["train"],
                "env": [
                    {"name": "C", "value": "3"},
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "over"},
                ],
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
        ],
        "volumes": [{"name": "data", "secret": {"secretName": "data"}}],
    }


@pytest.mark.spec("K1", "secrets and config maps")
def test_secrets_and_config_maps_are_named_and_not_copied() -> None:
    pod = made(
        {
            "env": {"T": {"secret": "api", "key": "token"}, "L": {"config_map": "c", "key": "l"}, "X": "$(T)"},
            "env_from": [{"secret": "s"}, {"config_map": "c", "prefix": "C_"}],
        }
    )
    (main,) = pod["spec"]["containers"]
    assert main["env"] == [
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}},
        {"name": "L", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "l"}}},
        {"name": "X", "value": "$$(T)"},
    ]
    assert main["envFrom"] == [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}, "prefix": "C_"}]


@pytest.mark.spec("K1", "template")
def test_making_a_pod_leaves_its_template_as_it_was() -> None:
    template = {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}
    before = msgspec.json.encode(template)
    made({"template": template, "env": {"B": "2"}})
    assert msgspec.json.encode(template) == before


@pytest.mark.parametrize(
    ("pod", "mounts"),
    [
        ({}, False),
        ({"service_account": "trainer"}, None),
        ({"template": {"spec": {"serviceAccountName": "trainer"}}}, None),
        ({"template": {"spec": {"automountServiceAccountToken": True}}}, True),
        ({"service_account": "t", "template": {"spec": {"automountServiceAccountToken": False}}}, False),
    ],
    ids=["nothing named", "account", "account in the template", "token in the template", "account without a token"],
)
def test_a_pod_gets_a_token_of_the_api_server_only_if_its_task_names_an_account(
    pod: dict[str, Any], mounts: bool | None
) -> None:
    assert made(pod)["spec"].get("automountServiceAccountToken") is mounts


@pytest.mark.spec("K6", "definition")
def test_the_pod_of_a_function_is_told_what_to_run() -> None:
    registry = Registry(["app"])
    given = assignment({"python": "app.work:crunch", "pod": {"image": "local/app:1"}})
    attempt = PodAttempt(given, registry)
    spec = manifest(attempt.task, given, NODE, attempt.run)["spec"]
    (main,) = spec["containers"]
    assert spec["enableServiceLinks"] is False, "what Kubernetes makes of services may look like settings of ours"
    assert main["command"] == ["python", "-m", "itinerary.executors.pods.entrypoint"]
    (variable,) = main["env"]
    assert variable["name"] == "ITINERARY_POD_RUN"
    assert msgspec.json.decode(variable["value"])["name"] == "app.work:crunch"


@pytest.mark.spec("K4", "fence")
def test_a_pod_is_adopted_only_as_it_was_seen() -> None:
    seen = {"metadata": {"uid": "u1", "labels": {"itinerary/fence": "3", "itinerary/node": "other"}}}
    assert adoption(NODE, 4, seen) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/metadata/labels/itinerary~1fence", "value": "3"},
        {"op": "replace", "path": "/metadata/labels/itinerary~1node", "value": NODE},
        {"op": "replace", "path": "/metadata/labels/itinerary~1fence", "value": "4"},
    ]
