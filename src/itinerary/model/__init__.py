"""Frozen values that Itinerary stores or passes around: ids, configuration, states, rows, reports.

This package has no clock, no randomness, no I/O and no threads. The same input gives the same value on every node and
in every release. The ids and the stored JSON depend on that, and an import contract enforces it.

    ids            ids that every node computes alike
    states         the states of an occurrence and the one table of their transitions
    overrides      the values that people set
    config         the values in force
    policies, validators        parts of both
    retries        whether and when a failed attempt is retried
    settings       the settings of a node
    task, occurrence, report    the stored records, and the report for people
    codec, text    JSON, and text from outside
"""

from itinerary.model.codec import from_json, result_json, to_json
from itinerary.model.config import (
    ConfigLeaf,
    EffectiveConfig,
    EffectiveRecovery,
    EffectiveRetry,
    FrozenConfig,
    freeze,
    resolve,
)
from itinerary.model.ids import (
    AttemptId,
    IncarnationId,
    JobId,
    OccurrenceId,
    TaskId,
    TaskRunId,
    attempt_id,
    backfill_id,
    jitter_for,
    job_id,
    occurrence_id,
    replay_id,
    run_id,
    task_id,
    task_run_id,
    trigger_id,
)
from itinerary.model.occurrence import Attempt, Kind, Occurrence, TaskRun, Window
from itinerary.model.overrides import DEFAULTS, LEAVES, NOTHING, OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import Failure, Mode, OnOrphan, OnShutdown, Overlap, Recovery, RecoveryPolicy, Retry
from itinerary.model.report import AttemptReport, OccurrenceReport, TaskReport, build_report
from itinerary.model.retries import exception_names, may_retry, retry_wait
from itinerary.model.settings import Settings, read_settings
from itinerary.model.states import (
    CREATED_AS,
    FINAL,
    TASK_FINAL,
    TRANSITIONS,
    OccurrenceState,
    TaskState,
    advance,
    mermaid,
    shown_state,
)
from itinerary.model.task import JsonObject, Task
from itinerary.model.text import check_name, clean_text

__all__ = [
    "CREATED_AS",
    "DEFAULTS",
    "FINAL",
    "LEAVES",
    "NOTHING",
    "TASK_FINAL",
    "TRANSITIONS",
    "Attempt",
    "AttemptId",
    "AttemptReport",
    "ConfigLeaf",
    "EffectiveConfig",
    "EffectiveRecovery",
    "EffectiveRetry",
    "Failure",
    "FrozenConfig",
    "IncarnationId",
    "JobId",
    "JsonObject",
    "Kind",
    "Mode",
    "Occurrence",
    "OccurrenceId",
    "OccurrenceReport",
    "OccurrenceState",
    "OnOrphan",
    "OnShutdown",
    "Overlap",
    "OverrideLevel",
    "Overrides",
    "Recovery",
    "RecoveryPolicy",
    "Retry",
    "Settings",
    "Task",
    "TaskId",
    "TaskReport",
    "TaskRun",
    "TaskRunId",
    "TaskState",
    "Window",
    "advance",
    "attempt_id",
    "backfill_id",
    "build_report",
    "check_name",
    "clean_text",
    "exception_names",
    "freeze",
    "from_json",
    "jitter_for",
    "job_id",
    "may_retry",
    "mermaid",
    "occurrence_id",
    "read_overrides",
    "read_settings",
    "replay_id",
    "resolve",
    "result_json",
    "retry_wait",
    "run_id",
    "shown_state",
    "task_id",
    "task_run_id",
    "to_json",
    "trigger_id",
]
