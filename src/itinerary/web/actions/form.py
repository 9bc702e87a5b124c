"""The fields of a submitted form, validated, and kept unchanged for showing the form again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from urllib.parse import parse_qs
from uuid import uuid4

from itinerary.errors import ConfigError, WindowError
from itinerary.model.text import shown
from itinerary.operations.idempotency import RequestKey
from itinerary.schedules.instants import microseconds_of
from itinerary.web.guard import FORM_TYPE
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["REASON_MAX", "FormFields", "instant_typed", "new_key", "read_form"]

REASON_MAX: Final = 1_000
"""The maximum length of a reason, in characters."""
_FIELDS_MAX: Final = 200
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_NUMBER_MAX: Final = 9


class FormFields:
    """The fields of a form by name."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """Return the text of a field."""
        return self._fields.get(name, [default])[0]

    def texts(self, name: str) -> list[str]:
        """Return all selected values of a field."""
        return self._fields.get(name, [])

    @property
    def reason(self) -> str | None:
        """The reason that the user gave, if any. Raises ConfigError if it is too long."""
        said = self.text("reason").strip()
        if len(said) > REASON_MAX:
            raise ConfigError(f"the reason is {len(said)} characters long, {REASON_MAX} are allowed; say it shorter")
        return said or None

    @property
    def key(self) -> str:
        """The idempotency key that was created with the form."""
        key = self.text("key")
        if _KEY.fullmatch(key) is None:
            raise RequestRefused(400, "Bad request", "the form has lost its key; open it again")
        return key

    def request_key(self, what: str) -> RequestKey:
        """Return the idempotency key of a job change, with a digest of the form and the action.

        The digest keeps any other form or action from matching the key.
        """
        typed = sorted((name, tuple(values)) for name, values in self._fields.items() if name not in {"_csrf", "key"})
        return RequestKey(self.key, blake2b(repr((what, typed)).encode(), digest_size=16).hexdigest())

    def instant(self, name: str, label: str) -> int | None:
        """Return an instant in microseconds; None if the field is empty. Raises ConfigError."""
        said = self.text(name).strip()
        return None if not said else instant_typed(label, said)

    def number(self, name: str, label: str, default: int) -> int:
        """Return a whole number. Raises ConfigError."""
        said = self.text(name).strip()
        if not said:
            return default
        if not (said.isascii() and said.isdigit() and len(said) <= _NUMBER_MAX):
            raise ConfigError(f"{label}: {shown(said)} is not a whole number")
        return int(said)


def instant_typed(label: str, said: str) -> int:
    """Parse an instant as a browser sends it; without an offset it is in UTC. Raises ConfigError."""
    try:
        at = datetime.fromisoformat(said)
        return microseconds_of(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError, WindowError) as error:
        raise ConfigError(f"{label}: {shown(said)} is no time; write 2026-03-01T09:00, which is in UTC") from error


def new_key() -> str:
    """Return a new idempotency key for a new form."""
    return uuid4().hex


async def read_form(request: Request, allowed: Collection[str]) -> FormFields:
    """Read the form of a request. Raises Refused if the body is no form, or has an unknown field (Q7)."""
    if request.media_type != FORM_TYPE:
        raise RequestRefused(415, "Not a form", f"send it as {FORM_TYPE}")
    try:
        text = (await request.body()).decode()
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError as error:
        raise RequestRefused(400, "Bad request", "the form cannot be read") from error
    if unknown := sorted(fields.keys() - set(allowed)):
        raise RequestRefused(400, "Bad request", f"the form has a field {shown(unknown[0])}, which nobody knows")
    return FormFields(fields)
