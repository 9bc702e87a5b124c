"""Sentences for a terminal: wrapped at spaces to its width, the second line deeper than the first, and never cut."""

from __future__ import annotations

import textwrap
from typing import Final

from rich.console import Console

__all__ = ["paragraph"]

_WIDTH_MIN: Final = 40
_WIDTH_MAX: Final = 120
_DEEPER: Final = 2


def paragraph(console: Console, text: str, indent: int = 0) -> None:
    """Print one. A pipe is not wrapped: whoever reads it has a width of their own."""
    if not console.is_terminal:
        console.print(" " * indent + text, markup=False, soft_wrap=True)
        return
    width = max(_WIDTH_MIN, min(console.width, _WIDTH_MAX))
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + _DEEPER),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
