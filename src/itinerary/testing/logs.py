"""The log of a test node: lines of the node, and of tasks that use `ctx.log`.

The node's own lines appear only here. Lines of tasks also reach their normal destination: a processor before those of
structlog checks which task logs, and copies the line. The processor is removed at the end of the test node.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from itinerary.testing.processes import PROCESS, Process

__all__ = ["LogLine", "LogLines"]

_KEPT_MAX: Final = 100_000
"""The number of lines that are kept; the oldest are dropped."""


class LogLine(msgspec.Struct, frozen=True):
    """A log line, with its time on the test's clock."""

    at: datetime
    level: str
    event: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.level:<7} {self.event} {fields}".rstrip()


class LogLines:
    """The log lines, in order. This object is the logger of the node."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.lines: list[LogLine] = []
        self.processes: set[Process] = set()
        self.is_over = False
        """True after the end of the test: later lines come from the clean-up of abandoned tasks."""

    def note(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Add a line."""
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

    # -- lines of tasks ----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Start copying lines that are logged through structlog."""
        structlog.get_config()["processors"].insert(0, self._handle)

    def leave(self) -> None:
        """Stop copying lines."""
        processors = structlog.get_config()["processors"]
        if self._handle in processors:
            processors.remove(self._handle)

    def _handle(self, _: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if self.is_over:
            raise structlog.DropEvent
        if PROCESS.get() in self.processes:
            fields = {name: value for name, value in event.items() if name != "event"}
            self.note(level, str(event.get("event")), fields)
        return event
