"""The line of each key in a TOML file.

`tomllib` returns values without their positions. This module scans the same text again and notes only the lines:

    jobs.backup.tasks[1].shell    ("jobs", "backup", "tasks", 1, "shell") -> 14

The text was accepted by `tomllib`, so it is not checked again. The scanner must know where strings, comments and values
end, but not what they mean. A key that is written in several places, as `jobs` is in each header below it, has the line
of the first. An element of a list has the line in which it begins.

Endless nesting is refused: values nest at most `NESTING_MAX` deep, and keys lead at most twice as deep.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final, TypeAlias

from itinerary.errors import ConfigError

__all__ = ["NESTING_MAX", "PATH_MAX", "Path", "find_long_key", "positions"]

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list positions, from the top of the file."""

NESTING_MAX: Final = 64
PATH_MAX: Final = 2 * NESTING_MAX
"""The limit for keys with dots or in headers, which nest deeper."""

_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY: Final = re.compile(
    rf"(?:^[ \t]*+\[{{0,2}}|[{{,])[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{PATH_MAX}}}", re.MULTILINE
)
_BLANK: Final = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_SPACE: Final = re.compile(r"[ \t]*+")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]++")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\]++|\\.)*+"'
    r"|'[^']*+'",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"[^,\]}\n#]++")


def positions(text: str) -> dict[Path, int]:
    """Return the line of each key and element, counted from 1. The text is TOML, without carriage returns."""
    return _Scanner(text).scanned()


def find_long_key(text: str) -> int | None:
    """Return the line of a key that nests too deep, if any: `tomllib` would need minutes to read it."""
    if text.count(".") < PATH_MAX:  # true for most files, and counting is much faster than the search
        return None
    found = _LONG_KEY.search(text)
    return None if found is None else text.count("\n", 0, found.end()) + 1


class _Scanner:
    """A single scan of a text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._counted_to, self._line = 0, 1
        self._found: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}
        """The number of elements of each list that is written with `[[…]]`."""

    def scanned(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text[self._at] == "[":
                table = self._header(1)
            else:
                self._pair(table, 1)
        return self._found

    def _header(self, brackets: int) -> Path:
        line = self._line_here()
        self._at += brackets
        *above, last = self._key()
        self._skip(_SPACE)
        self._at += brackets
        path: Path = ()
        for part in above:
            path = self._newest(self._noted((*path, part), line))
        path = self._noted((*path, last), line)
        if brackets == 1:
            return self._newest(path)
        self._lengths[path] = self._lengths.get(path, 0) + 1
        return self._noted(self._newest(path), line)

    def _newest(self, path: Path) -> Path:
        """Return the path of the current element, if this is a list of tables."""
        length = self._lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _pair(self, table: Path, depth: int) -> None:
        line, path = self._line_here(), table
        for part in self._key():
            path = self._noted((*path, part), line)
        self._skip(_SPACE)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path, depth)

    def _key(self) -> list[str]:
        """Return the parts of a key, and move to the character after it."""
        parts = []
        while True:
            self._skip(_SPACE)
            if (bare := _BARE_KEY.match(self._text, self._at)) is not None:
                parts.append(bare[0])
                self._at = bare.end()
            else:
                parts.append(self._quoted_key())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _quoted_key(self) -> str:
        start = self._at
        self._skip(_STRING)
        written = self._text[start : self._at]
        (key,) = tomllib.loads(f"{written} = 0")  # tomllib knows all escapes
        return key

    def _value(self, path: Path, depth: int) -> None:
        if depth > NESTING_MAX:
            raise ConfigError(f"values are nested more than {NESTING_MAX} deep; flatten them")
        match self._text[self._at]:
            case "[":
                self._list(path, depth)
            case "{":
                self._inline_table(path, depth)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_PLAIN)

    def _list(self, path: Path, depth: int) -> None:
        self._at += 1
        place = 0
        while self._next_unless("]"):
            self._value(self._noted((*path, place), self._line_here()), depth + 1)
            place += 1

    def _inline_table(self, path: Path, depth: int) -> None:
        self._at += 1
        while self._next_unless("}"):
            self._pair(path, depth + 1)

    def _next_unless(self, end: str) -> bool:
        """Move to the next part of a list or table; after the last part, move past `end` and return False."""
        self._skip(_BLANK)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._text[self._at] == end:
            self._at += 1
            return False
        return True

    def _noted(self, path: Path, line: int) -> Path:
        if len(path) > PATH_MAX:
            raise ConfigError(f"keys lead more than {PATH_MAX} deep; flatten them")
        self._found.setdefault(path, line)
        return path

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found is not None, "the text is TOML"
        self._at = found.end()
        return self._at
