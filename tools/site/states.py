"""State diagrams, drawn.

As with `sequences`: pages hold them as Mermaid, and the site has them as SVG. What is understood is `a --> b`, with
words after a colon if there are any; `[*]` in front is where things begin, and behind it is left out, since what is
final looks so.

The layout is the usual one for directed graphs, in its simplest form:

    rank        a state stands below all that lead to it; an arrow that closes a circle counts the other way round
    lanes       an arrow over several ranks gets a place in each of them, so that it passes between the states
    order       within a rank by the average place of the neighbours, up and down, as long as fewer arrows cross
    places      each as near to the average of its neighbours as the others in its rank allow
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import Final

from itinerary.model.states import FINAL

__all__ = ["draw_states"]

_ARROW: Final = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?")
_START: Final = "[*]"

_CHARACTER: Final = 7.4
_BOX: Final = 30
_RANK: Final = 78
_APART: Final = 22
_LANE: Final = 14
_MARGIN: Final = 14
_SWEEPS: Final = 24


@dataclass(frozen=True)
class _Arrow:
    """An arrow of the picture, with every node and lane that it passes, from top to bottom."""

    path: tuple[str, ...]
    is_upward: bool
    words: str


def draw_states(source: str) -> str:
    """The SVG of a diagram; `source` is what stands below `stateDiagram-v2`."""
    said = _read(source)
    upward = _closing(said)
    downward = [(b, a) if (a, b) in upward else (a, b) for a, b, _ in said]
    ranks = _ranks(downward)
    arrows = [
        _Arrow(_lanes(above, below, number, ranks), (a, b) in upward, words)
        for number, ((a, b, words), (above, below)) in enumerate(zip(said, downward, strict=True))
    ]
    rows = _ordered(arrows, ranks)
    return _svg(arrows, rows, _places(arrows, rows))


def _read(source: str) -> list[tuple[str, str, str]]:
    said: list[tuple[str, str, str]] = []
    for line in filter(None, map(str.strip, source.splitlines())):
        found = _ARROW.fullmatch(line)
        if found is None:
            raise ValueError(f"a state diagram has the line {line!r}, which is not drawn; see {__name__}")
        if found[2] != _START:
            said.append((found[1], found[2], found[3] or ""))
    return said


def _closing(said: Iterable[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """The arrows that lead back to something that is still being followed."""
    after: dict[str, list[str]] = defaultdict(list)
    for a, b, _ in said:
        after[a].append(b)
    closing: set[tuple[str, str]] = set()
    done: set[str] = set()

    def follow(state: str, above: tuple[str, ...]) -> None:
        for following in after[state]:
            if following in above:
                closing.add((state, following))
            elif following not in done:
                follow(following, (*above, following))
        done.add(state)

    for state in list(after):
        if state not in done:
            follow(state, (state,))
    return closing


def _ranks(downward: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How far down each state stands: one below the lowest that leads to it."""
    ranks = {state: 0 for arrow in downward for state in arrow}
    for _ in ranks:
        for above, below in downward:
            ranks[below] = max(ranks[below], ranks[above] + 1)
    return ranks


def _lanes(above: str, below: str, number: int, ranks: dict[str, int]) -> tuple[str, ...]:
    """The way from one state to another, with a lane in each rank between them."""
    lanes = [f"{number}/{rank}" for rank in range(ranks[above] + 1, ranks[below])]
    for lane in lanes:
        ranks[lane] = int(lane.partition("/")[2])
    return above, *lanes, below


# -- the order within each rank ----------------------------------------------------------------------------------------


def _neighbours(arrows: Iterable[_Arrow]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for arrow in arrows:
        for upper, lower in pairwise(arrow.path):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _ordered(arrows: Sequence[_Arrow], ranks: Mapping[str, int]) -> list[list[str]]:
    above, below = _neighbours(arrows)
    rows: list[list[str]] = [[] for _ in range(max(ranks.values()) + 1)]
    for state, rank in ranks.items():
        rows[rank].append(state)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_SWEEPS):
        rows = [list(row) for row in rows]
        neighbours = below if sweep % 2 else above
        for rank in reversed(range(len(rows) - 1)) if sweep % 2 else range(1, len(rows)):
            fixed = {state: place for place, state in enumerate(rows[rank + 1 if sweep % 2 else rank - 1])}
            keys = {
                state: fmean(fixed[other] for other in neighbours[state]) if neighbours[state] else place
                for place, state in enumerate(rows[rank])
            }
            rows[rank].sort(key=keys.__getitem__)
        if (crossings := _crossings(rows, below)) < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], below: Mapping[str, Sequence[str]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {state: number for number, state in enumerate(lower)}
        ends = [place[other] for state in upper for other in sorted(below.get(state, ()), key=place.__getitem__)]
        count += sum(first > second for number, first in enumerate(ends) for second in ends[number + 1 :])
    return count


# -- places ------------------------------------------------------------------------------------------------------------


def _is_lane(state: str) -> bool:
    return "/" in state


def _width(state: str) -> float:
    if _is_lane(state):
        return _LANE
    return 16.0 if state == _START else len(_shown(state)) * _CHARACTER + 26


def _places(arrows: Sequence[_Arrow], rows: Sequence[Sequence[str]]) -> dict[str, float]:
    above, below = _neighbours(arrows)
    places: dict[str, float] = {}
    for row in rows:
        places |= _settled(row, dict.fromkeys(row, 0.0))
    for sweep in range(2 * _SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = {
                state: fmean(places[other] for other in neighbours[state]) if neighbours[state] else places[state]
                for state in row
            }
            places |= _settled(row, wanted)
    return places


def _settled(row: Sequence[str], wanted: Mapping[str, float]) -> dict[str, float]:
    """Each where it wants to be, as nearly as their order and their widths allow: those that push share the shift."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (_width(left) + _width(right)) / 2 + _APART)
    groups: list[list[float]] = []
    for state, offset in zip(row, offsets, strict=True):
        groups.append([wanted[state] - offset])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    levels = [level for group in groups for level in [fmean(group)] * len(group)]
    return {state: level + offset for state, level, offset in zip(row, levels, offsets, strict=True)}


# -- the picture -------------------------------------------------------------------------------------------------------


def _svg(arrows: Sequence[_Arrow], rows: Sequence[Sequence[str]], places: dict[str, float]) -> str:
    shift = _MARGIN - min(places[state] - _width(state) / 2 for row in rows for state in row)
    places = {state: x + shift for state, x in places.items()}
    width = max(places[state] + _width(state) / 2 for row in rows for state in row) + _MARGIN
    height = 2 * _MARGIN + _BOX + _RANK * (len(rows) - 1)
    top = {state: _MARGIN + _RANK * rank for rank, row in enumerate(rows) for state in row}
    out, into = _ports(arrows, places)
    parts = [_arrow(arrow, out[number], into[number], places, top) for number, arrow in enumerate(arrows)]
    parts += [_box(state, places[state], top[state]) for row in rows for state in row if not _is_lane(state)]
    names = ", ".join(_shown(state) for row in rows for state in row if not _is_lane(state) and state != _START)
    return (
        f'<div class="drawing"><svg viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        f'role="img" aria-label="State diagram: {escape(names)}">{"".join(parts)}</svg></div>'
    )


def _ports(arrows: Sequence[_Arrow], places: Mapping[str, float]) -> tuple[list[float], list[float]]:
    """Where each arrow leaves the state above and reaches the one below: side by side, by where it goes."""

    def spread(end: int, beside: int) -> list[float]:
        found = [0.0] * len(arrows)
        by_state: dict[str, list[int]] = defaultdict(list)
        for number, arrow in enumerate(arrows):
            by_state[arrow.path[end]].append(number)
        for state, numbers in by_state.items():
            numbers.sort(key=lambda number: (places[arrows[number].path[beside]], arrows[number].is_upward))
            room = min(_width(state) - 24, 26.0 * (len(numbers) - 1)) if state != _START else 0.0
            for place, number in enumerate(numbers):
                share = place / (len(numbers) - 1) - 0.5 if len(numbers) > 1 else 0.0
                found[number] = places[state] + room * share
        return found

    return spread(0, 1), spread(-1, -2)


def _arrow(arrow: _Arrow, out: float, into: float, places: Mapping[str, float], top: Mapping[str, int]) -> str:
    first, *lanes, last = arrow.path
    start = top[first] + (_BOX if first != _START else 23)
    points = [(out, start), *((places[lane], top[lane] + _BOX // 2) for lane in lanes), (into, top[last])]
    if arrow.is_upward:
        points.reverse()
    end_x, end_y = points[-1]
    up = 9 if arrow.is_upward else -9
    points[-1] = (end_x, end_y + up)
    path = f"M{points[0][0]:.1f} {points[0][1]}"
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (y + next_y) / 2
        path += f" C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y}"
    drawn = f'<path class="arrow" d="{path}"/><path class="tip" d="M{end_x:.1f} {end_y} l-4.5 {up} h9 z"/>'
    if arrow.words:
        (x, y), (next_x, next_y) = points[:2]
        x, y = (x + next_x) / 2 + 8, (y + next_y) // 2 + 8
        drawn += f'<text class="words" x="{x:.1f}" y="{y}">{escape(arrow.words)}</text>'
    return drawn


def _box(state: str, x: float, y: int) -> str:
    if state == _START:
        return f'<circle class="start" cx="{x:.1f}" cy="{y + 16}" r="7"/>'
    width = _width(state)
    kind = "box final" if state in FINAL else "box any" if state == "not_final" else "box"
    return (
        f'<rect class="{kind}" x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" rx="9"/>'
        f'<text class="name" x="{x:.1f}" y="{y + _BOX / 2 + 4.5}">{escape(_shown(state))}</text>'
    )


def _shown(state: str) -> str:
    return "every state that is not final" if state == "not_final" else state
