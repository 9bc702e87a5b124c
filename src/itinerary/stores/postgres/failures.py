"""The meaning of an error of the server, or of the connection to it, for the caller.

    lost        the connection or the server is gone: repeat the work on a new connection
    busy        a deadlock, or a lock that took too long: repeat the work
    full, unwritable, schema, denied, other     a repetition does not help

The SQLSTATE decides. An error without one comes from the client side: the connection broke, or a value could not be
sent.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import psycopg

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull, StoreUnavailable, UnwritableError

__all__ = ["FailureReaction", "as_store_error", "meaning", "said"]


class FailureReaction(Enum):
    """The reaction to an error."""

    LOST = auto()
    BUSY = auto()
    FULL = auto()
    UNWRITABLE = auto()
    SCHEMA = auto()
    DENIED = auto()
    OTHER = auto()

    @property
    def is_passing(self) -> bool:
        """True if the same work may succeed a little later."""
        return self in (FailureReaction.LOST, FailureReaction.BUSY)


_BY_STATE: Final = {
    "0A000": FailureReaction.LOST,  # a cached plan no longer fits: a new connection has none
    "23502": FailureReaction.UNWRITABLE,
    "23514": FailureReaction.UNWRITABLE,
    "25006": FailureReaction.LOST,  # read only: the server is a standby now, and the address may lead to its successor
    "25P03": FailureReaction.LOST,
    "25P04": FailureReaction.LOST,
    "26000": FailureReaction.LOST,  # a prepared statement is missing, or exists already: another session than expected
    "42P05": FailureReaction.LOST,
    "3F000": FailureReaction.SCHEMA,
    "42P01": FailureReaction.SCHEMA,
    "42703": FailureReaction.SCHEMA,
    "42501": FailureReaction.DENIED,
    "53100": FailureReaction.FULL,
    "53300": FailureReaction.LOST,  # too many connections
    "55P03": FailureReaction.BUSY,
    "57014": FailureReaction.BUSY,  # cancelled, by a statement timeout or an administrator
    "57P01": FailureReaction.LOST,
    "57P02": FailureReaction.LOST,
    "57P03": FailureReaction.LOST,
    "57P05": FailureReaction.LOST,
}
_BY_CLASS: Final = {
    "08": FailureReaction.LOST,
    "22": FailureReaction.UNWRITABLE,
    "40": FailureReaction.BUSY,
    "53": FailureReaction.BUSY,
    "54": FailureReaction.UNWRITABLE,  # a limit of the server, such as the size of an index entry
}


def meaning(error: psycopg.Error) -> FailureReaction:
    """Return the meaning of an error."""
    if error.sqlstate is not None:
        return _BY_STATE.get(error.sqlstate) or _BY_CLASS.get(error.sqlstate[:2], FailureReaction.OTHER)
    if isinstance(error, psycopg.DataError):
        return FailureReaction.UNWRITABLE
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return FailureReaction.LOST
    return FailureReaction.OTHER


def said(error: psycopg.Error) -> str:
    """Return the message on one line. Neither the server nor libpq puts a password into it."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


def as_store_error(error: psycopg.Error, where: str, patience: float = 0) -> StoreError:
    """Return the error for the caller. `patience` is the time in seconds for which the work was repeated, or 0."""
    tried = f" for {patience:g} s" if patience else ""
    match meaning(error):
        case FailureReaction.LOST:
            return StoreUnavailable(f"{where} could not be reached{tried}: {said(error)}; the work can be repeated")
        case FailureReaction.BUSY:
            return StoreBusy(f"{where} was held by others{tried}: {said(error)}; the work can be repeated")
        case FailureReaction.FULL:
            return StoreFull(f"{where} has no room left: {said(error)}; make some, and it goes on")
        case FailureReaction.UNWRITABLE:
            return UnwritableError(f"{where} cannot hold a value that it was given: {said(error)}")
        case FailureReaction.SCHEMA:
            return SchemaError(f"{where} is not as it was left: {said(error)}; restore it from a backup")
        case FailureReaction.DENIED:
            return StoreError(f"{where} does not allow this: {said(error)}; grant the user what it needs")
        case FailureReaction.OTHER:
            return StoreError(f"{where} refused a statement: {said(error)} (SQLSTATE {error.sqlstate})")
