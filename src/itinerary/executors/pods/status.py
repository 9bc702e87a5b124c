"""The observed state of a pod, and its meaning: the state of the attempt, a problem, or the outcome.

    no container runs yet                   container_creating      it may wait for something that never arrives:
    `main` runs                             running                   its image, a machine with room, a secret
    a deletion is in progress               terminating
    `main` has terminated, or the pod has   ended, with one of:

    exit code 0              succeeded
    exit code n              failed: the output says why
    OOMKilled                it used more memory than its limit
    DeadlineExceeded         it ran longer than its activeDeadlineSeconds
    Evicted, Preempted       its machine needed the room, or was drained
    NodeLost                 its machine is gone, and its progress is unknown
    deleted                  by a user or another program, not by Itinerary

The reasons are those of Kubernetes, from `status.reason`, the states of containers, and the condition DisruptionTarget
of newer versions. Pure: JSON in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from itinerary.executors.pods.definition import MAIN
from itinerary.executors.pods.manifest import ATTEMPT, FENCE
from itinerary.model.states import OccurrenceState

__all__ = ["DELETED", "PodProblem", "PodStatus", "gone", "seen"]

_PULL: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable"}
)
_PULL_FAILED: Final = _PULL - {"ErrImagePull"}
"""Reasons that follow a retry. The first failed pull may be a temporary problem of the registry."""
_NOT_STARTED: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_DISRUPTED: Final = {
    "PreemptionByScheduler": "preempted: a pod of a higher priority needed its room",
    "DeletionByTaintManager": "evicted from a machine that it may not be on any more",
    "EvictionByEvictionAPI": "evicted: its machine is being drained, or somebody asked for that",
    "DeletionByPodGC": "lost with its machine, which is gone",
    "TerminationByKubelet": "evicted by its machine, which needed the room",
}
_WORDS: Final = {
    "Evicted": "evicted by its machine",
    "Preempting": "preempted: a pod of a higher priority needed its room",
    "Preempted": "preempted: a pod of a higher priority needed its room",
    "DeadlineExceeded": "over its activeDeadlineSeconds",
    "NodeLost": "lost with its machine, which does not answer any more",
    "Shutdown": "ended by the shutdown of its machine",
    "NodeShutdown": "ended by the shutdown of its machine",
    "Terminated": "ended by the shutdown of its machine",
    "UnexpectedAdmissionError": "refused by the machine that it was sent to",
    "OutOfcpu": "refused by the machine that it was sent to, which lacks cpu",
    "OutOfmemory": "refused by the machine that it was sent to, which lacks memory",
    "OutOfpods": "refused by the machine that it was sent to, which has too many pods",
}
_SIGNALS: Final = 128

DELETED: Final = "its pod was deleted by somebody, and not by Itinerary"


class PodProblem(msgspec.Struct, frozen=True):
    """A problem that prevents a pod from running, as text."""

    error: str
    is_hopeless: bool
    """True if waiting does not help. Otherwise the pod gets some time."""


class PodStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a pod at one moment."""

    uid: str
    version: str
    attempt: str | None
    """The attempt in the label of the pod."""
    fence: int
    state: OccurrenceState
    is_over: bool
    is_gone: bool = False
    """True if the pod no longer exists."""
    error: str | None = None
    """The reason why the pod failed, or is being ended by others; None if it succeeded, or if that is not known."""
    message: str = ""
    """The termination message of its main container."""
    has_started: bool = False
    """True if its main container has ever run, so that it has a log."""
    trouble: PodProblem | None = None
    ended_at: int | None = None
    """The end of its main container, or otherwise of the pod, in microseconds by the cluster's clock."""


def seen(pod: Mapping[str, Any]) -> PodStatus:
    """Return the state of a pod from its JSON."""
    metadata, status = pod.get("metadata", {}), pod.get("status", {})
    labels = metadata.get("labels", {})
    main = _main(status)
    terminated = main.get("state", {}).get("terminated")
    phase = status.get("phase", "Pending")
    is_deleted = "deletionTimestamp" in metadata
    is_over = terminated is not None or phase in ("Succeeded", "Failed")
    running = "running" in main.get("state", {})
    state = OccurrenceState.CONTAINER_CREATING
    if is_deleted or is_over:
        state = OccurrenceState.TERMINATING
    elif running:
        state = OccurrenceState.RUNNING
    return PodStatus(
        uid=metadata.get("uid", ""),
        version=metadata.get("resourceVersion", ""),
        attempt=labels.get(ATTEMPT),
        fence=_number(labels.get(FENCE)),
        state=state,
        is_over=is_over,
        error=_error(metadata, status, terminated) if is_over else _outer_reason(status) if is_deleted else None,
        message=str((terminated or {}).get("message", "")),
        has_started=running or terminated is not None,
        trouble=None if is_over or is_deleted or running else _trouble(status, main),
        ended_at=_instant((terminated or {}).get("finishedAt")) if is_over else None,
    )


def gone(last: PodStatus | None) -> PodStatus:
    """Return the state of a pod that no longer exists, from its last observed state."""
    why = DELETED
    if last is not None and last.is_over:
        return msgspec.structs.replace(last, is_gone=True)
    if last is not None and last.error is not None:
        why = last.error
    return PodStatus(
        uid="" if last is None else last.uid,
        version="" if last is None else last.version,
        attempt=None if last is None else last.attempt,
        fence=0 if last is None else last.fence,
        state=OccurrenceState.TERMINATING,
        is_over=True,
        is_gone=True,
        error=why,
        has_started=last is not None and last.has_started,
    )


def _error(metadata: Mapping[str, Any], status: Mapping[str, Any], terminated: Mapping[str, Any] | None) -> str | None:
    if terminated is not None and terminated.get("reason") == "OOMKilled":
        return "OOM-killed: it took more memory than its limit"
    if terminated is not None and terminated.get("exitCode") == 0 and not _was_cut_short(metadata, terminated):
        return None
    if (why := _outer_reason(status)) is not None:
        return why
    if terminated is not None:
        return DELETED if _was_cut_short(metadata, terminated) else _exited(terminated)
    if status.get("phase") == "Succeeded":
        return None
    return _said(status.get("reason") or "its pod failed before its container ran", status.get("message", ""))


def _outer_reason(status: Mapping[str, Any]) -> str | None:
    """Return why a pod was ended from outside; None if Kubernetes gives no reason."""
    if (reason := status.get("reason")) in _WORDS:
        return _said(_WORDS[reason], status.get("message", ""))
    for condition in status.get("conditions", ()):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            word = _DISRUPTED.get(condition.get("reason", ""), condition.get("reason", "disrupted"))
            return _said(word, condition.get("message", ""))
    return None


def _was_cut_short(metadata: Mapping[str, Any], terminated: Mapping[str, Any]) -> bool:
    """True if the deletion was requested before the container ended.

    The timestamp of a deletion is the end of its grace period.
    """
    deleted_at, ended_at = _instant(metadata.get("deletionTimestamp")), _instant(terminated.get("finishedAt"))
    if deleted_at is None:
        return False
    asked_at = deleted_at - metadata.get("deletionGracePeriodSeconds", 0) * 1_000_000
    return ended_at is None or ended_at > asked_at


def _exited(terminated: Mapping[str, Any]) -> str:
    code, reason = terminated.get("exitCode"), terminated.get("reason", "Error")
    number = terminated.get("signal") or (code - _SIGNALS if isinstance(code, int) and code > _SIGNALS else None)
    words = f"exit code {code}"
    if reason in ("ContainerCannotRun", "StartError"):
        return _said(f"its container could not be started, {words}", terminated.get("message", ""))
    if reason == "ContainerStatusUnknown":
        return _said("lost: its machine does not know what became of it", terminated.get("message", ""))
    return f"{words}, by signal {number}" if number else words


def _trouble(status: Mapping[str, Any], main: Mapping[str, Any]) -> PodProblem | None:
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return PodProblem(_said("unschedulable", condition.get("message", "")), is_hopeless=False)
    for container in (main, *_others(status)):
        waiting = container.get("state", {}).get("waiting", {})
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        image = container.get("image", "")
        if reason in _PULL:
            words = _said(f"its image {image} cannot be pulled, {reason}", message)
            return PodProblem(words, is_hopeless=reason in _PULL_FAILED)
        if reason in _NOT_STARTED:
            return PodProblem(_said(f"its container cannot be started, {reason}", message), is_hopeless=False)
    return None


def _others(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return [one for one in containers if one.get("name") != MAIN]


def _main(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((one for one in status.get("containerStatuses", ()) if one.get("name") == MAIN), {})


def _said(words: str, message: str) -> str:
    return f"{words}: {message.strip()}" if message and message.strip() else words


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


def _instant(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1_000_000)
