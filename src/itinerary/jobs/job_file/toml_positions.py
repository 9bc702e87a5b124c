"""In which line of a TOML file each key stands.

`tomllib` reads values and forgets where they were. This walks through the same text once more and notes only that:

    jobs.backup.tasks[1].shell    ("jobs", "backup", "tasks", 1, "shell") -> 14

It is given text that `tomllib` has accepted, and so does not check it again: it has to know where strings, comments and
values end, and nothing about what they mean. A key that is written in several places, as `jobs` is in each header below
it, has the line of the first; an element of a list has the line that it begins in.

What can go wrong is nesting without end, which is refused: values nest at most `NESTING_MAX` deep, and keys lead at
most twice as far down.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final, TypeAlias

from itinerary.errors import ConfigError

__all__ = ["NESTING_MAX", "PATH_MAX", "Path", "find_long_key", "positions"]

Path: TypeAlias = tuple[str | int, ...]
"""Keys and places in lists, from the top of the file."""

NESTING_MAX: Final = 64
PATH_MAX: Final = 2 * NESTING_MAX
"""Keys with dots, or in headers, lead further down."""

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
    """The line of each key and each element, counted from 1. The text is TOML, without carriage returns."""
    return _Scanner(text).scanned()


def find_long_key(text: str) -> int | None:
    """The line of a key that leads too far down, if there is one: `tomllib` would take minutes to read it."""
    if text.count(".") < PATH_MAX:  # as in most files: counting is much faster than the search
        return None
    found = _LONG_KEY.search(text)
    return None if found is None else text.count("\n", 0, found.end()) + 1


class _Scanner:
    """One walk through a text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._counted_to, self._line = 0, 1
        self._found: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}
        """How many elements each list has that is written with `[[…]]`."""

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
        """The element that is being written, if this is a list of tables."""
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
        """A key, with dots or without; the next character is the one behind it."""
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
        (key,) = tomllib.loads(f"{written} = 0")  # it knows all escapes
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
        """Go on to the next part of a list or table; False, and behind it, if this was the last."""
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
