"""The request of a person or a program for an occurrence: the `details` of its row, as JSON.

An occurrence that is due by a schedule has no request. A trigger has the requester. A replay and a backfill also have
the occurrence that runs again. Any run that has not started may be adjusted. Its details then have who did that, when,
why, and which values were set.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from itinerary.model.codec import from_json, to_json

__all__ = ["Adjusted", "RunRequestInfo", "asked_json", "details_with", "read_adjusted", "read_asked"]

_ADJUSTED_MAX: Final = 20
"""The most adjustments of a run that are kept: the last ones."""


class Adjusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Values that were set on a run before it started."""

    by: str
    at: int
    """The time of the adjustment, in microseconds."""
    values: dict[str, Any]
    """The values, by key."""
    reason: str | None = None


class RunRequestInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request for a run."""

    by: str = ""
    """The requester. Empty if the run is due by a schedule, and was only adjusted."""
    reason: str | None = None
    request: str | None = None
    """The request key of a replay or a backfill. Two requests with the same key are one request."""
    fingerprint: str | None = None
    """A digest of a request that has a key. By it a different request with the same key is detected."""
    replay_of: UUID | None = None
    """The occurrence that runs again."""
    replay_number: int | None = None
    only_tasks: tuple[str, ...] | None = None
    """The tasks that run again. None: all tasks."""
    adjusted: tuple[Adjusted, ...] = ()
    """The adjustments of the run before its start, the newest last."""


def asked_json(asked: RunRequestInfo) -> str:
    """Return the request as it is stored."""
    return to_json(asked).decode()


def read_asked(details: str | None) -> RunRequestInfo | None:
    """Read the request from the details of a row. Return None if no caller requested the run.

    Raises:
        RecordError: The details cannot be read.
    """
    asked = None if details is None else from_json(RunRequestInfo, details)
    return None if asked is None or not asked.by else replace(asked, adjusted=())


def read_adjusted(details: str | None) -> tuple[Adjusted, ...]:
    """Read the adjustments of a run before its start.

    Raises:
        RecordError: The details cannot be read.
    """
    return () if details is None else from_json(RunRequestInfo, details).adjusted


def details_with(details: str | None, adjusted: Adjusted) -> str:
    """Return the details of a row with one more adjustment."""
    asked = RunRequestInfo() if details is None else from_json(RunRequestInfo, details)
    return asked_json(replace(asked, adjusted=(*asked.adjusted, adjusted)[-_ADJUSTED_MAX:]))
