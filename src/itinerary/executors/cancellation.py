"""The two flags of an attempt: whether it was asked to end, and whether it was abandoned.

    stop    is_stop_asked      the task is notified: `ctx.cancelled`, CancelledError, SIGTERM
    kill    is_given_up        the attempt is abandoned: its later results are ignored

Both flags only change from False to True, and are read from several threads.
"""

from __future__ import annotations

from itinerary.errors import ItineraryError

__all__ = ["CancelFlags", "TaskCancelled"]


class TaskCancelled(ItineraryError):
    """The error by which a task ends after a request to stop.

    `ctx.raise_if_cancelled()` raises it, as does SIGTERM in a worker process. Do not suppress it: the attempt is then
    `Stopped`. A task that catches it should clean up and raise it again.
    """


class CancelFlags:
    """The flags of an attempt: asked to end, and abandoned."""

    __slots__ = ("is_given_up", "is_stop_asked")

    def __init__(self) -> None:
        self.is_stop_asked = False
        self.is_given_up = False
