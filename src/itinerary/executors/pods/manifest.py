"""The pod of an attempt, in the format of the API server.

    name            the attempt's id: creating it twice has the effect of once (K2)
    labels          the identity: node, job, occurrence, attempt, and the fence of its owner
    annotations     the same for people, and the location of its rows
    spec            the template, overridden by the other keys of the task; the container `main` does the work

Pure: an assignment in, JSON out. The API server reports errors of a pod. `definition` reports what can never be valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from itinerary.executors.pods.definition import MAIN, OURS, PodTask, Reference, VariableSource
from itinerary.executors.pods.messages import COMMAND, RUN_VARIABLE
from itinerary.model.attempts import Assignment

__all__ = [
    "ATTEMPT",
    "FENCE",
    "MANAGED",
    "NODE",
    "OCCURRENCE",
    "PLACE",
    "adoption",
    "manifest",
    "pod_name",
    "pod_spec",
    "selector",
]

NODE: Final = f"{OURS}node"
JOB: Final = f"{OURS}job"
OCCURRENCE: Final = f"{OURS}occurrence"
ATTEMPT: Final = f"{OURS}attempt"
FENCE: Final = f"{OURS}fence"
PLACE: Final = f"{OURS}place"
"""The location of its rows: occurrence, position of the task, number of the attempt."""
MANAGED: Final = "app.kubernetes.io/managed-by=itinerary"


def pod_name(assignment: Assignment) -> str:
    """Return the name of an attempt's pod."""
    return str(assignment.facts.attempt_id)


def selector(node: str) -> str:
    """Return the label selector of a node's pods."""
    return f"{NODE}={node}"


def manifest(task: PodTask, assignment: Assignment, node: str, run: str | None = None) -> dict[str, Any]:
    """Return the pod of an attempt.

    Args:
        task: The definition.
        assignment: The attempt.
        node: The id of this start of the node.
        run: The message to a Python function in the pod; None for a pod with its own command.
    """
    facts, key = assignment.facts, assignment.key
    template = task.template
    metadata = template.get("metadata", {})
    labels = {
        **metadata.get("labels", {}),
        **task.labels,
        "app.kubernetes.io/managed-by": "itinerary",
        NODE: node,
        JOB: str(facts.job_id),
        OCCURRENCE: str(facts.occurrence_id),
        ATTEMPT: str(facts.attempt_id),
        FENCE: str(assignment.fence),
    }
    annotations = {
        **metadata.get("annotations", {}),
        **task.annotations,
        f"{OURS}job-name": facts.job,
        f"{OURS}task-name": facts.task,
        f"{OURS}node-name": facts.node,
        PLACE: f"{key.ref} {key.place} {key.number}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(assignment), "labels": labels, "annotations": annotations},
        "spec": pod_spec(task, run),
    }


def pod_spec(task: PodTask, run: str | None = None) -> dict[str, Any]:
    """Return the spec of a pod: its template, overridden by the other keys of the task."""
    spec = deepcopy(dict(task.template.get("spec", {})))
    if task.service_account is not None:
        spec["serviceAccountName"] = task.service_account
    if not spec.get("serviceAccountName"):
        spec.setdefault("automountServiceAccountToken", False)  # a task without an account calls no API server
    if run is not None:
        spec.setdefault("enableServiceLinks", False)  # a service named itinerary would set variables with our prefix
    spec["restartPolicy"] = "Never"
    spec["containers"] = _containers(spec.get("containers", ()), _main(task, run))
    return spec


def adoption(node: str, fence: int, seen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a JSON patch that gives a pod to another node.

    The patch fails if another node was faster: the pod must have the same UID and fence as in `seen`.
    """
    metadata = seen["metadata"]
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": _label(FENCE), "value": metadata["labels"][FENCE]},
        {"op": "replace", "path": _label(NODE), "value": node},
        {"op": "replace", "path": _label(FENCE), "value": str(fence)},
    ]


def _label(name: str) -> str:
    return "/metadata/labels/" + name.replace("/", "~1")


def _main(task: PodTask, run: str | None) -> dict[str, Any]:
    main: dict[str, Any] = {"name": MAIN, "image": task.image}
    command = task.command
    if run is not None and command is None:
        command = COMMAND
    if command is not None:
        main["command"] = list(command)
    if task.args is not None:
        main["args"] = list(task.args)
    if task.cwd is not None:
        main["workingDir"] = task.cwd
    if task.pull_policy is not None:
        main["imagePullPolicy"] = task.pull_policy
    if task.resources:
        main["resources"] = {kind: dict(amounts) for kind, amounts in task.resources.items()}
    env = [_variable(name, value) for name, value in task.env.items()]
    if run is not None:
        env.append({"name": RUN_VARIABLE, "value": run})
    if env:
        main["env"] = env
    if task.env_from:
        main["envFrom"] = [_all_of(source) for source in task.env_from]
    return main


def _variable(name: str, value: str | Reference) -> dict[str, Any]:
    if isinstance(value, str):
        return {"name": name, "value": value.replace("$(", "$$(")}  # plain text, not a reference to another variable
    kind = "secretKeyRef" if value.kind == "secret" else "configMapKeyRef"
    return {"name": name, "valueFrom": {kind: {"name": value.name, "key": value.key}}}


def _all_of(source: VariableSource) -> dict[str, Any]:
    kind = "secretRef" if source.kind == "secret" else "configMapRef"
    return {kind: {"name": source.name}, **({"prefix": source.prefix} if source.prefix else {})}


def _containers(given: Iterable[Mapping[str, Any]], main: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of the template, with `main` overridden. Without a `main` there, it is the first."""
    containers = [dict(one) for one in given]
    for place, container in enumerate(containers):
        if container.get("name") == MAIN:
            containers[place] = _merged(container, main)
            return containers
    return [main, *containers]


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables recursively.

    `env` is merged by name, and `envFrom` lists are joined. For other lists, such as a command, `above` replaces
    `below`.
    """
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            found[key] = _merged(under, value)
        elif key == "env" and isinstance(under, list):
            names = {one["name"] for one in value}
            found[key] = [*(one for one in under if one.get("name") not in names), *value]
        elif key == "envFrom" and isinstance(under, list):
            found[key] = [*under, *value]
        else:
            found[key] = value
    return found
