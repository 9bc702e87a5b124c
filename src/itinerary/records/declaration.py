"""A record scheduler as the program declares it: its name, its settings and its functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from itinerary.errors import ConfigError, IdentityError
from itinerary.model.text import check_name, shown
from itinerary.records.batches import Record, RecordBatch
from itinerary.records.event_types import check_verification
from itinerary.records.settings import DeskSettings
from itinerary.schedules.zones import UTC_NAME, Zone, ZoneSource, packaged_zone

__all__ = ["ONE_PARTITION", "DeskDeclaration", "ZoneLike"]

ZoneLike: TypeAlias = str | Callable[[str], str] | None
"""The time zone of all partitions, or a function that returns that of one; None: the zone of the settings."""

ONE_PARTITION: Final = "all"
"""The only partition of a record scheduler without `partition_by`."""


class DeskDeclaration:
    """The declared name, settings and functions of a record scheduler."""

    def __init__(
        self,
        name: str,
        settings: DeskSettings,
        *,
        partition_by: str | None = None,
        timezone: ZoneLike = None,
        zones: ZoneSource = packaged_zone,
    ) -> None:
        """Check the names and the zone.

        Args:
            name: The name of the record scheduler and of its log.
            settings: The settings.
            partition_by: The field of events that names the partition; None: there is one partition.
            timezone: The time zone of the partitions.
            zones: The source of the time zone tables.

        Raises:
            ConfigError: A name is not allowed.
        """
        try:
            self.name = check_name("desk name", name)
            self.partition_by = None if partition_by is None else check_name("partition_by", partition_by)
        except IdentityError as error:
            raise ConfigError(str(error)) from error
        if "/" in name:
            raise ConfigError(f"desk name {shown(name)} has a '/'; call it without")
        if partition_by in ("kind", "record", "key", "data", "target_time", "check_time", "verification"):
            raise ConfigError(f"desk {name!r}: partition_by={partition_by!r} is a field of events; choose another name")
        self.settings = settings
        self._timezone, self._zones = timezone, zones
        if not callable(timezone):
            zones(UTC_NAME if timezone is None else timezone)  # raises if the zone is unknown
        self.handler: Callable[[RecordBatch], Any] | None = None
        self.verifications: dict[str, Callable[[Record], Any]] = {}
        self.alert_hooks: list[Callable[[str], Any]] = []

    def set_handler(self, function: Callable[[RecordBatch], Any]) -> None:
        """Set the function that handles batches."""
        if self.handler is not None:
            raise ConfigError(f"desk {self.name!r} has a handler already; one desk has one")
        self._check(function, "a batch")
        self.handler = function

    def set_verification(self, kind: str, function: Callable[[Record], Any]) -> None:
        """Set the function that handles one kind of verification."""
        check_verification(kind)
        if kind in self.verifications:
            raise ConfigError(f"desk {self.name!r} has a handler for verification {kind!r} already")
        self._check(function, "a record")
        self.verifications[kind] = function

    def add_alert(self, function: Callable[[str], Any]) -> None:
        """Add a function that is called when a long outage of the event store begins, and when it ends."""
        self._check(function, "a message")
        self.alert_hooks.append(function)

    def zone_of(self, partition: str) -> Zone:
        """Return the time zone of a partition. Errors of the program's function pass through."""
        name = self._timezone(partition) if callable(self._timezone) else self._timezone
        return self._zones(UTC_NAME if name is None else name)

    def _check(self, function: object, what: str) -> None:
        if not callable(function):
            raise ConfigError(f"desk {self.name!r}: {shown(function)} is not a function")
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            name = getattr(function, "__qualname__", repr(function))
            raise ConfigError(f"desk {self.name!r}: {name} takes one argument, {what}") from error
        except ValueError:
            return  # the signature of a function that is not written in Python may be unreadable
