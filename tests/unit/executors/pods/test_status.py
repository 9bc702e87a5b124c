"""What a pod means: each thing that Kubernetes says of one, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.executors.pods.status import DELETED, gone, seen
from itinerary.model.states import OccurrenceState

CREATING, RUNNING = OccurrenceState.CONTAINER_CREATING, OccurrenceState.RUNNING
TERMINATING = OccurrenceState.TERMINATING
SCHEDULER = "0/3 nodes are available: 3 Insufficient cpu."


def pod(phase: str = "Pending", state: dict[str, Any] | None = None, *, deleted: bool = False, **status: Any) -> Any:
    metadata: dict[str, Any] = {
        "name": "a",
        "uid": "u1",
        "resourceVersion": "10",
        "labels": {"itinerary/attempt": "a", "itinerary/fence": "3"},
    }
    if deleted:
        metadata |= {"deletionTimestamp": "2026-11-16T12:00:35Z", "deletionGracePeriodSeconds": 30}
    if state is not None:
        status["containerStatuses"] = [{"name": "main", "image": "local/no:1", "state": state}]
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def ended(code: int, reason: str = "Error", at: str = "2026-11-16T12:00:00Z", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at, **more}}


@pytest.mark.spec("K2", "states")
@pytest.mark.parametrize(
    ("given", "state"),
    [
        (pod(), CREATING),
        (pod(state={"waiting": {"reason": "ContainerCreating"}}), CREATING),
        (pod("Running", {"running": {}}), RUNNING),
        (pod("Running", {"running": {}}, deleted=True), TERMINATING),
        (pod(deleted=True), TERMINATING),
    ],
)
def test_the_state_of_a_pod_that_is_not_over(given: Any, state: OccurrenceState) -> None:
    sight = seen(given)
    assert (sight.state, sight.is_over, sight.error) == (state, False, None)
    assert (sight.uid, sight.attempt, sight.fence) == ("u1", "a", 3)


@pytest.mark.spec("K2", "errors")
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (pod("Succeeded", ended(0, "Completed")), None),
        (pod("Succeeded"), None),
        (pod("Failed", ended(3)), "exit code 3"),
        (pod("Failed", ended(137)), "exit code 137, by signal 9"),
        (pod("Failed", ended(137, "OOMKilled")), "OOM-killed: it took more memory than its limit"),
        (pod("Running", ended(0, "Completed")), None),
        (
            pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            "evicted by its machine: The node was low on resource: memory.",
        ),
        (
            pod("Failed", ended(137), reason="DeadlineExceeded", message="Pod was active on the node longer"),
            "over its activeDeadlineSeconds: Pod was active on the node longer",
        ),
        (pod("Failed", reason="NodeLost"), "lost with its machine, which does not answer any more"),
        (
            pod(
                "Failed",
                ended(143),
                conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            ),
            "preempted: a pod of a higher priority needed its room",
        ),
        (
            pod("Failed", ended(128, "StartError", message="exec: no such file")),
            "its container could not be started, exit code 128: exec: no such file",
        ),
        (pod("Failed", reason="UnexpectedAdmissionError"), "refused by the machine that it was sent to"),
        (pod("Failed", ended(137), deleted=True), "exit code 137, by signal 9"),
        (pod("Failed", ended(137, at="2026-11-16T12:00:10Z"), deleted=True), DELETED),
        (pod("Succeeded", ended(0, at="2026-11-16T12:00:10Z"), deleted=True), DELETED),
        (pod("Succeeded", ended(0, at="2026-11-16T12:00:05Z"), deleted=True), None),
        (
            pod("Failed", ended(143, at="2026-11-16T12:00:10Z"), deleted=True, reason="NodeLost"),
            "lost with its machine, which does not answer any more",
        ),
    ],
)
def test_what_a_pod_came_to(given: Any, error: str | None) -> None:
    sight = seen(given)
    assert (sight.is_over, sight.error) == (True, error)


@pytest.mark.spec("K2", "errors")
@pytest.mark.parametrize(
    ("given", "error", "is_hopeless"),
    [
        (
            pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SCHEDULER}
                ]
            ),
            f"unschedulable: {SCHEDULER}",
            False,
        ),
        (
            pod(state={"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            "its image local/no:1 cannot be pulled, ErrImagePull: not found",
            False,
        ),
        (
            pod(state={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}}),
            "its image local/no:1 cannot be pulled, ImagePullBackOff: Back-off pulling",
            True,
        ),
        (
            pod(state={"waiting": {"reason": "ErrImageNeverPull"}}),
            "its image local/no:1 cannot be pulled, ErrImageNeverPull",
            True,
        ),
        (
            pod(state={"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "api" not found'}}),
            'its container cannot be started, CreateContainerConfigError: secret "api" not found',
            False,
        ),
    ],
)
def test_what_keeps_a_pod_from_running(given: Any, error: str, is_hopeless: bool) -> None:
    trouble = seen(given).trouble
    assert trouble is not None
    assert (trouble.error, trouble.is_hopeless) == (error, is_hopeless)


@pytest.mark.spec("K2", "errors")
def test_a_pod_that_is_gone_was_deleted_by_somebody_unless_it_was_over_or_others_said_why() -> None:
    assert gone(None).error == DELETED
    assert gone(seen(pod("Running", {"running": {}}, deleted=True))).error == DELETED
    assert gone(seen(pod("Failed", ended(3)))).error == "exit code 3"
    lost = gone(seen(pod("Running", {"running": {}}, deleted=True, reason="NodeLost")))
    assert lost.error == "lost with its machine, which does not answer any more"
    assert lost.is_over
    assert lost.is_gone
