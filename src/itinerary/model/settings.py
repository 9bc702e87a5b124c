"""The settings of a node (L4), checked before anything starts.

Settings are not job configuration: no job can override the loop interval of its node. Durations are microseconds here,
because only the scheduler reads them. `read_settings` reads them as people write them.

Two settings can contradict each other so that work is lost. An index that is rebuilt less often than it looks ahead has
a gap before each rebuild. That stops the start. Two other pairs only make work late, and are warned about.

Settings can be reloaded while a node runs (U13). The node applies those in `LIVE` at their next use: only this node
depends on them. The others need a restart: other nodes rely on them, or work in progress started with them.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from itinerary.errors import ConfigError
from itinerary.model.policies import UpdatePolicy
from itinerary.model.text import shown
from itinerary.model.validators import Check, check_keys, duration, one_of, whole, word
from itinerary.schedules.durations import SECOND, format_duration, parse_duration

__all__ = ["LIVE", "SHUTDOWN_RESERVE", "ReloadResult", "Settings", "check_setting", "read_settings", "reread_settings"]

LIVE: Final = frozenset(
    {
        "pre_schedule_interval",
        "index_rebuild_interval",
        "lookahead_window",
        "inbox_send_timeout",
        "max_missed_orchestrator_heartbeats",
        "max_concurrent_jobs",
        "recovery_pace",
        "shutdown_grace_period",
        "reaper_interval",
        "max_buffered_updates",
        "update_flush_threshold",
        "update_flush_interval",
        "stats_flush_threshold",
        "stats_flush_interval",
        "update_policy",
        "keep_for",
        "keep_failed_for",
        "keep_max",
    }
)
"""The settings that a running node applies on a reload."""


_DAY: Final = 86_400 * SECOND
SHUTDOWN_RESERVE: Final = 5 * SECOND
"""The time that a shutdown has beyond `shutdown_grace_period` and `kill_grace`, to write its results and to close."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a node. Durations are microseconds."""

    pre_schedule_interval: int = 10 * SECOND
    """The time before its instant at which an occurrence is claimed."""
    index_rebuild_interval: int = 60 * SECOND
    lookahead_window: int = 600 * SECOND
    """The distance into the future that the index covers."""
    grace_period: int = 30 * SECOND
    """The largest start lateness without recovery. The recovery strategy of its job decides about an older instant."""
    loop_interval: int = 1 * SECOND
    """The longest time between two iterations of the loop."""
    inbox_buffer_size: int = 10_000
    inbox_send_timeout: int = 5 * SECOND
    orchestrator_heartbeat_interval: int = 10 * SECOND
    max_missed_orchestrator_heartbeats: int = 3
    node_heartbeat_interval: int = 5 * SECOND
    takeover_after: int = 2 * SECOND
    """The time after its instant at which any node may start an occurrence that has not started."""
    max_concurrent_jobs: int = 50
    """The number of slots of this node."""
    recovery_pace: int = 100
    """The most occurrences of a backlog that this node starts per second (R3)."""
    shutdown_grace_period: int = 30 * SECOND
    kill_grace: int = 10 * SECOND
    """The time from the request to end a task to its end by force."""
    reaper_interval: int = 30 * SECOND
    max_buffered_updates: int = 10_000
    update_flush_threshold: int = 100
    update_flush_interval: int = 1 * SECOND
    stats_flush_threshold: int = 30
    stats_flush_interval: int = 30 * SECOND
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The most occurrences, over all nodes, that may hold each named limit at a time (X11): `{api = 5}`."""
    update_policy: UpdatePolicy = UpdatePolicy.IMMEDIATE
    """The default for when a new version replaces the old one, if an update does not choose (R7)."""
    keep_for: int = 30 * _DAY
    """The time after its end for which an occurrence that succeeded or did not run is kept (D8)."""
    keep_failed_for: int = 90 * _DAY
    """The time after its end for which a failed occurrence is kept."""
    keep_max: int = 100_000
    """The number of newest occurrences that are kept for each job."""
    metrics_jobs_max: int = 1_000
    """The number of jobs with metrics of their own. The other jobs are counted together."""
    web_workers: int = 2
    """The most worker processes of the web server for heavy requests."""
    web_work_timeout: int = 30 * SECOND
    """The longest duration of one heavy request."""
    web_work_megabytes: int = 512
    """The most memory that the worker process of a heavy request may use beyond what it starts with."""
    web_work_cpu_for: int = 60 * SECOND
    """The CPU time that each caller may use for heavy requests in ten minutes."""

    def __post_init__(self) -> None:
        if self.index_rebuild_interval >= self.lookahead_window:
            raise ConfigError(
                f"index_rebuild_interval ({format_duration(self.index_rebuild_interval)}) must be shorter than "
                f"lookahead_window ({format_duration(self.lookahead_window)}); else runs between two rebuilds are lost"
            )

    @property
    def late_for(self) -> int:
        """The largest start lateness without a decision of the job's recovery strategy.

        A sweep decides everything up to `takeover_after` ago. An instant that is `grace_period` older than that is
        overdue. So this is the sum of both.
        """
        return self.grace_period + self.takeover_after

    @property
    def finish_timeout(self) -> int:
        """The longest time that a run with `on_shutdown = "finish"` may continue when its node shuts down."""
        return max(self.shutdown_grace_period - self.kill_grace, 0)

    @property
    def shutdown_timeout(self) -> int:
        """The longest time that a whole shutdown may take, even if tasks do not end."""
        return self.shutdown_grace_period + self.kill_grace + SHUTDOWN_RESERVE

    def warnings(self) -> list[str]:
        """Return warnings about settings that work but make runs late, with both values and advice."""
        found = []
        loop = format_duration(self.loop_interval)
        if not self.finish_timeout:
            given, kill = format_duration(self.shutdown_grace_period), format_duration(self.kill_grace)
            found.append(
                f"shutdown_grace_period ({given}) should be longer than kill_grace ({kill}); else a shutdown cancels "
                "every run at once; raise the first"
            )
        if self.grace_period <= self.loop_interval:
            grace = format_duration(self.grace_period)
            found.append(f"grace_period ({grace}) should be longer than loop_interval ({loop}); raise the first")
        if self.pre_schedule_interval < self.loop_interval:
            ahead = format_duration(self.pre_schedule_interval)
            found.append(
                f"pre_schedule_interval ({ahead}) should not be shorter than loop_interval ({loop}); raise the first"
            )
        return found


class ReloadResult(msgspec.Struct, frozen=True):
    """The result of a reload of settings."""

    settings: Settings
    """The settings in force after the reload."""
    changed: Mapping[str, str]
    """The settings that took effect: the old value and the new one, as people write them."""
    needs_restart: tuple[str, ...]
    """The changed settings that take effect at the next start of the node."""
    needs_apply: tuple[str, ...] = ()
    """The changed settings that are part of the jobs: nodes use the values in the store."""


def reread_settings(now: Settings, wanted: Settings) -> ReloadResult:
    """Apply the settings that can change while a node runs."""
    different = [key for key in Settings.__struct_fields__ if getattr(now, key) != getattr(wanted, key)]
    taken = [key for key in different if key in LIVE]
    return ReloadResult(
        replace(now, **{key: getattr(wanted, key) for key in taken}),
        {key: f"{_shown(key, getattr(now, key))} -> {_shown(key, getattr(wanted, key))}" for key in taken},
        tuple(key for key in different if key not in LIVE),
    )


def _shown(key: str, value: Any) -> str:
    return format_duration(value) if _CHECKS[key] in (_time, _kept) else str(value)


def read_settings(given: object) -> Settings:
    """Read the settings from a table. A key that is missing or None has its default.

    Raises:
        ConfigError: A key or a value is not allowed, or two settings contradict each other.
    """
    table = check_keys("settings", given, Settings.__struct_fields__)
    values: dict[str, Any] = {key: _CHECKS[key](key, value) for key, value in table.items() if value is not None}
    return Settings(**values)


def check_setting(key: str, value: object) -> None:
    """Check the value of a single setting.

    Raises:
        ConfigError: The setting cannot have this value, independent of the other settings.
    """
    _CHECKS[key](key, value)


def _time(key: str, value: object) -> int:
    return parse_duration(_positive(key, value))


def _limits(key: str, value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}: {shown(value)} is not a table of names and numbers, such as {{api = 5}}")
    return {word(key, name): _shares(f"{key}.{name}", shares) for name, shares in value.items()}


def _kept(key: str, value: object) -> int:
    return parse_duration(_long(key, value))


_positive: Final = duration(SECOND // 1_000, _DAY)
_long: Final = duration(SECOND, 3_660 * _DAY)
_count: Final = whole(1, 10_000_000)
_shares: Final = whole(0, 1_000_000)
_COUNTS: Final = frozenset(
    {
        "inbox_buffer_size",
        "max_missed_orchestrator_heartbeats",
        "max_concurrent_jobs",
        "recovery_pace",
        "max_buffered_updates",
        "update_flush_threshold",
        "stats_flush_threshold",
        "keep_max",
        "metrics_jobs_max",
        "web_work_megabytes",
    }
)
_CHECKS: Final[dict[str, Check]] = {
    **{field: _count if field in _COUNTS else _time for field in Settings.__struct_fields__},
    "keep_for": _kept,
    "keep_failed_for": _kept,
    "limits": _limits,
    "update_policy": one_of(UpdatePolicy),
    "web_workers": whole(1, 32),
}
