"""Charts as SVG, written by hand: bars from zero, and points on a logarithmic scale.

There are two of them, since two are needed, and a plotting library would be a dependency for two pictures. They carry
their colours for light and dark with them, as a picture in a page does not see the page's. What a colour says is also
said in words; each has a title and a description for those who do not see it. Names are text that anybody may have
written: they are escaped, and shortened if there is no room.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from xml.sax.saxutils import escape

__all__ = ["Bar", "Group", "Span", "bars", "spans"]

WIDTH = 860
_LEFT, _RIGHT, _TOP, _ROW, _HEADING = 240, 110, 52, 24, 34
_LABEL_MAX = 34
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """
    .ground { fill: #ffffff; }
    text { fill: #24313a; }
    .title { font-size: 15px; font-weight: 600; }
    .heading { font-weight: 600; }
    .quiet { fill: #5b6570; font-size: 11.5px; }
    .end { text-anchor: end; }
    .middle { text-anchor: middle; }
    .grid { stroke: #dde3e8; }
    .line { stroke: #7b8794; stroke-width: 2; }
    .ours { fill: #1f6f8b; }
    .theirs { fill: #b3a06a; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #212529; }
      text { fill: #dee6ea; }
      .quiet { fill: #9aa7b2; }
      .grid { stroke: #39424a; }
      .line { stroke: #9aa7b2; }
      .ours { fill: #7cc4de; }
      .theirs { fill: #b3a06a; }
    }"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value."""

    label: str
    value: float
    said: str
    """The value as it is written beside the bar."""
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Three values of one thing, from small to large, in milliseconds."""

    label: str
    values: tuple[float, float, float]
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under a heading."""

    heading: str
    rows: Sequence[Bar] | Sequence[Span]


def bars(title: str, groups: Sequence[Group]) -> str:
    """Horizontal bars, all on one scale that begins at zero."""
    values = [row.value for row in _rows(groups) if isinstance(row, Bar)]
    longest = max((value for value in values if math.isfinite(value)), default=0.0) or 1.0
    parts: list[str] = []
    room = WIDTH - _LEFT - _RIGHT
    for row, y in _placed(groups, parts):
        assert isinstance(row, Bar)
        width = max(row.value, 0.0) / longest * room if math.isfinite(row.value) else 0.0
        parts.append(
            f'<rect class="{_kind(row.is_ours)}" x="{_LEFT}" y="{y - 12}" width="{max(width, 1):.1f}" height="15"/>'
        )
        parts.append(_text(_LEFT + max(width, 1) + 6, y, row.said))
    words = "; ".join(
        f"{group.heading}: " + ", ".join(f"{row.label} {row.said}" for row in group.rows if isinstance(row, Bar))
        for group in groups
    )
    return _drawing(title, words, _height(groups), parts)


def spans(title: str, groups: Sequence[Group], names: tuple[str, str, str] = ("p50", "p99", "max")) -> str:
    """Three points a row on a logarithmic scale of milliseconds, joined by a line: a dot, a diamond and a stroke."""
    known = [value for row in _rows(groups) if isinstance(row, Span) for value in row.values if _is_loggable(value)]
    first = math.floor(math.log10(min(known, default=1.0)))
    last = max(math.ceil(math.log10(max(known, default=10.0))), first + 1)
    bottom = _height(groups)
    parts = []
    for power in range(first, last + 1):
        x = _log_x(10.0**power, first, last)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom - 4}"/>')
        parts.append(_text(x, bottom + 12, _duration(power), "quiet middle"))
    for row, y in _placed(groups, parts):
        assert isinstance(row, Span)
        xs = [_log_x(value, first, last) for value in row.values if math.isfinite(value)]
        if len(xs) == 3:
            parts += _points(xs, y - 4, _kind(row.is_ours))
        else:
            parts.append(_text(_LEFT, y, "nothing ran", "quiet"))
    parts.append(_text(_LEFT, bottom + 34, f"● {names[0]}   ◆ {names[1]}   | {names[2]}", "quiet"))
    words = "; ".join(
        f"{group.heading}: " + ", ".join(_spoken(row, names) for row in group.rows if isinstance(row, Span))
        for group in groups
    )
    return _drawing(title, words, bottom + 44, parts)


def _spoken(row: Span, names: Sequence[str]) -> str:
    values = " ".join(f"{name} {value:,.3g} ms" for name, value in zip(names, row.values, strict=True))
    return f"{row.label} {values}"


def _is_loggable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _log_x(value: float, first: int, last: int) -> float:
    """Where a value lies; what is too small for the scale, or before its time, lies at its beginning."""
    power = min(max(math.log10(value), first), last) if value > 0 else first
    return _LEFT + (power - first) / (last - first) * (WIDTH - _LEFT - _RIGHT)


def _duration(power: int) -> str:
    """A power of ten milliseconds: 1 ms, 10 s."""
    return f"{10 ** (power - 3):,} s" if power >= 3 else f"{10.0**power:g} ms"


def _points(xs: Sequence[float], y: int, kind: str) -> list[str]:
    small, middle, large = xs
    return [
        f'<line class="line" x1="{small:.1f}" x2="{large:.1f}" y1="{y}" y2="{y}"/>',
        f'<circle class="{kind}" cx="{small:.1f}" cy="{y}" r="5"/>',
        f'<path class="{kind}" d="M{middle:.1f} {y - 7} l7 7 l-7 7 l-7 -7 z"/>',
        f'<rect class="{kind}" x="{large - 1.5:.1f}" y="{y - 8}" width="3" height="16"/>',
    ]


# -- the frame ---------------------------------------------------------------------------------------------------------


def _rows(groups: Iterable[Group]) -> Iterable[Bar | Span]:
    return chain.from_iterable(group.rows for group in groups)


def _height(groups: Sequence[Group]) -> int:
    return _TOP + sum(_HEADING + _ROW * len(group.rows) for group in groups) + 12


def _placed(groups: Sequence[Group], parts: list[str]) -> list[tuple[Bar | Span, int]]:
    """Each row with its base line; headings and labels are drawn."""
    placed: list[tuple[Bar | Span, int]] = []
    y = _TOP
    for group in groups:
        parts.append(_text(16, y + 20, group.heading, "heading"))
        y += _HEADING
        for row in group.rows:
            parts.append(_text(_LEFT - 10, y + 14, _short(row.label), "end"))
            placed.append((row, y + 14))
            y += _ROW
    return placed


def _kind(is_ours: bool) -> str:  # noqa: FBT001 - a colour
    return "ours" if is_ours else "theirs"


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_MAX else f"{label[: _LABEL_MAX - 1]}…"


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text{of} x="{x:.1f}" y="{y:.1f}">{_escaped(words)}</text>'


def _escaped(words: str) -> str:
    return escape(_ILLEGAL.sub("\ufffd", words))


def _drawing(title: str, words: str, height: int, parts: Iterable[str]) -> str:
    inner = "\n  ".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title words"
  font-family="system-ui, sans-serif" font-size="12.5">
  <title id="title">{_escaped(title)}</title>
  <desc id="words">{_escaped(words)}</desc>
  <style>{_STYLE}
  </style>
  <rect class="ground" width="{WIDTH}" height="{height}"/>
  <text class="title" x="16" y="30">{_escaped(title)}</text>
  {inner}
</svg>
"""
