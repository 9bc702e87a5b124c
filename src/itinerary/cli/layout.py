"""Tables and lists that are readable at any width.

    job       state    next run               job       state    next run
    backup    active   in 2 h 10 min          backup    active   in 2 h 10 min
    ─ a wide terminal has all columns         ─ a narrow one shows the rest below each row, wrapped at spaces

A column has a rank. Rank 0 always stays. If there is not enough room, the column with the highest rank moves first. Its
cells go below their rows, with the column's title. An extra column is left out instead, and a line at the end says so.
Nothing is ever cut off, at any width. A pipe has unlimited width. A column that is empty in every row is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from itinerary.cli.output import NARROWEST_COLUMN, one_line, screen, width_of, wrapped

__all__ = ["Cell", "TableColumn", "laid_out", "listed", "print_facts", "print_table"]

Cell: TypeAlias = str | Text | int | None

_BETWEEN: Final = 2
_BELOW: Final = 4
"""The indentation of cells that moved below their row."""


class TableColumn(NamedTuple):
    """A column: its title, its rank, and whether its words may wrap."""

    title: str
    rank: int = 0
    is_number: bool = False
    wraps_at: int | None = None
    """The smallest width, at which its cells take several lines."""
    is_extra: bool = False
    """True to leave the column out if there is no room for it."""


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], console: Console | None = None) -> None:
    """Print a table at the available width."""
    console = screen() if console is None else console
    for line in laid_out(columns, rows, width_of(console)):
        console.print(line, soft_wrap=True)


def print_facts(facts: Sequence[tuple[str, Cell]], console: Console | None = None, *, indent: int = 0) -> None:
    """Print facts, each after its label. A fact that is None is left out."""
    console = screen() if console is None else console
    for line in listed(facts, width_of(console), indent=indent):
        console.print(line, soft_wrap=True)


def listed(facts: Sequence[tuple[str, Cell]], width: int, *, indent: int = 0) -> list[Text]:
    """Return a list of facts in lines."""
    told = [(label, _text(value)) for label, value in facts if value is not None]
    hanging = indent + _BETWEEN + max((cell_len(label) for label, _ in told), default=0)
    found: list[Text] = []
    for label, value in told:
        head, *rest = wrapped(value, width - hanging)
        found.append(Text.assemble(" " * indent, (f"{label:<{hanging - indent}}", "dim"), head))
        found += [Text.assemble(" " * hanging, line) for line in rest]
    return found


def laid_out(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], width: int) -> list[Text]:
    """Return a table in lines of at most this width."""
    cells = [[_text(cell) for cell in row] for row in rows]
    said = [place for place in range(len(columns)) if any(row[place].plain for row in cells)]
    natural = {place: max(_wide(columns, place), *(cell_len(row[place].plain) for row in cells)) for place in said}
    kept = list(said)
    while (widths := _fitted(columns, natural, kept, width)) is None:
        kept.remove(max(kept, key=lambda place: (columns[place].rank, place)))
    gone = [place for place in said if place not in kept]
    below = [place for place in gone if not columns[place].is_extra]
    header = [Text(columns[place].title, "bold") for place in kept]
    found = _row(columns, kept, widths, header) if said else []
    for row in cells:
        found += _row(columns, kept, widths, [row[place] for place in kept])
        if rest := [place for place in below if row[place].plain]:
            parts = [Text.assemble((f"{columns[place].title} ", "dim"), row[place]) for place in rest]
            found += wrapped(Text("; ").join(parts), width, indent=_BELOW)
    if left_out := ", ".join(columns[place].title for place in gone if columns[place].is_extra):
        found += wrapped(Text(f"a wider terminal, or --json, has more: {left_out}", "dim"), width)
    return found


def _text(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text("" if cell is None else one_line(cell) if isinstance(cell, str) else f"{cell:,}")


def _wide(columns: Sequence[TableColumn], place: int) -> int:
    return cell_len(columns[place].title)


def _fitted(
    columns: Sequence[TableColumn], natural: dict[int, int], kept: Sequence[int], width: int
) -> dict[int, int] | None:
    """Return the width of each of these columns. None if they do not fit and one of them could move."""
    widths = {place: natural[place] for place in kept}
    over = sum(widths.values()) + _BETWEEN * (len(kept) - 1) - width
    for place in sorted(kept, key=lambda place: -columns[place].rank):
        floor = columns[place].wraps_at
        if over > 0 and floor is not None:
            given = min(over, max(widths[place] - max(floor, _wide(columns, place), NARROWEST_COLUMN), 0))
            widths[place] -= given
            over -= given
    if over <= 0:
        return widths
    if any(columns[place].rank for place in kept):
        return None
    while over > 0 and max(widths.values()) > NARROWEST_COLUMN:  # break words before losing text
        widest = max(kept, key=lambda place: widths[place])
        given = min(over, max(widths[widest] // 4, 1))
        widths[widest] -= given
        over -= given
    return widths


def _row(
    columns: Sequence[TableColumn], kept: Sequence[int], widths: dict[int, int], cells: Sequence[Text]
) -> list[Text]:
    parts = [wrapped(cell, widths[place]) for place, cell in zip(kept, cells, strict=True)]
    found = []
    for number in range(max(map(len, parts), default=0)):
        line = Text()
        for place, part in zip(kept, parts, strict=True):
            cell = part[number] if number < len(part) else Text()
            padding = " " * max(widths[place] - cell_len(cell.plain), 0)
            between = " " * _BETWEEN if line.plain or place != kept[0] else ""
            line = Text.assemble(line, between, *((padding, cell) if columns[place].is_number else (cell, padding)))
        line.rstrip()
        found.append(line)
    return found
