"""The size limit of a log line: large fields are truncated before they are rendered.

`ctx.log.info("done", rows=rows)` with a million rows would block all other threads of the node during rendering. So
each field is measured first (`model.json_size`), and a large field is shown in part. `executors.tracebacks` renders
exceptions, with a limit too.
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
"""The maximum length of a field, in characters."""
FIELDS_MAX: Final = 100
"""The maximum number of fields in a log line."""


class SecretMask(Protocol):
    """An object that removes secrets from a text."""

    @property
    def longest(self) -> int: ...

    def hidden(self, text: str) -> str: ...


class FieldsBounded:
    """A structlog processor that truncates large fields."""

    def __init__(self, secrets: SecretMask) -> None:
        """Create the processor. `secrets` hides secrets where a text is cut, so that no part of one remains."""
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
        # The cut may leave a part of a secret, which is shorter than the longest secret.
        first = self._secrets.hidden(text[: half + margin])
        last = self._secrets.hidden(text[-half - margin :])
        note = f"… {len(text) - 2 * half} characters left out …"
        return first[: len(first) - margin] + note + last[margin:]


def exception_shown(exc_info: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    """Render an exception for a log line."""
    return traceback_text(exc_info[1], exc_info[2])
