"""The options of a job, a task and a run as keyword arguments: types for editors and type checkers.

`model.overrides` defines what the options mean and which level may set them, and checks them. The types here only make
an editor underline `@app.job(…, overlap="skpi")` before the program runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from itinerary.model.policies import (
    Failure,
    Mode,
    OnOrphan,
    OnShutdown,
    Overlap,
    Recovery,
    RecoveryPolicy,
    Retry,
    Undeclared,
    UpdatePolicy,
)
from itinerary.model.scopes import LocalScope
from itinerary.schedules.durations import DurationLike

__all__ = [
    "DefaultOptions",
    "JobOptions",
    "LocalScopeLike",
    "PodOptions",
    "RunOptions",
    "TaskOptions",
    "UndeclaredLike",
    "UpdatePolicyLike",
]

ModeLike: TypeAlias = Mode | Literal["sequential", "parallel"]
FailureLike: TypeAlias = Failure | Literal["fail_fast", "continue", "retry_on_failure"]
OverlapLike: TypeAlias = Overlap | Literal["skip", "allow", "queue", "replace"]
OnOrphanLike: TypeAlias = OnOrphan | Literal["leave", "rerun"]
OnShutdownLike: TypeAlias = OnShutdown | Literal["finish", "cancel", "rerun"]
LocalScopeLike: TypeAlias = LocalScope | Literal["admin", "operate", "read", "none"]
UndeclaredLike: TypeAlias = Undeclared | Literal["keep", "stop", "remove"]
UpdatePolicyLike: TypeAlias = UpdatePolicy | Literal["immediate", "graceful", "windowed"]
RetryLike: TypeAlias = Retry | Mapping[str, Any]
RecoveryLike: TypeAlias = (
    RecoveryPolicy
    | Recovery
    | Literal["execute_all", "execute_last", "mark_as_missed", "bounded_window", "compressed"]
    | Mapping[str, Any]
)


class TaskOptions(TypedDict, total=False):
    """The options of a task."""

    failure: FailureLike
    retry: RetryLike
    task_timeout: DurationLike
    executor: str


class PodOptions(TypedDict, total=False):
    """The options of the pod of a function."""

    image: str
    command: Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str | Mapping[str, str]]
    env_from: Sequence[Mapping[str, str]]
    cwd: str
    resources: Mapping[str, Mapping[str, str | int | float]]
    namespace: str
    service_account: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pull_policy: Literal["Always", "IfNotPresent", "Never"]
    start_timeout: str
    template: Mapping[str, Any]


class RunOptions(TypedDict, total=False):
    """The options of a run, until it starts."""

    mode: ModeLike
    failure: FailureLike
    overlap: OverlapLike
    retry: RetryLike
    task_timeout: DurationLike
    execution_timeout: DurationLike
    priority: int
    on_orphan: OnOrphanLike
    on_shutdown: OnShutdownLike


class JobOptions(TypedDict, total=False):
    """The options of a job."""

    timezone: str
    mode: ModeLike
    failure: FailureLike
    overlap: OverlapLike
    max_queued: int
    max_active: int
    limits: Collection[str]
    recovery: RecoveryLike
    retry: RetryLike
    task_timeout: DurationLike
    execution_timeout: DurationLike
    priority: int
    on_orphan: OnOrphanLike
    on_shutdown: OnShutdownLike
    executor: str
    alerts: bool
    alert_after: DurationLike


class DefaultOptions(JobOptions, total=False):
    """The options of all jobs."""

    env: Mapping[str, str | Mapping[str, str]]
