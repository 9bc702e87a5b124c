"""Numbered migrations: files of SQL beside the engine that they are for, read in order, and only ever forward (D7).

    0001_first_tables.sql      number 1, "first tables"

A file that has been released is never changed again: what it did cannot be undone in stores that have run it, so a
correction is the next number. A test holds what all of them make together against the declared tables.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import msgspec

__all__ = ["Migration", "migrations_of"]

_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step from the schema before to the schema with this number."""

    number: int
    title: str
    statements: str

    def __str__(self) -> str:
        return f"{self.number:04} {self.title}"


def migrations_of(package: str) -> list[Migration]:
    """The migrations that lie in this package, in the order in which they are run."""
    found = []
    for file in files(package).iterdir():
        if named := _FILE.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(named[1]), named[2].replace("_", " "), text))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    assert numbers == list(range(1, len(found) + 1)), f"{package} should be numbered from 0001 on, and has {numbers}"
    return found
