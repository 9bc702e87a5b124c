"""A parsed job file: its table, and the line of each key.

The path may lead to anything: a directory, an endless device, another file format, a thousand brackets. Each case is
one error that names the file, and nothing is read beyond `FILE_MAX`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from itinerary.errors import ConfigError, JobFileError
from itinerary.jobs.job_file.problems import FileProblem, FileProblems
from itinerary.jobs.job_file.toml_positions import NESTING_MAX, PATH_MAX, Path, find_long_key, positions

__all__ = ["FILE_MAX", "Document", "document_of", "read_content", "read_document", "read_text"]

FILE_MAX: Final = 10 * 1024 * 1024
"""The maximum size of a file, in bytes."""

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class Document(msgspec.Struct, frozen=True):
    """The content of a job file, and the lines of its keys."""

    name: str
    """The name in errors: the path as the user gave it."""
    table: Mapping[str, Any]
    lines: Mapping[Path, int]

    def problems(self) -> FileProblems:
        """Return an empty list of mistakes for this file."""
        return FileProblems(self.name, self.lines)


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a job file. Raises JobFileError if it cannot be read, or is not TOML."""
    return document_of(os.fspath(path), read_text(path))


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file that a user has written. Raises JobFileError."""
    name, content = os.fspath(path), read_content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(name, f"byte {content[error.start]:#04x} is not UTF-8; save the file as UTF-8", line) from error


def read_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file that a user has written. Raises JobFileError."""
    name = os.fspath(path)
    place = FilePath(path)
    try:
        if place.is_dir():
            raise _refused(name, "this is a directory; name a file in it")
        if not place.exists():
            raise _refused(name, "there is no such file")
        if not place.is_file():
            raise _refused(name, "this is not a file")
        with place.open("rb") as file:
            content = file.read(FILE_MAX + 1)
    except OSError as error:
        raise _refused(name, f"it cannot be read: {error.strerror or error}") from error
    if len(content) > FILE_MAX:
        raise _refused(name, f"it has more than {FILE_MAX} bytes, which are allowed; make it several files")
    return content


def document_of(name: str, text: str) -> Document:
    """Parse a text. Raises JobFileError if it is not TOML."""
    text = text.replace("\r\n", "\n")
    if (line := find_long_key(text)) is not None:
        raise _refused(name, f"keys lead more than {PATH_MAX} deep; flatten them", line)
    try:
        table = tomllib.loads(text)
        lines = positions(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(name, text, str(error)) from error
    except RecursionError:
        raise _refused(name, f"values are nested more than {NESTING_MAX} deep; flatten them") from None
    except ConfigError as error:
        raise _refused(name, str(error)) from error
    return Document(name, table, lines)


def _not_toml(name: str, text: str, message: str) -> JobFileError:
    found = _PLACE.search(message)
    if found is None:
        return _refused(name, f"this is not TOML: {message}")
    told = f"this is not TOML: {message[: found.start()]}"
    if found[1] is None:
        return _refused(name, f"{told}, at the end of the file", text.count("\n") + 1)
    return _refused(name, told, int(found[1]), int(found[2]))


def _refused(name: str, message: str, line: int | None = None, column: int | None = None) -> JobFileError:
    return JobFileError(FileProblem(name, line, "", message, column))
