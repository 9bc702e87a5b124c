"""Write the few kinds of TOML values that a generated job file contains.

A basic string of TOML is a JSON string, except for one character that JSON does not escape. Comments cannot contain
control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["Variables", "comment", "inline_table", "key", "text", "text_list"]

Variables: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Variables of a command: text, or a reference to a secret, `{"secret": "NAME"}`."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NOT_IN_COMMENTS: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def text(value: str) -> str:
    """Return a string in TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """Return a key in TOML, quoted if necessary."""
    return name if _BARE.fullmatch(name) else text(name)


def text_list(values: Sequence[str]) -> str:
    """Return a list of strings in TOML, on one line."""
    return f"[{', '.join(map(text, values))}]"


def inline_table(values: Variables) -> str:
    """Return a table of strings, or of tables of strings, in TOML, on one line."""
    return f"{{ {', '.join(f'{key(name)} = {_value(value)}' for name, value in values.items())} }}"


def _value(value: str | Mapping[str, str]) -> str:
    return text(value) if isinstance(value, str) else inline_table(value)


def comment(line: str) -> str:
    """Return a comment line in TOML."""
    return f"# {_NOT_IN_COMMENTS.sub(' ', line)}".rstrip()
