"""The events of one seed, in order, as text: the same seed gives the same text, byte for byte.

    00:05:00.002317  a/1   begins        backup:1774699200 task 0 attempt 1

People read the history of a failed seed, and tests compare histories to prove that a seed is repeatable. So the history
has every decision: failed calls, tasks, events of processes and clocks, and finally every row of the store. Addresses,
hashes and real time do not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

from itinerary.stores.tables import ALL
from itinerary.stores.transaction import Transaction

__all__ = ["EventHistory", "SimulatedLog", "moment", "row_lines"]

_ROWS_MAX = 1_000_000


def moment(elapsed: int) -> str:
    """Format microseconds since the start of the simulation as hours, minutes and seconds."""
    seconds, micros = divmod(elapsed, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"


class EventHistory:
    """A list of events with their times. The text is built on request."""

    def __init__(self, loop_time: Callable[[], float]) -> None:
        self._loop_time = loop_time
        self._notes: list[tuple[float, str, str, str]] = []

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, who: str, what: str, details: str = "") -> None:
        """Add an event with the current time."""
        self._notes.append((self._loop_time(), who, what, details))

    def lines(self) -> Iterator[str]:
        """Yield the events as text."""
        for at, who, what, details in self._notes:
            yield f"{moment(round(at * 1_000_000))}  {who:<6} {what:<12} {details}".rstrip()

    def digest(self) -> str:
        """Return the SHA-256 hash of the text."""
        return sha256("\n".join(self.lines()).encode()).hexdigest()


class SimulatedLog:
    """A node's log that adds warnings and errors to the history."""

    def __init__(self, history: EventHistory, who: str) -> None:
        self._history = history
        self._who = who

    def debug(self, event: str, **fields: object) -> None:
        """Ignore the event."""

    def info(self, event: str, **fields: object) -> None:
        """Ignore the event."""

    def warning(self, event: str, **fields: object) -> None:
        self._history.note(self._who, "warning", _line(event, fields))

    def error(self, event: str, **fields: object) -> None:
        self._history.note(self._who, "error", _line(event, fields))

    def exception(self, event: str, **fields: object) -> None:
        self._history.note(self._who, "error", _line(event, fields))


def _line(event: str, fields: dict[str, object]) -> str:
    return " ".join([event, *(f"{name}={value!r}" for name, value in fields.items())])


def row_lines(tx: Transaction) -> list[str]:
    """Return every row of a store as text."""
    return [f"{table.title}: {row!r}" for table in ALL for row in tx.scan(table, limit=_ROWS_MAX)]
