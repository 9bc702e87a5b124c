"""The settings of a record scheduler (E4 to E8), checked at its declaration.

The names are those of the source of this component. Durations are in microseconds here; users write "30s".
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
    """The settings of a record scheduler, as `app.records(…)` takes them. The reference of records describes each."""

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
    """The settings of a record scheduler. Durations are in microseconds."""

    schedule_interval: int = 30 * SECOND
    """The interval of the search for new records."""
    callback_check_interval: int = 10 * SECOND
    verification_check_interval: int = 60 * SECOND
    startup_delay: int = 5 * SECOND
    """The time from the start of a node to its first cycle."""
    batch_size_max: int = 50
    enable_early_morning_skip: bool = True
    """True if there are quiet hours."""
    early_morning_start_hour: int = 0
    early_morning_end_hour: int = 6
    queue_high: int = 1_000
    """Above this number of records in the queue of a node, queueing pauses."""
    queue_low: int = 500
    """Below this number of records, queueing resumes."""
    lease_for: int = 30 * SECOND
    """The time for which a node holds a partition without a renewal."""
    handlers_max: int = 4
    """The maximum number of deliveries in progress on a node."""
    handler_timeout: int = 300 * SECOND
    """The longest time for a handler; after that, its batch is retried."""

    def __post_init__(self) -> None:
        if self.queue_low > self.queue_high:
            raise ConfigError(
                f"queue_low ({self.queue_low}) must not be above queue_high ({self.queue_high}); else pickup would "
                "pause and resume at once"
            )

    @property
    def quiet_hours(self) -> int:
        """The number of quiet hours in a day."""
        if not self.enable_early_morning_skip:
            return 0
        return (self.early_morning_end_hour - self.early_morning_start_hour) % 24

    def warnings(self) -> list[str]:
        """Return warnings about settings that are allowed but may not be meant."""
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
    """Return the settings from a table that a user wrote.

    Args:
        given: The table. A missing key, or None, means the default.

    Raises:
        ConfigError: A key is unknown, or a value is not allowed.
    """
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
