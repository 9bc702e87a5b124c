"""Overrides: the values that one level of the configuration sets, and nothing else.

A job stores only what it overrides, and so does a task (D2). So None always means "not set here". `config` combines the
levels. To lift a bound that was set above, write a larger one.

Some leaves concern the whole occurrence and have no effect on a task. Other leaves have no effect on an occurrence that
already exists. An accepted option without effect misleads its user, so LEAVES lists the levels that may set each leaf.
Other levels are refused.

`limits` are the *names* of the limits of which every occurrence of a job takes one share each. The number of shares is
a setting, `limits = {api = 5}` (see `settings`). That number belongs to the protected API and not to each job that
calls it: two jobs must not disagree about it. Limits belong to the job and not to a task, because the transaction that
starts the occurrence takes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr, replace

from itinerary.errors import ConfigError
from itinerary.model.policies import Failure, Mode, OnOrphan, OnShutdown, Overlap, Recovery, RecoveryPolicy, Retry
from itinerary.model.validators import (
    Check,
    check_keys,
    duration,
    one_of,
    settle,
    switch,
    whole,
    word,
    words,
    zone_name,
)
from itinerary.schedules.durations import SECOND

__all__ = [
    "DEFAULTS",
    "LEAVES",
    "NOTHING",
    "OverrideLevel",
    "Overrides",
    "check_level",
    "laid_over",
    "leaves_set",
    "left_unset",
    "read_overrides",
]


class OverrideLevel(StrEnum):
    """The level that sets a value, from the most general to the most specific."""

    DEFAULT = "default"
    SETTINGS = "settings"
    JOB = "job"
    TASK = "task"
    OCCURRENCE = "occurrence"


_NO_RETRY: Final = Retry()
_NO_RECOVERY: Final = RecoveryPolicy()


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The values that one level sets. The JSON form is what a person would write, and contains only what was set."""

    timezone: str | None = None
    mode: Mode | None = None
    failure: Failure | None = None
    overlap: Overlap | None = None
    max_queued: int | None = None
    max_active: int | None = None
    limits: tuple[str, ...] | None = None
    recovery: RecoveryPolicy = _NO_RECOVERY
    retry: Retry = _NO_RETRY
    task_timeout: str | None = None
    execution_timeout: str | None = None
    priority: int | None = None
    on_orphan: OnOrphan | None = None
    on_shutdown: OnShutdown | None = None
    executor: str | None = None
    alerts: bool | None = None
    alert_after: str | None = None

    def __post_init__(self) -> None:
        settle(self, "", _CHECKS)
        # An empty policy must be the default object itself, so that the JSON omits it.
        if self.retry == _NO_RETRY:
            force_setattr(self, "retry", _NO_RETRY)
        if self.recovery == _NO_RECOVERY:
            force_setattr(self, "recovery", _NO_RECOVERY)


def _retry(key: str, value: object) -> Retry:
    return value if isinstance(value, Retry) else Retry(**_table(key, value, Retry))


def _recovery(key: str, value: object) -> RecoveryPolicy:
    if isinstance(value, RecoveryPolicy):
        return value
    if isinstance(value, str):
        return RecoveryPolicy(one_of(Recovery)(key, value))
    return RecoveryPolicy(**_table(key, value, RecoveryPolicy))


def _table(key: str, value: object, struct: type[msgspec.Struct]) -> dict[str, Any]:
    return dict(check_keys(key, value, struct.__struct_fields__, f"{key}."))


_MILLISECOND: Final = SECOND // 1_000
_CHECKS: Final[dict[str, Check]] = {
    "timezone": zone_name,
    "mode": one_of(Mode),
    "failure": one_of(Failure),
    "overlap": one_of(Overlap),
    "max_queued": whole(1, 1_000_000),
    "max_active": whole(1, 1_000_000),
    "limits": words,
    "recovery": _recovery,
    "retry": _retry,
    "task_timeout": duration(_MILLISECOND),
    "execution_timeout": duration(_MILLISECOND),
    "priority": whole(-1_000, 1_000),
    "on_orphan": one_of(OnOrphan),
    "on_shutdown": one_of(OnShutdown),
    "executor": word,
    "alerts": switch,
    "alert_after": duration(_MILLISECOND),
}

NOTHING: Final = Overrides()
"""A level that sets nothing."""

DEFAULTS: Final = Overrides(
    timezone="UTC",
    mode=Mode.SEQUENTIAL,
    failure=Failure.FAIL_FAST,
    overlap=Overlap.SKIP,
    limits=(),
    recovery=RecoveryPolicy(Recovery.EXECUTE_ALL),
    retry=Retry(max_retries=0, retry_interval="30s", backoff_factor=1.0, jitter="0s", never_retry=()),
    execution_timeout="1h",
    priority=0,
    on_orphan=OnOrphan.LEAVE,
    on_shutdown=OnShutdown.FINISH,
    executor="auto",
    alerts=True,
)
"""The first level (X5). A bound that is missing here does not limit. Without a `task_timeout`, an attempt may use the
rest of the `execution_timeout`. `auto` chooses the executor by the kind of the task."""

_FOR_ALL_JOBS: Final = frozenset({OverrideLevel.DEFAULT, OverrideLevel.SETTINGS, OverrideLevel.JOB})
_FOR_A_RUN: Final = _FOR_ALL_JOBS | {OverrideLevel.OCCURRENCE}
_ANYWHERE: Final = frozenset(OverrideLevel)

LEAVES: Final[Mapping[str, frozenset[OverrideLevel]]] = MappingProxyType(
    {
        "timezone": _FOR_ALL_JOBS,
        "mode": _FOR_A_RUN,
        "failure": _ANYWHERE,
        "overlap": _FOR_A_RUN,
        "max_queued": _FOR_ALL_JOBS,
        "max_active": _FOR_ALL_JOBS,
        "limits": frozenset({OverrideLevel.DEFAULT, OverrideLevel.JOB}),
        **{f"recovery.{field}": _FOR_ALL_JOBS for field in RecoveryPolicy.__struct_fields__},
        **{f"retry.{field}": _ANYWHERE for field in Retry.__struct_fields__},
        "task_timeout": _ANYWHERE,
        "execution_timeout": _FOR_A_RUN,
        "priority": _FOR_A_RUN,
        "on_orphan": _FOR_A_RUN,
        "on_shutdown": _FOR_A_RUN,
        "executor": frozenset({OverrideLevel.DEFAULT, OverrideLevel.JOB, OverrideLevel.TASK}),
        "alerts": _FOR_ALL_JOBS,
        "alert_after": _FOR_ALL_JOBS,
    }
)
"""Every leaf, in display order, with the levels that may set it."""


def read_overrides(given: object, level: OverrideLevel) -> Overrides:
    """Read the overrides from a table: keyword arguments, TOML, or JSON.

    Args:
        given: The table. `retry` is a Retry or a table of its fields. `recovery` is a RecoveryPolicy, a table, or just
            the strategy. None means "not set here".
        level: The level that sets the values.

    Raises:
        ConfigError: A key or a value is not allowed. The message names the key and the allowed values.
    """
    table = check_keys(level, given, Overrides.__struct_fields__)
    values: dict[str, Any] = {key: value for key, value in table.items() if value is not None}
    overrides = Overrides(**values)
    for key, _ in leaves_set(overrides):
        check_level(key, level)
    return overrides


def leaves_set(overrides: Overrides) -> Iterator[tuple[str, Any]]:
    """Yield each leaf that is set, with its value, in the order of LEAVES."""
    for key in LEAVES:
        group, _, field = key.rpartition(".")
        value = getattr(getattr(overrides, group) if group else overrides, field)
        if value is not None:
            yield key, value


def laid_over(stored: Overrides, given: Overrides) -> Overrides:
    """Return the stored overrides, with the given ones replacing them leaf by leaf (X5)."""
    return _with_leaves(stored, leaves_set(given))


def left_unset(given: Overrides, own: Overrides) -> Overrides:
    """Return the given overrides without the leaves that `own` sets."""
    if NOTHING in (given, own):
        return given  # the usual case: most jobs set nothing themselves
    taken = {key for key, _ in leaves_set(own)}
    return _with_leaves(NOTHING, ((key, value) for key, value in leaves_set(given) if key not in taken))


def _with_leaves(stored: Overrides, leaves: Iterable[tuple[str, Any]]) -> Overrides:
    values: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in leaves:
        group, _, field = key.rpartition(".")
        if group:
            groups.setdefault(group, {})[field] = value
        else:
            values[field] = value
    for group, fields in groups.items():
        policy: Retry | RecoveryPolicy = getattr(stored, group)
        values[group] = replace(policy, **fields)
    return replace(stored, **values)


def check_level(key: str, level: OverrideLevel) -> None:
    """Refuse a leaf at a level where it would have no effect.

    Raises:
        ConfigError: The level cannot set this leaf. The message names the levels that can.
    """
    if level not in LEAVES[key]:
        *others, last = (phrase for place, phrase in _PLACES.items() if place in LEAVES[key])
        where = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError(f"{key}: cannot be set {_PLACES[level]}; set it {where}")


_PLACES: Final = {
    OverrideLevel.SETTINGS: "in the settings",
    OverrideLevel.JOB: "on the job",
    OverrideLevel.TASK: "on a task",
    OverrideLevel.OCCURRENCE: "on an occurrence",
}
