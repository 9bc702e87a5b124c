"""What an error of the server, or of the way to it, means for the one who asked.

    lost        the connection, or the server, is gone or going: the same work again on a new connection
    busy        somebody else was in the way, a deadlock, a lock that took too long: the same work again
    full, unwritable, schema, denied, other     it will not get better by asking again

Which it is follows from the SQLSTATE. An error without one comes from the client's side: the connection broke, or a
value could not be sent at all.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import psycopg

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull, StoreUnavailable, Unwritable

__all__ = ["Meaning", "as_store_error", "meaning", "said"]


class Meaning(Enum):
    """What to do about an error."""

    LOST = auto()
    BUSY = auto()
    FULL = auto()
    UNWRITABLE = auto()
    SCHEMA = auto()
    DENIED = auto()
    OTHER = auto()

    @property
    def is_passing(self) -> bool:
        """Whether the same work may well succeed a little later."""
        return self in (Meaning.LOST, Meaning.BUSY)


_BY_STATE: Final = {
    "0A000": Meaning.LOST,  # a kept plan no longer fits: a new connection has none
    "23502": Meaning.UNWRITABLE,
    "23514": Meaning.UNWRITABLE,
    "25006": Meaning.LOST,  # read only: it is a standby now, and the address may lead to its successor
    "25P03": Meaning.LOST,
    "25P04": Meaning.LOST,
    "26000": Meaning.LOST,  # a prepared statement that is not there, or is already: another session than we thought
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
    "54": Meaning.UNWRITABLE,  # a limit of the server's, such as the size of what can be in an index
}


def meaning(error: psycopg.Error) -> Meaning:
    """What it means."""
    if error.sqlstate is not None:
        return _BY_STATE.get(error.sqlstate) or _BY_CLASS.get(error.sqlstate[:2], Meaning.OTHER)
    if isinstance(error, psycopg.DataError):
        return Meaning.UNWRITABLE
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Meaning.LOST
    return Meaning.OTHER


def said(error: psycopg.Error) -> str:
    """Its message, on one line. Neither the server nor libpq puts a password into one."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())


def as_store_error(error: psycopg.Error, where: str, patience: float = 0) -> StoreError:
    """What the one who asked is told. `patience` is for how many seconds it was tried again, if it was."""
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
