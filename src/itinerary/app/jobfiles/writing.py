"""TOML, written: the few kinds of values that a job file made by a program has.

A basic string of TOML is a JSON string, but for one character that JSON leaves as it is. Comments cannot hold control
characters at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["comment", "inline_table", "key", "text", "text_list"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NOT_IN_COMMENTS: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


def text(value: str) -> str:
    """A string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else text(name)


def text_list(values: Sequence[str]) -> str:
    """A list of strings, on one line."""
    return f"[{', '.join(map(text, values))}]"


def inline_table(values: Mapping[str, str]) -> str:
    """A table of strings, on one line."""
    return f"{{ {', '.join(f'{key(name)} = {text(value)}' for name, value in values.items())} }}"


def comment(line: str) -> str:
    """A line of a comment."""
    return f"# {_NOT_IN_COMMENTS.sub(' ', line)}".rstrip()
