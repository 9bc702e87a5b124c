"""The output of commands: for people and for programs, with control characters of tasks made harmless.

    screen()            standard output as it is: a terminal's width and colours, or a pipe, which has neither
    print_json          one JSON document, on one line
    one_line, lines     text from outside: control characters are shown and never sent (Q7)
    told_for, told_at   durations and moments in words

A terminal has its own width. A pipe has none: each row is one line, so that `grep` and `cut` find it whole, unless
COLUMNS is set. Colour only repeats what a word says. A terminal without colour, a pipe, and NO_COLOR lose nothing.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import datetime, timedelta, timezone
from io import TextIOWrapper
from typing import Any, Final

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from itinerary.model.states import OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND

__all__ = [
    "NARROWEST_COLUMN",
    "UNLIMITED",
    "counted",
    "draws",
    "lines",
    "one_line",
    "print_json",
    "print_lines",
    "say",
    "screen",
    "shown_state",
    "survive_any_encoding",
    "told_at",
    "told_for",
    "width_of",
    "wrapped",
]

UNLIMITED: Final = 1_000_000
"""The width of an output without limit."""
NARROWEST_COLUMN: Final = 8
_NARROWEST: Final = 20
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAK: Final = re.compile(r"\r\n|\r|\n")
_GOOD: Final = frozenset({OccurrenceState.COMPLETED, TaskState.SUCCESS})
_BAD: Final = frozenset(
    {
        OccurrenceState.FAILED,
        OccurrenceState.FAILED_STALE,
        OccurrenceState.ORPHANED,
        TaskState.FAILED,
        TaskState.TIMEOUT,
        "quarantined",
        "dead",
        "died",
        "wrong",
    }
)
_DIM: Final = frozenset({OccurrenceState.SKIPPED, OccurrenceState.MISSED, "stopped", "finished", "removed", "left"})
_ODD: Final = frozenset({OccurrenceState.COMPLETED_WITH_ERRORS, "paused", "silent", "doubtful"})


def screen(*, errors: bool = False) -> Console:
    """Return standard output, or standard error, as it is at this moment."""
    return Console(stderr=errors, highlight=False, markup=False, emoji=False)


def width_of(console: Console) -> int:
    """Return the widest line that fits."""
    is_told = os.environ.get("COLUMNS", "").isdigit()
    return max(console.width, _NARROWEST) if console.is_terminal or is_told else UNLIMITED


def draws(console: Console) -> bool:
    """True if the output can show more than ASCII."""
    return console.encoding.lower().startswith("utf")


def survive_any_encoding() -> None:
    """Escape characters that a terminal cannot show, such as a Japanese reason on an ASCII terminal.

    No command fails in the middle of its output.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_json(told: Any) -> None:
    """Print one JSON document, on one line of standard output."""
    click.echo(msgspec.json.encode(told).decode())


def say(text: Text | str, console: Console | None = None, *, indent: int = 0, hanging: int | None = None) -> None:
    """Print a paragraph, wrapped at spaces. Its later lines are indented by `hanging` if that is given."""
    console = screen() if console is None else console
    for line in wrapped(text, width_of(console), indent=indent, hanging=hanging):
        console.print(line, soft_wrap=True)


def print_lines(words: str) -> None:
    """Print several lines, each wrapped at spaces, with its rest indented below it."""
    console = screen()
    for line in lines(words):
        indent = len(line) - len(line.lstrip())
        say(Text(line.strip()), console, indent=indent, hanging=indent + 2)


def wrapped(text: Text | str, width: int, *, indent: int = 0, hanging: int | None = None) -> list[Text]:
    """Return a paragraph in lines of at most this width. Words are kept whole unless one is wider than a line."""
    text = Text(one_line(text)) if isinstance(text, str) else text
    hanging = indent if hanging is None else hanging
    room = max(width - max(indent, hanging), NARROWEST_COLUMN)
    if cell_len(text.plain) <= room:
        return [_indented(text, indent)]
    parts = text.wrap(_RULER, room, overflow="fold")
    for part in parts:
        part.rstrip()
    return [_indented(part, hanging if place else indent) for place, part in enumerate(parts)]


_RULER: Final = Console(width=_NARROWEST, file=sys.stderr)
"""A console for measuring texts. Nothing is printed on it."""


def _indented(text: Text, indent: int) -> Text:
    return Text.assemble(" " * indent, text) if indent else text


# -- text from outside -----------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """Return text from outside as one line. Characters that a terminal would obey are escaped, as in Python."""
    return _UNSAFE.sub(_written_out, _BREAK.sub(" ⏎ ", text.strip()).expandtabs(4))


def lines(text: str) -> list[str]:
    """Return text from outside in its own lines, as safe as `one_line`."""
    return [_UNSAFE.sub(_written_out, line.expandtabs(8)) for line in _BREAK.split(text.rstrip())]


def _written_out(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


# -- words -----------------------------------------------------------------------------------------------------------


def shown_state(state: str) -> Text:
    """Return a state in its colour."""
    if state in _BAD:
        return Text(state, "bold red")
    if state in _GOOD:
        return Text(state, "green")
    if state in _ODD:
        return Text(state, "yellow")
    if state in _DIM:
        return Text(state, "cyan")
    return Text(state, "magenta" if state == OccurrenceState.CANCELLED else "")


def counted(count: int, what: str) -> str:
    """Return a number with its noun: `1 job`, `12,345 jobs`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def told_for(microseconds: int) -> str:
    """Return a duration in its two largest relevant units: `12 ms`, `4.2 s`, `3 min 20 s`, `2 h 10 min`, `3 d 4 h`."""
    if microseconds < 0:
        return f"-{told_for(-microseconds)}"
    if microseconds < SECOND:
        return f"{microseconds // 1_000} ms"
    if microseconds < 10 * SECOND:
        return f"{microseconds / SECOND:.1f} s"
    seconds = microseconds // SECOND
    for unit, length, below, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            whole, rest = divmod(seconds, length)
            return f"{whole} {unit} {rest // part} {below}" if rest // part else f"{whole} {unit}"
    return f"{seconds} s"


def told_at(instant: int, offset: int = 0) -> str:
    """Return a moment on a wall clock that is `offset` seconds ahead of UTC: `2026-03-01 09:00:00`."""
    zone = timezone(timedelta(seconds=offset))
    moment = datetime.fromtimestamp(instant // SECOND, zone)
    return f"{moment:%Y-%m-%d %H:%M:%S}"
