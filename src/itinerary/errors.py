"""Every exception that Itinerary raises, under one root.

An error here is about the world: a bad expression, a window too wide, a zone that nobody knows. Its message says what
happened, to what, and what to do about it. Our own bugs are assertions instead, and have no class.
"""

__all__ = [
    "ConfigError",
    "DurationError",
    "IdentityError",
    "IllegalTransition",
    "ItineraryError",
    "RecordError",
    "ScheduleError",
    "ScheduleFaulty",
    "UnknownZone",
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


class IllegalTransition(ItineraryError):
    """A state change that the transition table does not contain."""


class IdentityError(ItineraryError, ValueError):
    """A name, instant or number from which no id can be made: which one, and what is allowed."""


class RecordError(ItineraryError, ValueError):
    """Stored or returned data that cannot be what it should be: which record, where in it, and what was expected."""
