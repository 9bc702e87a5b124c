"""Sequence diagrams, drawn.

Pages hold them as Mermaid, which many viewers of Markdown draw by themselves. The site asks nothing of another host and
runs no script for it, so they are drawn here, as SVG. What is understood is what our pages use, and everything else is
an error: `participant A as words`, `A->>B: words`, `A-->>B: words` (an answer, dashed) and `Note over A: words`.

    who speaks            columns, as far apart as the words between them need
    who says what         a line each, from the column of one to the column of the other
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Final

__all__ = ["draw_sequence"]

_PARTICIPANT: Final = re.compile(r"participant (\w+) as (.+)")
_MESSAGE: Final = re.compile(r"(\w+)(-->>|->>)(\w+): (.+)")
_NOTE: Final = re.compile(r"Note over (\w+): (.+)")

_CHARACTER: Final = 6.7
"""How wide a character is, about."""
_WIDEST: Final = 24
"""After how many characters words go on in the next line."""
_HEAD: Final = 34
_LINE: Final = 15
_MARGIN: Final = 14
_CLOSEST: Final = 100


@dataclass(frozen=True)
class _Step:
    sender: str
    receiver: str
    words: str
    is_answer: bool = False

    @property
    def is_note(self) -> bool:
        return self.sender == self.receiver

    @cached_property
    def lines(self) -> list[str]:
        """The words in as few lines as they need, and those about equally long."""
        return min((_wrapped(self.words, width) for width in range(8, _WIDEST + 1)), key=len)

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 22

    @property
    def height(self) -> int:
        return len(self.lines) * _LINE + (24 if self.is_note else 17)


def _wrapped(words: str, width: int) -> list[str]:
    return textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)


def draw_sequence(source: str) -> str:
    """The SVG of a diagram; `source` is what stands below `sequenceDiagram`."""
    names, steps = _read(source)
    columns = list(names)
    left = _columns(names, steps)
    right = max(
        [left[-1] + _head_width(names[columns[-1]]) / 2, *(_middle(s, columns, left) + s.width / 2 for s in steps)]
    )
    shift = _MARGIN - min(
        [left[0] - _head_width(names[columns[0]]) / 2, *(_middle(s, columns, left) - s.width / 2 for s in steps)]
    )
    at = {name: x + shift for name, x in zip(columns, left, strict=True)}
    height = _MARGIN + _HEAD + sum(step.height for step in steps) + 20
    parts = [_head(at[name], words, height) for name, words in names.items()]
    y: float = _MARGIN + _HEAD + 4
    for step in steps:
        y += step.height
        parts.append(_note(at, step, y) if step.is_note else _arrow(at, step, y))
    words = f"Sequence diagram: {', '.join(names.values())}"
    width = right + shift + _MARGIN
    return (
        f'<div class="drawing"><svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{escape(words)}">{"".join(parts)}</svg></div>'
    )


def _read(source: str) -> tuple[dict[str, str], list[_Step]]:
    names: dict[str, str] = {}
    steps: list[_Step] = []
    for line in filter(None, map(str.strip, source.splitlines())):
        if found := _PARTICIPANT.fullmatch(line):
            names[found[1]] = found[2]
        elif found := _MESSAGE.fullmatch(line):
            steps.append(_Step(found[1], found[3], found[4], found[2] == "-->>"))
        elif found := _NOTE.fullmatch(line):
            steps.append(_Step(found[1], found[1], found[2]))
        else:
            raise ValueError(f"a sequence diagram has the line {line!r}, which is not drawn; see {__name__}")
    return names, steps


def _columns(names: dict[str, str], steps: list[_Step]) -> list[float]:
    """Where each column is: as close as what is written between any two of them allows."""
    order = list(names)
    places = [0.0]
    for number in range(1, len(order)):
        heads = (_head_width(names[order[number - 1]]) + _head_width(names[order[number]])) / 2 + 16
        at = places[-1] + max(_CLOSEST, heads)
        for step in steps:
            first, last = sorted((order.index(step.sender), order.index(step.receiver)))
            if last == number and first != last:
                at = max(at, places[first] + step.width)
        places.append(at)
    return places


def _middle(step: _Step, columns: list[str], left: list[float]) -> float:
    return (left[columns.index(step.sender)] + left[columns.index(step.receiver)]) / 2


def _head_width(words: str) -> float:
    return len(words) * (_CHARACTER + 0.6) + 26


def _head(x: float, words: str, height: float) -> str:
    width = _head_width(words)
    return (
        f'<line class="life" x1="{x:.1f}" y1="{_MARGIN + _HEAD}" x2="{x:.1f}" y2="{height - 6:.1f}"/>'
        f'<rect class="box" x="{x - width / 2:.1f}" y="{_MARGIN}" width="{width:.1f}" height="{_HEAD}" rx="7"/>'
        f'<text class="name" x="{x:.1f}" y="{_MARGIN + _HEAD / 2 + 4.5:.1f}">{escape(words)}</text>'
    )


def _note(at: dict[str, float], step: _Step, y: float) -> str:
    left, height = at[step.sender] - step.width / 2, len(step.lines) * _LINE + 12
    return (
        f'<rect class="note" x="{left:.1f}" y="{y - height:.1f}" width="{step.width:.1f}" height="{height}" rx="4"/>'
        + _words(step, at[step.sender], y - 10)
    )


def _arrow(at: dict[str, float], step: _Step, y: float) -> str:
    start, end = at[step.sender], at[step.receiver]
    back = 9 if end > start else -9
    kind = "arrow answer" if step.is_answer else "arrow"
    return (
        _words(step, (start + end) / 2, y - 6)
        + f'<line class="{kind}" x1="{start:.1f}" y1="{y:.1f}" x2="{end - back:.1f}" y2="{y:.1f}"/>'
        f'<path class="tip" d="M{end:.1f} {y:.1f} l{-back} -4.5 v9 z"/>'
    )


def _words(step: _Step, x: float, last_y: float) -> str:
    """What is said, its last line at this height."""
    first_y = last_y - _LINE * (len(step.lines) - 1)
    return "".join(
        f'<text x="{x:.1f}" y="{first_y + _LINE * number:.1f}">{escape(line)}</text>'
        for number, line in enumerate(step.lines)
    )
