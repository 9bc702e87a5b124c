"""Numbered migrations: SQL files beside their engine, run in order and only forward (D7).

    0001_first_tables.sql      number 1, "first tables"

A released file never changes again, because stores that have run it cannot undo it. A correction gets the next number.
A test compares the result of all migrations with the declared tables.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import msgspec

__all__ = ["Migration", "migrations_of"]

_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(msgspec.Struct, frozen=True):
    """A step from the previous schema to the schema with this number."""

    number: int
    title: str
    statements: str

    def __str__(self) -> str:
        return f"{self.number:04} {self.title}"


def migrations_of(package: str) -> list[Migration]:
    """Return the migrations in this package, in the order in which they run."""
    found = []
    for file in files(package).iterdir():
        if named := _FILE.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(named[1]), named[2].replace("_", " "), text))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    assert numbers == list(range(1, len(found) + 1)), f"{package} should be numbered from 0001 on, and has {numbers}"
    return found
