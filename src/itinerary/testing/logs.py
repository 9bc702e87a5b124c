"""What was logged during a rehearsal: by the node, and by the tasks with `ctx.log`.

The node's own lines come here and go nowhere else. What tasks log goes where it always goes, and is kept here besides:
a processor, put in front of those that structlog has, looks at who logs. It is taken out again with the rehearsal.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from itinerary.simulate.processes import PROCESS, Process

__all__ = ["LogLine", "Logs"]

_KEPT_MAX: Final = 100_000
"""Lines that are kept; of more than that, the first are forgotten."""


class LogLine(msgspec.Struct, frozen=True):
    """Something that was said, and when by the test's clock."""

    at: datetime
    level: str
    event: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.level:<7} {self.event} {fields}".rstrip()


class Logs:
    """All lines, in order. For the node it is a logger."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.lines: list[LogLine] = []
        self.processes: set[Process] = set()
        self.is_over = False
        """What is said now is the clean-up of tasks that nobody waits for."""

    def note(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """One more."""
        self.lines.append(LogLine(self._now(), level, event, fields))
        if len(self.lines) > 2 * _KEPT_MAX:
            del self.lines[:-_KEPT_MAX]

    def debug(self, event: str, **fields: Any) -> None:
        self.note("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self.note("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.note("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self.note("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        self.note("error", event, fields)

    # -- what tasks say ----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Hear what is logged through structlog, from now on."""
        structlog.get_config()["processors"].insert(0, self._hear)

    def leave(self) -> None:
        """Hear no more."""
        processors = structlog.get_config()["processors"]
        if self._hear in processors:
            processors.remove(self._hear)

    def _hear(self, _: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if self.is_over:
            raise structlog.DropEvent
        if PROCESS.get() in self.processes:
            fields = {name: value for name, value in event.items() if name != "event"}
            self.note(level, str(event.get("event")), fields)
        return event
