"""The numbers that govern a desk (E4 to E8), checked when it is declared.

They are named as the source of this component names them. Durations are microseconds here; people write "30s".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown
from itinerary.model.validators import Check, check_keys, duration, whole
from itinerary.schedules.durations import SECOND, DurationLike, parse_duration

__all__ = ["BATCH_SIZE_LIMIT", "DeskOptions", "DeskSettings", "read_desk_settings"]


class DeskOptions(TypedDict, total=False):
    """The settings of a desk, as `app.records(…)` takes them; see the reference of records for each."""

    schedule_interval: DurationLike
    callback_check_interval: DurationLike
    verification_check_interval: DurationLike
    startup_delay: DurationLike
    batch_size_max: int
    enable_early_morning_skip: bool
    early_morning_start_hour: int
    early_morning_end_hour: int
    queue_high: int
    queue_low: int
    lease_for: DurationLike
    handlers_max: int
    handler_timeout: DurationLike


class DeskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a desk behaves. Durations are microseconds."""

    schedule_interval: int = 30 * SECOND
    """How often new records are looked for."""
    callback_check_interval: int = 10 * SECOND
    verification_check_interval: int = 60 * SECOND
    startup_delay: int = 5 * SECOND
    """How long after its start a node runs its first cycle."""
    batch_size_max: int = 50
    enable_early_morning_skip: bool = True
    """Whether there are quiet hours."""
    early_morning_start_hour: int = 0
    early_morning_end_hour: int = 6
    queue_high: int = 1_000
    """With more records than this in the queue of a node, nothing is queued…"""
    queue_low: int = 500
    """… until there are fewer than this."""
    lease_for: int = 30 * SECOND
    """How long a node has a partition without saying so again."""
    handlers_max: int = 4
    """How many batches a node has in hand at a time."""
    handler_timeout: int = 300 * SECOND
    """How long a handler may take; then its batch comes back."""

    def __post_init__(self) -> None:
        if self.queue_low > self.queue_high:
            raise ConfigError(
                f"queue_low ({self.queue_low}) must not be above queue_high ({self.queue_high}); else pickup would "
                "pause and resume at once"
            )

    @property
    def quiet_hours(self) -> int:
        """How many hours of a day are quiet."""
        if not self.enable_early_morning_skip:
            return 0
        return (self.early_morning_end_hour - self.early_morning_start_hour) % 24

    def warnings(self) -> list[str]:
        """What works, and is perhaps not meant."""
        if self.quiet_hours <= 12:
            return []
        start, end = self.early_morning_start_hour, self.early_morning_end_hour
        warning = (
            f"quiet hours from {start} to {end} are {self.quiet_hours} hours of each day; "
            f"if the other {24 - self.quiet_hours} are meant, exchange early_morning_start_hour and "
            "early_morning_end_hour"
        )
        return [warning]


def read_desk_settings(given: Mapping[str, Any] | DeskOptions) -> DeskSettings:
    """The settings in a table that somebody wrote. What is not in it, or is None, has its default."""
    table = check_keys("records", given, DeskSettings.__struct_fields__)
    values: dict[str, Any] = {key: _CHECKS[key](key, value) for key, value in table.items() if value is not None}
    return DeskSettings(**values)


def _time(low: int, high: int) -> Check:
    check = duration(low, high)
    return lambda key, value: parse_duration(check(key, value))


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is neither true nor false")
    return value


BATCH_SIZE_LIMIT: Final = 1_000
_DAY: Final = 86_400 * SECOND
_CHECKS: Final[dict[str, Check]] = {
    "schedule_interval": _time(SECOND, _DAY),
    "callback_check_interval": _time(SECOND, _DAY),
    "verification_check_interval": _time(SECOND, _DAY),
    "startup_delay": _time(0, _DAY),
    "batch_size_max": whole(1, BATCH_SIZE_LIMIT),
    "enable_early_morning_skip": _switch,
    "early_morning_start_hour": whole(0, 23),
    "early_morning_end_hour": whole(0, 23),
    "queue_high": whole(1, 1_000_000),
    "queue_low": whole(1, 1_000_000),
    "lease_for": _time(SECOND, _DAY),
    "handlers_max": whole(1, 1_000),
    "handler_timeout": _time(SECOND, _DAY),
}
