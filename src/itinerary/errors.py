"""Every exception that Itinerary raises, under one root.

An error here is about the world: a bad expression, a window too wide, a zone that nobody knows. Its message says what
happened, to what, and what to do about it. Our own bugs are assertions instead, and have no class.
"""

__all__ = [
    "ClockError",
    "CommitInDoubt",
    "ConfigError",
    "DurationError",
    "IdentityError",
    "IllegalTransition",
    "ItineraryError",
    "JobFileError",
    "KeyUsed",
    "NodeError",
    "NotThere",
    "PermissionDeniedError",
    "RecordError",
    "ScheduleError",
    "ScheduleFaulty",
    "SchemaError",
    "StaleVersion",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "TokenError",
    "TransactionError",
    "UnknownZone",
    "Unwritable",
    "WindowError",
]


class ItineraryError(Exception):
    """The root: catching this catches everything that Itinerary itself raises."""


class DurationError(ItineraryError, ValueError):
    """A duration that cannot be read, is not whole seconds, or lies outside its bounds."""


class ScheduleError(ItineraryError, ValueError):
    """A schedule that cannot be built: which field, what was wrong with it, and what is allowed there."""


class UnknownZone(ScheduleError):
    """A time zone name that is not in the zone data."""


class WindowError(ItineraryError, ValueError):
    """A window that is outside the supported years, or holds more instants than one call may return."""


class ScheduleFaulty(ItineraryError):
    """A schedule that broke its obligations while it was being asked: it went backwards, stood still, or raised.

    The job that uses it is quarantined with this message as the reason.
    """


class ConfigError(ItineraryError, ValueError):
    """A configuration value that is unknown, of the wrong type, or out of range: which key, and what is allowed."""


class JobFileError(ConfigError):
    """A job file that cannot be used: each mistake in it is a line, with file, line, key, value and what is allowed."""

    def __init__(self, *problems: object) -> None:
        """`problems` are the mistakes, each of which says what it is."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class IllegalTransition(ItineraryError):
    """A state change that the transition table does not contain."""


class IdentityError(ItineraryError, ValueError):
    """A name, instant or number from which no id can be made: which one, and what is allowed."""


class RecordError(ItineraryError, ValueError):
    """Stored or returned data that cannot be what it should be, or an event that cannot be appended: which record it
    is, where in it, and what was expected."""


class NodeError(ItineraryError):
    """A node that cannot do what it was asked: it runs already, has not been started, or is too busy."""


class NotThere(NodeError):
    """Something was named that there is not: a job, an occurrence. The message has the name that was perhaps meant."""


class KeyUsed(NodeError):
    """A request came with a key that another request was made with already. Nothing was done."""


class PermissionDeniedError(ItineraryError):
    """A caller asked for something that its scope does not cover: what it was, and which scope it needs."""


class ClockError(ItineraryError):
    """A clock that a test moves cannot do what it was asked: go back, wait for something real, know an unknown job."""


class StaleVersion(ItineraryError):
    """A change that was made from a version which is no longer the newest: which one it missed, and whose that is."""


class TokenError(ItineraryError, ValueError):
    """A token that cannot be made, or is not there: which one, and what to do."""


class StoreError(ItineraryError):
    """A store could not do what it was asked: which store, what failed, and what to do about it."""


class StoreUnavailable(StoreError):
    """A store cannot be reached, and waiting for it has taken too long. Nothing is known to be lost: ask again."""


class StoreBusy(StoreUnavailable):
    """A store is held by somebody else for longer than its lock timeout."""


class StoreFull(StoreError):
    """A store has no room left on its disk or in its map. What was asked is not written; it goes on with room."""


class SchemaError(StoreError):
    """A store's schema is newer than this program knows, damaged, or somebody else's."""


class Unwritable(StoreError):
    """A value that the store can never hold, whoever asks: a number out of range, text with a NUL (protocol rule
    12)."""


class TransactionError(StoreError):
    """A task's transaction that cannot be: unsupported there, over its time, refused by its fence, or misused."""


class CommitInDoubt(TransactionError):
    """A commit whose answer did not come: it may have happened or not, and has to be found out."""
