"""What is wrong with a job file: one line for each mistake, in the order of lines.

    jobs.toml:12: jobs.backup.overlap: 'que' is unknown; did you mean 'queue'? allowed: skip, allow, queue, replace

The rules that find mistakes know nothing of files. They say `retry.max_retries: -1 is out of range 0-1000`, of the
table that they were given. `Problems.blame` takes such a sentence apart: what stands before the colon is followed into
the table as far as it leads, and that is the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from itinerary.errors import JobFileError
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["Problem", "Problems", "dotted", "unknown_key"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MISSING: Final = re.compile(r"[a-z_]+", re.ASCII)
_SHOWN_MAX: Final = 64
_TOLD_MAX: Final = 1_000
"""How many mistakes are told at once."""


class Problem(NamedTuple):
    """One mistake."""

    file: str
    line: int | None
    key: str
    """Where it is, with dots; empty if it is about the file as a whole."""
    message: str
    column: int | None = None
    """Of text that is no TOML."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.key, _one_line(self.message)) if part)


class Problems:
    """The mistakes of one file, as they are found."""

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self._file, self._lines = file, lines
        self.found: list[Problem] = []

    def add(self, path: Path, message: str) -> None:
        """Something is wrong there."""
        self.found.append(Problem(self._file, self.line(path), dotted(path), message))

    def blame(self, path: Path, table: object, message: str, prefix: str = "") -> None:
        """Something is wrong somewhere below, and the message begins with the keys that lead to it, after `prefix`."""
        below, rest = _followed(table, message.removeprefix(prefix))
        self.add((*path, *below), rest)

    def line(self, path: Path) -> int | None:
        """The line of a key; of one that is missing, the line of the table that it is missing from."""
        for length in range(len(path), 0, -1):
            if (line := self._lines.get(path[:length])) is not None:
                return line
        return None

    def raise_if_any(self) -> None:
        """Raise a JobFileError with all of them, in the order of lines."""
        if self.found:
            raise JobFileError(*self.in_order())

    def in_order(self) -> list[Problem]:
        """All of them, or as many as anybody reads, in the order of lines."""
        ordered = sorted(self.found, key=lambda problem: problem.line or 0)
        if len(ordered) <= _TOLD_MAX:
            return ordered
        more = f"and {len(ordered) - _TOLD_MAX} more mistakes; these come first"
        return [*ordered[:_TOLD_MAX], Problem(self._file, None, "", more)]


def dotted(path: Path) -> str:
    """A path as people read it: `jobs.backup.tasks[1].shell`, `jobs."my job"`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part[:_SHOWN_MAX], ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def unknown_key(key: str, allowed: Collection[str]) -> str:
    """What to say of a key that nobody knows."""
    hint = did_you_mean(key, allowed, otherwise=f"allowed: {', '.join(allowed)}")
    return f"unknown key; {hint}"


def _followed(table: Any, message: str) -> tuple[Path, str]:
    """How far the beginning of a message leads into a table, and what it says then."""
    keys, colon, rest = message.partition(": ")
    path: list[str | int] = []
    while colon and keys:
        if isinstance(table, Mapping):
            # A key may have dots of its own, so the longest that fits is meant.
            fits = [key for key in table if keys == key or keys.startswith(f"{key}.")]
            if not fits:
                # The key may be missing, and is the one that should be there.
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
