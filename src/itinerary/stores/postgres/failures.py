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

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull, StoreUnavailable, Unwritable

__all__ = ["Meaning", "as_store_error", "meaning", "said"]


class Meaning(Enum):
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
        return self in (Meaning.LOST, Meaning.BUSY)


_BY_STATE: Final = {
    "0A000": Meaning.LOST,  # a cached plan no longer fits: a new connection has none
    "23502": Meaning.UNWRITABLE,
    "23514": Meaning.UNWRITABLE,
    "25006": Meaning.LOST,  # read only: the server is a standby now, and the address may lead to its successor
    "25P03": Meaning.LOST,
    "25P04": Meaning.LOST,
    "26000": Meaning.LOST,  # a prepared statement is missing, or exists already: another session than expected
    "42P05": Meaning.LOST,
    "3F000": Meaning.SCHEMA,
    "42P01": Meaning.SCHEMA,
    "42703": Meaning.SCHEMA,
    "42501": Meaning.DENIED,
    "53100": Meaning.FULL,
    "53300": Meaning.LOST,  # too many connections
    "55P03": Meaning.BUSY,
    "57014": Meaning.BUSY,  # cancelled, by a statement timeout or an administrator
    "57P01": Meaning.LOST,
    "57P02": Meaning.LOST,
    "57P03": Meaning.LOST,
    "57P05": Meaning.LOST,
}
_BY_CLASS: Final = {
    "08": Meaning.LOST,
    "22": Meaning.UNWRITABLE,
    "40": Meaning.BUSY,
    "53": Meaning.BUSY,
    "54": Meaning.UNWRITABLE,  # a limit of the server, such as the size of an index entry
}


def meaning(error: psycopg.Error) -> Meaning:
    """Return the meaning of an error."""
    if error.sqlstate is not None:
        return _BY_STATE.get(error.sqlstate) or _BY_CLASS.get(error.sqlstate[:2], Meaning.OTHER)
    if isinstance(error, psycopg.DataError):
        return Meaning.UNWRITABLE
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Meaning.LOST
    return Meaning.OTHER


def said(error: psycopg.Error) -> str:
    """Return the message on one line. Neither the server nor libpq puts a password into it."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


def as_store_error(error: psycopg.Error, where: str, patience: float = 0) -> StoreError:
    """Return the error for the caller. `patience` is the time in seconds for which the work was repeated, or 0."""
    tried = f" for {patience:g} s" if patience else ""
    match meaning(error):
        case Meaning.LOST:
            return StoreUnavailable(f"{where} could not be reached{tried}: {said(error)}; the work can be repeated")
        case Meaning.BUSY:
            return StoreBusy(f"{where} was held by others{tried}: {said(error)}; the work can be repeated")
        case Meaning.FULL:
            return StoreFull(f"{where} has no room left: {said(error)}; make some, and it goes on")
        case Meaning.UNWRITABLE:
            return Unwritable(f"{where} cannot hold a value that it was given: {said(error)}")
        case Meaning.SCHEMA:
            return SchemaError(f"{where} is not as it was left: {said(error)}; restore it from a backup")
        case Meaning.DENIED:
            return StoreError(f"{where} does not allow this: {said(error)}; grant the user what it needs")
        case Meaning.OTHER:
            return StoreError(f"{where} refused a statement: {said(error)} (SQLSTATE {error.sqlstate})")
