"""How a task learns that it should end, and how others learn that it was given up.

    stop    is_stop_asked      the task is told: `ctx.cancelled`, CancelledError, SIGTERM
    kill    is_given_up        nobody listens to it any more: what it still does counts for nothing

Both only ever go from False to True, and are read from several threads.
"""

from __future__ import annotations

from itinerary.errors import ItineraryError

__all__ = ["Standing", "TaskCancelled"]


class TaskCancelled(ItineraryError):
    """A task was asked to end, and noticed: raised by `ctx.raise_if_cancelled()`, and in a worker process by SIGTERM.

    Let it through: the attempt is then `Stopped`. A task that catches it should clean up and raise it again.
    """


class Standing:
    """Whether an attempt was asked to end, and whether it was given up."""

    __slots__ = ("is_given_up", "is_stop_asked")

    def __init__(self) -> None:
        self.is_stop_asked = False
        self.is_given_up = False
