"""The mistakes of a job file: one line for each, in the order of lines.

    jobs.toml:12: jobs.backup.overlap: 'que' is unknown; did you mean 'queue'? allowed: skip, allow, queue, replace

The rules that find mistakes do not know files. Their messages concern the table that they were given, for example
`retry.max_retries: -1 is out of range 0-1000`. `FileProblems.blame` splits such a message: the keys before the colon
lead into the table, and so to the place of the mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from itinerary.errors import JobFileError
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["FileProblem", "FileProblems", "dotted", "unknown_key"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MISSING: Final = re.compile(r"[a-z_]+", re.ASCII)
_SHOWN_MAX: Final = 64
_TOLD_MAX: Final = 1_000
"""The maximum number of mistakes in a report."""


class FileProblem(NamedTuple):
    """A mistake in a job file."""

    file: str
    line: int | None
    key: str
    """The place, with dots; empty if the mistake concerns the whole file."""
    message: str
    column: int | None = None
    """The column, for text that is not TOML."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.key, _one_line(self.message)) if part)


class FileProblems:
    """The mistakes found in one file."""

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self._file, self._lines = file, lines
        self.found: list[FileProblem] = []

    def add(self, path: Path, message: str) -> None:
        """Add a mistake at a path."""
        self.found.append(FileProblem(self._file, self.line(path), dotted(path), message))

    def blame(self, path: Path, table: object, message: str, prefix: str = "") -> None:
        """Add a mistake below a path. The message, after `prefix`, begins with the keys that lead to it."""
        below, rest = _followed(table, message.removeprefix(prefix))
        self.add((*path, *below), rest)

    def line(self, path: Path) -> int | None:
        """Return the line of a key; for a missing key, the line of its table."""
        for length in range(len(path), 0, -1):
            if (line := self._lines.get(path[:length])) is not None:
                return line
        return None

    def raise_if_any(self) -> None:
        """Raise a JobFileError with all mistakes, in the order of lines."""
        if self.found:
            raise JobFileError(*self.in_order())

    def in_order(self) -> list[FileProblem]:
        """Return the mistakes in the order of lines, limited to a readable number."""
        ordered = sorted(self.found, key=lambda problem: problem.line or 0)
        if len(ordered) <= _TOLD_MAX:
            return ordered
        more = f"and {len(ordered) - _TOLD_MAX} more mistakes; these come first"
        return [*ordered[:_TOLD_MAX], FileProblem(self._file, None, "", more)]


def dotted(path: Path) -> str:
    """Return a path as people read it: `jobs.backup.tasks[1].shell`, `jobs."my job"`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part[:_SHOWN_MAX], ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def unknown_key(key: str, allowed: Collection[str]) -> str:
    """Return the message for an unknown key."""
    hint = did_you_mean(key, allowed, otherwise=f"allowed: {', '.join(allowed)}")
    return f"unknown key; {hint}"


def _followed(table: Any, message: str) -> tuple[Path, str]:
    """Follow the keys at the beginning of a message into a table. Return the path and the rest of the message."""
    keys, colon, rest = message.partition(": ")
    path: list[str | int] = []
    while colon and keys:
        if isinstance(table, Mapping):
            # A key may contain dots, so take the longest match.
            fits = [key for key in table if keys == key or keys.startswith(f"{key}.")]
            if not fits:
                # The key may be missing, and may be the one that should be there.
                return ((*path, keys), rest) if _MISSING.fullmatch(keys) else (tuple(path), f"{keys}: {rest}")
            key: Any = max(fits, key=len)
            keys = keys[len(key) + 1 :]
        elif isinstance(table, list) and (place := re.match(r"(\d+)(?:\.|$)", keys)) and int(place[1]) < len(table):
            key, keys = int(place[1]), keys[place.end() :]
        else:
            break
        path.append(key)
        table = table[key]
    if not path:
        return (), message
    return tuple(path), f"{keys}: {rest}" if keys else rest


def _one_line(message: str) -> str:
    return " ".join(message.split("\n"))
