"""The configuration cascade: defaults → settings → job → task → occurrence.

Every level contains only what it changes. `resolve` goes through the levels leaf by leaf, including `retry.*` and
`recovery.*`. The last level that sets a leaf wins, as in CSS, and the result records which level that was.

    Overrides           what people write: None is "not set here", durations are text        see `overrides`
    EffectiveConfig     what the scheduler uses: every leaf has a value, durations are numbers      resolve
    FrozenConfig        what an occurrence starts with: the job's configuration and its tasks'      freeze

An EffectiveConfig is stored in full, including defaults. An occurrence must end under the rules with which it started,
even if the next release has other defaults.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.overrides import DEFAULTS, LEAVES, NOTHING, OverrideLevel, Overrides, check_level, leaves_set
from itinerary.model.policies import Failure, Mode, OnOrphan, OnShutdown, Overlap, Recovery
from itinerary.schedules.durations import format_duration, parse_duration

__all__ = [
    "ConfigLeaf",
    "EffectiveConfig",
    "EffectiveRecovery",
    "EffectiveRetry",
    "FrozenConfig",
    "check_timeouts",
    "freeze",
    "resolve",
]

_DURATIONS: Final = frozenset(
    {
        "recovery.max_duration",
        "retry.retry_interval",
        "retry.interval_max",
        "retry.jitter",
        "task_timeout",
        "execution_timeout",
        "alert_after",
    }
)


class EffectiveRetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A retry policy in which every value is known.

    Durations are microseconds. Without `interval_max` only WAIT_MAX applies.
    """

    max_retries: int
    retry_interval: int
    backoff_factor: float
    jitter: int
    never_retry: tuple[str, ...]
    interval_max: int | None = None


class EffectiveRecovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A recovery policy in which every value is known. A bound that is None does not limit."""

    strategy: Recovery
    max_occurrences: int | None = None
    max_duration: int | None = None


class ConfigLeaf(NamedTuple):
    """A leaf as people see it: `("retry.retry_interval", "30s", Level.JOB)`."""

    key: str
    value: str
    source: OverrideLevel


class EffectiveConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The configuration in force, and the level that set each value. Durations are microseconds."""

    timezone: str
    mode: Mode
    failure: Failure
    overlap: Overlap
    max_queued: int | None = None
    max_active: int | None = None
    limits: tuple[str, ...]
    recovery: EffectiveRecovery
    retry: EffectiveRetry
    execution_timeout: int
    task_timeout: int | None = None
    """The longest duration of an attempt. None: what is left of the execution timeout."""
    priority: int
    on_orphan: OnOrphan
    executor: str
    alerts: bool = True
    alert_after: int | None = None
    on_shutdown: OnShutdown = OnShutdown.CANCEL
    """The default is for occurrences that a release without this option started: they keep that release's rule."""
    sources: Mapping[str, OverrideLevel]
    """The level that set each leaf. A leaf that is missing here has its default."""

    def source(self, key: str) -> OverrideLevel:
        """Return the level that set a leaf."""
        if key == "task_timeout" and self.task_timeout is None:
            key = "execution_timeout"  # bounds the attempts
        return self.sources.get(key, OverrideLevel.DEFAULT)

    def rows(self) -> list[ConfigLeaf]:
        """Return every leaf for display: its key, its value, and the level that set it."""
        return [ConfigLeaf(key, _shown(self, key), self.source(key)) for key in LEAVES]


def resolve(
    *,
    settings: Overrides = NOTHING,
    job: Overrides = NOTHING,
    task: Overrides = NOTHING,
    occurrence: Overrides = NOTHING,
) -> EffectiveConfig:
    """Return the effective configuration of a job, of one of its tasks, or of one occurrence.

    Raises:
        ConfigError: A level sets a leaf that has no effect there, or a bound without the policy that it bounds.
    """
    return _resolved(settings, job, task, occurrence)


# Thousands of occurrences start per second, and nearly all use a configuration that was resolved before.
@lru_cache(maxsize=4_096)
def _resolved(settings: Overrides, job: Overrides, task: Overrides, occurrence: Overrides) -> EffectiveConfig:
    tree: dict[str, Any] = {"retry": {}, "recovery": {}}
    sources: dict[str, OverrideLevel] = {}
    for level, overrides in zip(OverrideLevel, (DEFAULTS, settings, job, task, occurrence), strict=True):
        for key, value in leaves_set(overrides):
            check_level(key, level)
            group, _, field = key.rpartition(".")
            (tree[group] if group else tree)[field] = parse_duration(value) if key in _DURATIONS else value
            if level is not OverrideLevel.DEFAULT:
                sources[key] = level
    tree["retry"] = EffectiveRetry(**tree["retry"])
    tree["recovery"] = EffectiveRecovery(**tree["recovery"])
    config = EffectiveConfig(**tree, sources=sources)
    _check_bounds(config)
    return config


def _check_bounds(config: EffectiveConfig) -> None:
    """Refuse a bound that a job sets and that bounds nothing. An accepted option without effect misleads its user."""
    for bound, choice, needed in _BOUNDS:
        chosen = _value(config, choice)
        if (
            config.source(bound) is OverrideLevel.JOB
            and config.source(choice) is not OverrideLevel.OCCURRENCE
            and chosen != needed
        ):
            raise ConfigError(
                f"{bound}: has no effect while {choice} is {chosen}; set {choice} to {needed}, or leave it out"
            )


def check_timeouts(config: EffectiveConfig) -> None:
    """Refuse a task timeout that is longer than the execution timeout.

    A lower level may set an execution timeout that is shorter than the task timeout of a level above: it ends the
    attempts, too.

    Raises:
        ConfigError: The task timeout can have no effect.
    """
    timeout, whole = config.task_timeout, config.execution_timeout
    levels = list(OverrideLevel)
    is_meant = levels.index(config.source("task_timeout")) >= levels.index(config.source("execution_timeout"))
    if timeout is not None and timeout > whole and is_meant:
        raise ConfigError(
            f"task_timeout: {format_duration(timeout)} is longer than execution_timeout, {format_duration(whole)}, "
            "which ends the run first; set a longer execution_timeout, or leave task_timeout out"
        )


_BOUNDS: Final = (
    ("recovery.max_occurrences", "recovery.strategy", Recovery.BOUNDED_WINDOW),
    ("recovery.max_duration", "recovery.strategy", Recovery.BOUNDED_WINDOW),
    ("max_queued", "overlap", Overlap.QUEUE),
)
"""The bounds, each with the leaf and the value that it needs."""


class FrozenConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The configuration with which an occurrence started: the job's, and that of each task that sets something."""

    job: EffectiveConfig
    tasks: Mapping[str, EffectiveConfig]

    def of_task(self, name: str) -> EffectiveConfig:
        """Return the configuration of a task."""
        return self.tasks.get(name, self.job)


def freeze(
    job: Overrides,
    tasks: Mapping[str, Overrides],
    *,
    occurrence: Overrides = NOTHING,
    settings: Overrides = NOTHING,
) -> FrozenConfig:
    """Resolve the configuration of an occurrence and all of its tasks, at the moment it starts.

    Args:
        job: The overrides of the job.
        tasks: The overrides of each task, by name.
        occurrence: The overrides of the occurrence.
        settings: The overrides for all jobs.
    """
    return FrozenConfig(
        resolve(settings=settings, job=job, occurrence=occurrence),
        {
            name: resolve(settings=settings, job=job, task=task, occurrence=occurrence)
            for name, task in tasks.items()
            if task != NOTHING
        },
    )


def _value(config: EffectiveConfig, key: str) -> Any:
    group, _, field = key.rpartition(".")
    return getattr(getattr(config, group) if group else config, field)


def _shown(config: EffectiveConfig, key: str) -> str:
    value = _value(config, key)
    if key == "task_timeout" and value is None:
        value = config.execution_timeout
    if value is None or value == ():
        return "none"
    if key in _DURATIONS:
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else str(value)
