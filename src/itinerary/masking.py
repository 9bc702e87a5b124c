"""Texts that no output of this process may show: the values of secrets, and the password of the store.

    hide(value)              from now on, until the process ends
    without_hidden(text)     a text with `…hidden…` in place of each of these values, and without passwords in URLs

The process hides a value as soon as it reads the value: a secret at its lookup, a password with the address of the
store. The password of any other URL, `scheme://user:password@host`, is recognised by its form. Every text of unknown
origin (a log event, an error on the terminal, the traceback of a task) is written through `without_hidden`. At most
1,000 values are kept; the oldest are dropped first.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final

__all__ = ["HIDDEN", "HIDDEN_MIN", "hidden_values", "hide", "without_hidden"]

HIDDEN: Final = "…hidden…"
HIDDEN_MIN: Final = 4
"""The length below which values are shown: replacing them would destroy whole words, and would hide little."""

_VALUES_MAX: Final = 1_000
_IN_URL: Final = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@'\"]*):[^\s/@'\"]+@")
_lock: Final = threading.Lock()
_values: Final[dict[str, None]] = {}
_longest_first: tuple[str, ...] = ()


def hide(value: str) -> None:
    """Hide this value in all output from now on."""
    global _longest_first  # noqa: PLW0603 - one list for the whole process
    if len(value) < HIDDEN_MIN or value in _values:
        return
    with _lock:
        _values[value] = None
        while len(_values) > _VALUES_MAX:
            del _values[next(iter(_values))]
        _longest_first = tuple(sorted(_values, key=len, reverse=True))


def hidden_values() -> tuple[str, ...]:
    """Return the values that no output may show, the longest first."""
    return _longest_first


def without_hidden(text: str, values: Iterable[str] | None = None) -> str:
    """Return a text without the hidden values.

    Args:
        text: The text to clean.
        values: The values to look for, the longest first. The default is all hidden values.
    """
    for value in _longest_first if values is None else values:
        text = text.replace(value, HIDDEN)
    return _IN_URL.sub(r"\1:…@", text) if "://" in text else text
