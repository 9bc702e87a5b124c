"""What a task may say of its pod, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.definitions import PodTask, read_task
from itinerary.executors.pods.definition import Reference, VariableSource
from itinerary.executors.registry import Registry


def plain() -> None: ...


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(plain, "jobs:plain")
    registry.register(plain, "jobs:outer.<locals>.inner")
    return registry


@pytest.mark.spec("K1")
def test_all_that_can_be_said_of_a_pod_is_read() -> None:
    task = read_task(
        {
            "pod": {
                "image": "local/train:1",
                "command": ["train"],
                "args": ["-v"],
                "env": {
                    "MODE": "fast",
                    "TOKEN": {"secret": "api", "key": "token"},
                    "LEVEL": {"config_map": "settings", "key": "level"},
                },
                "env_from": [{"secret": "all"}, {"config_map": "more", "prefix": "X_"}],
                "cwd": "/data",
                "resources": {"requests": {"cpu": 2, "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                "namespace": "jobs",
                "service_account": "trainer",
                "labels": {"team": "ml"},
                "annotations": {"example.org/note": "any text"},
                "pull_policy": "Never",
                "start_timeout": "2m",
                "template": {"spec": {"nodeSelector": {"gpu": "yes"}}},
            }
        }
    )
    assert task == PodTask(
        image="local/train:1",
        command=("train",),
        args=("-v",),
        env={
            "MODE": "fast",
            "TOKEN": Reference("secret", "api", "token"),
            "LEVEL": Reference("config_map", "settings", "level"),
        },
        env_from=(VariableSource("secret", "all", ""), VariableSource("config_map", "more", "X_")),
        cwd="/data",
        resources={"requests": {"cpu": "2", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        namespace="jobs",
        service_account="trainer",
        labels={"team": "ml"},
        annotations={"example.org/note": "any text"},
        pull_policy="Never",
        start_timeout=120_000_000,
        template={"spec": {"nodeSelector": {"gpu": "yes"}}},
    )


@pytest.mark.spec("Q7", "pods")
@pytest.mark.parametrize(
    ("pod", "why"),
    [
        ({}, r"^pod\.image: is missing; write pod = \{ image"),
        ({"image": "a b"}, r"^pod\.image: 'a b' is no image"),
        ({"image": "a", "comand": ["x"]}, r"^pod\.comand: unknown key; did you mean 'command'\?"),
        ({"image": "a", "command": "x -v"}, r"^pod\.command: text would have to go through a shell"),
        ({"image": "a", "command": [1]}, r"^pod\.command\.0: 1 is not text"),
        ({"image": "a", "env": {"A": {"secret": "s"}}}, r"^pod\.env\.A: .* neither text nor a reference"),
        ({"image": "a", "env": {"A=": "b"}}, r"^pod\.env: 'A=' is not the name of a variable"),
        ({"image": "a", "env": {"ITINERARY_POD_RUN": "b"}}, r"^pod\.env: ITINERARY_POD_RUN: is set by Itinerary"),
        ({"image": "a", "env_from": [{"secret": "a", "config_map": "b"}]}, r"^pod\.env_from\.0: names a secret or"),
        ({"image": "a", "resources": {"request": {}}}, r"^pod\.resources\.request: unknown key; did you mean 'requ"),
        ({"image": "a", "resources": {"limits": {"memory": "64 MB"}}}, r"^pod\.resources\.limits\.memory: '64 MB'"),
        ({"image": "a", "namespace": "Jobs"}, r"^pod\.namespace: 'Jobs' is not a name that Kubernetes takes"),
        ({"image": "a", "labels": {"team": "a b"}}, r"^pod\.labels\.team: 'a b' is not a label"),
        ({"image": "a", "labels": {"itinerary/job": "x"}}, r"^pod\.labels\.itinerary/job: what begins with"),
        ({"image": "a", "pull_policy": "never"}, r"^pod\.pull_policy: 'never' is unknown; allowed: Always, "),
        ({"image": "a", "start_timeout": "soon"}, r"^pod\.start_timeout: "),
        ({"image": "a", "template": {"kind": "Pod"}}, r"^pod\.template\.kind: unknown key"),
        ({"image": "a", "template": {"metadata": {"name": "x"}}}, r"^pod\.template\.metadata\.name: unknown key"),
        ({"image": "a", "template": {"spec": {"restartPolicy": "Always"}}}, r"restartPolicy: is Never"),
        ({"image": "a", "template": {"spec": {"containers": [{}]}}}, r"containers: is a list of tables with names"),
        ("local/train:1", r"^pod: 'local/train:1' is not a table"),
    ],
)
def test_what_is_wrong_with_a_pod_is_said_by_its_key(pod: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_task({"pod": pod})


@pytest.mark.spec("K6", "definition")
@pytest.mark.parametrize("executor", ["pod", "auto"])
def test_a_function_can_run_in_a_pod_of_an_image(registry: Registry, executor: str) -> None:
    task = read_task({"python": "jobs:plain", "pod": {"image": "local/app:1"}}, executor, registry)
    assert isinstance(task, PodTask)


@pytest.mark.spec("K6", "definition")
@pytest.mark.parametrize(
    ("run", "executor", "why"),
    [
        ({"python": "jobs:plain"}, "pod", r"^pod: is missing; jobs:plain runs in a pod"),
        ({"python": "jobs:plain", "pod": {"image": "a"}}, "thread", r"^executor: 'thread' runs no pods"),
        ({"python": "os:system", "pod": {"image": "a"}}, "pod", r"^python: 'os:system' is not registered"),
        ({"python": "jobs:outer.<locals>.inner", "pod": {"image": "a"}}, "pod", r"nobody in a pod can find it"),
        ({"python": "jobs:plain", "pod": {"image": "a"}, "env": {}}, "pod", r"^env: unknown key"),
        ({"shell": ["ls"], "pod": {"image": "a"}}, "auto", r"here are shell and pod"),
    ],
)
def test_a_function_that_can_run_in_no_pod_is_refused(registry: Registry, run: Any, executor: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_task(run, executor, registry)
