"""Text from outside: names, error messages, returned values.

A single bad string must not stop a batch. PostgreSQL refuses NUL, UTF-8 has no lone surrogates, terminals obey escape
codes, and a traceback can be a hundred megabytes. The treatment depends on the purpose of the text:

    a name        is refused, because a changed name would be another name         check_name
    a message     is repaired and cut, because half a message is better than none  clean_text
    a result      is kept whole or not at all, because half of it is wrong         codec.result_json

The time that these functions need depends on the size of the result, not of the input.
"""

import re
from typing import Final

from itinerary.errors import IdentityError

__all__ = ["MESSAGE_MAX", "NAME_MAX", "check_name", "clean_text", "shown"]

NAME_MAX: Final = 255
"""The longest name, in characters."""

MESSAGE_MAX: Final = 16_384
"""The longest message that a record keeps, in characters."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SHOWN_MAX: Final = 60

# Control characters and lone surrogates break stores and terminals. Line separators and direction overrides make a name
# look like another one. The ranges are the same in every version of Unicode, so all nodes refuse the same names.
_NOT_IN_NAMES: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_IN_MESSAGES: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def check_name(what: str, name: str) -> str:
    """Return the name if it is valid.

    Args:
        what: The owner of the name in the error: "job name", "request key".
        name: The name.

    Raises:
        IdentityError: The name is not valid. The message has the reason.
    """
    if not isinstance(name, str):
        raise IdentityError(f"{what} {shown(name)} is not text; give 1 to {NAME_MAX} characters")
    if len(name) > NAME_MAX:
        raise IdentityError(f"{what} {shown(name)} is {len(name)} characters long, {NAME_MAX} are allowed")
    if not name.strip():
        raise IdentityError(f"{what} is empty; give 1 to {NAME_MAX} characters")
    if found := _NOT_IN_NAMES.search(name):
        raise IdentityError(
            f"{what} {shown(name)} has the character U+{ord(found[0]):04X} at position {found.start() + 1}; "
            "control characters, line separators and lone surrogates are not allowed"
        )
    if name != name.strip():
        raise IdentityError(f"{what} {shown(name)} begins or ends with a space; write it without")
    return name


def clean_text(text: str, limit: int = MESSAGE_MAX) -> str:
    """Return the text in a form that every store and terminal accepts, at most `limit` characters long.

    Invalid characters become U+FFFD. A text that is too long keeps its beginning and its end. A message has its main
    point at the one, a traceback at the other. Clean text is not changed.
    """
    if len(text) > limit:
        note = f"\n… {len(text) - limit} characters and this note left out …\n"[:limit]
        kept = limit - len(note)
        text = text[: kept - kept // 2] + note + text[len(text) - kept // 2 :]
    return _NOT_IN_MESSAGES.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def shown(value: object) -> str:
    """Return a value as an error message may quote it: short, on one line, and safe for any input."""
    match value:
        case str():
            return repr(value) if len(value) <= _SHOWN_MAX else repr(value[:_SHOWN_MAX] + "…")
        case int() if value.bit_length() > 128:
            return f"a number of {value.bit_length()} bits"
        case bool() | int() | float() | None:
            return repr(value)
        case _:
            return f"a value of type {type(value).__name__!r}"
