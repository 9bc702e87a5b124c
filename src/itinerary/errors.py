"""Every exception that Itinerary raises, under one root.

An error here is about the world: a bad expression, a window that is too wide, an unknown zone. Its message says what
happened, to what, and what to do about it. Our own bugs are assertions instead, and have no class.
"""

__all__ = [
    "ClockError",
    "CommitInDoubt",
    "ConfigError",
    "DurationError",
    "IdempotencyKeyReusedError",
    "IdentityError",
    "IllegalTransition",
    "ItineraryError",
    "JobFileError",
    "NodeError",
    "NotFoundError",
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
    "UnwritableError",
    "WindowError",
]


class ItineraryError(Exception):
    """The root class: catching it catches every error that Itinerary itself raises."""


class DurationError(ItineraryError, ValueError):
    """A duration that cannot be read, is not whole seconds, or lies outside its bounds."""


class ScheduleError(ItineraryError, ValueError):
    """A schedule that cannot be built. The message names the field, the mistake, and what is allowed there."""


class UnknownZone(ScheduleError):
    """A time zone name that is not in the zone data."""


class WindowError(ItineraryError, ValueError):
    """A window that is outside the supported years, or holds more instants than one call may return."""


class ScheduleFaulty(ItineraryError):
    """A schedule that broke its contract while instants were computed: it went backwards, did not advance, or raised.

    The job that uses it is quarantined with this message as the reason.
    """


class ConfigError(ItineraryError, ValueError):
    """A configuration value that is unknown, of the wrong type, or out of range.

    The message names the key and what is allowed.
    """


class JobFileError(ConfigError):
    """A job file that cannot be used.

    The message has one line for each mistake, with file, line, key, value and what is allowed.
    """

    def __init__(self, *problems: object) -> None:
        """Join the mistakes into one message. Each of the `problems` describes itself as text."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class IllegalTransition(ItineraryError):
    """A state change that the transition table does not contain."""


class IdentityError(ItineraryError, ValueError):
    """A name, instant or number that cannot be made into an id. The message says which one, and what is allowed."""


class RecordError(ItineraryError, ValueError):
    """Stored or returned data that is malformed, or an event that cannot be appended.

    The message names the record, the place in it, and what was expected.
    """


class NodeError(ItineraryError):
    """A node that cannot carry out a request: it already runs, is not started, or is too busy."""


class NotFoundError(NodeError):
    """A job or occurrence was not found. The message suggests the closest name."""


class IdempotencyKeyReusedError(NodeError):
    """The idempotency key of a request already belongs to another request. Nothing was done."""


class PermissionDeniedError(ItineraryError):
    """A caller asked for an action outside its scope. The message names the action and the scope that it needs."""


class ClockError(ItineraryError):
    """A test clock that cannot do what a test asked: go back, wait for real work, or find an unknown job."""


class StaleVersion(ItineraryError):
    """A change that is based on an old version. The message names the newer version and its author."""


class TokenError(ItineraryError, ValueError):
    """A token that cannot be created or was not found. The message says which one, and what to do."""


class StoreError(ItineraryError):
    """A store that could not do what a caller asked. The message names the store, the failure, and the remedy."""


class StoreUnavailable(StoreError):
    """A store did not become reachable in time. No data is known to be lost: retry the call."""


class StoreBusy(StoreUnavailable):
    """Another process holds the store for longer than the lock timeout."""


class StoreFull(StoreError):
    """A store has no room left on its disk or in its map.

    Nothing was written; writes succeed again once there is room.
    """


class SchemaError(StoreError):
    """A store's schema is newer than this program knows, is damaged, or belongs to another program."""


class UnwritableError(StoreError):
    """A value that the store can never hold: a number out of range, text with a NUL (protocol rule 12)."""


class TransactionError(StoreError):
    """A task's transaction that is unsupported by the store, over its timeout, refused by its fence, or misused."""


class CommitInDoubt(TransactionError):
    """A commit whose answer was lost. Only the store can show whether the commit happened."""
