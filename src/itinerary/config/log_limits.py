"""A log line has a limit: whatever a task logs, its fields are cut before they are written out.

`ctx.log.info("done", rows=rows)` with a million rows would be rendered while no other thread of the node runs. Each
field is measured first (`model.json_size`); what is too large is shown in part. Exceptions are written out by
`executors.tracebacks`, which is bounded too.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from itertools import islice
from types import TracebackType
from typing import Any, Final, Protocol

from itinerary.executors.tracebacks import traceback_text
from itinerary.model.exception_text import bounded_repr, is_heavy
from itinerary.model.text import MESSAGE_MAX

__all__ = ["FIELDS_MAX", "FIELD_MAX", "FieldsBounded", "exception_shown"]

FIELD_MAX: Final = MESSAGE_MAX
"""The longest field of a log line, in characters."""
FIELDS_MAX: Final = 100
"""The most fields of a log line."""


class Hides(Protocol):
    """What takes secrets out of a text."""

    @property
    def longest(self) -> int: ...

    def hidden(self, text: str) -> str: ...


class FieldsBounded:
    """A structlog processor that cuts fields which are too large."""

    def __init__(self, secrets: Hides) -> None:
        """`secrets` are looked for where a text is cut, so that no part of one is left."""
        self._secrets = secrets

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG002 - structlog's arguments
        if len(event) > FIELDS_MAX:
            left_out = len(event) - FIELDS_MAX
            event = {"event": event.get("event"), **dict(islice(event.items(), FIELDS_MAX))}
            event["fields_left_out"] = left_out
        return {key: self._bounded(value) for key, value in event.items()}

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if str.__len__(value) <= FIELD_MAX else self._cut(str.__str__(value))
        if isinstance(value, int | float | None) or not is_heavy(value, FIELD_MAX):
            return value
        return f"{bounded_repr(value)} (shown in part: it is large)"

    def _cut(self, text: str) -> str:
        half, margin = FIELD_MAX // 2, max(self._secrets.longest - 1, 0)
        # At the cut there may be a part of a secret, which is shorter than the longest of them.
        first = self._secrets.hidden(text[: half + margin])
        last = self._secrets.hidden(text[-half - margin :])
        note = f"… {len(text) - 2 * half} characters left out …"
        return first[: len(first) - margin] + note + last[margin:]


def exception_shown(exc_info: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    """Write an exception out for a log line."""
    return traceback_text(exc_info[1], exc_info[2])
