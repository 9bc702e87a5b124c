"""Limits for a task's own statements (D6): an authorizer, which SQLite calls for every part of a statement.

SQLite calls the authorizer when it prepares a statement, so it costs nothing later. An authorizer is always set, and
allows all our own statements, because setting one makes SQLite prepare all statements again. Prepared statements are
cached by their text. So a task's text is marked (`marked`), and never matches one of ours that was allowed before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from itinerary.stores.sqlite.statements import PREFIX

__all__ = ["Authorizer", "marked"]

_READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NEVER: Final = {
    sqlite3.SQLITE_TRANSACTION: "begins or ends a transaction, which is not the task's to do",
    sqlite3.SQLITE_SAVEPOINT: "sets or leaves a savepoint, which is not the task's to do",
    sqlite3.SQLITE_ATTACH: "attaches another database, which one transaction cannot write to safely",
    sqlite3.SQLITE_DETACH: "detaches a database",
    sqlite3.SQLITE_PRAGMA: "is a PRAGMA, which would change the store's own connection",
}
_HARMLESS_PRAGMA: Final = "data_version"
"""Full-text search uses this pragma when it reads."""


def marked(statement: str) -> str:
    """Return the task's statement in a form that none of ours has."""
    return f"/* task */ {statement}"


class Authorizer:
    """The authorizer of one connection."""

    def __init__(self, connection: sqlite3.Connection, *, reads_only: bool) -> None:
        self._reads_only = reads_only
        self._is_task = False
        self.refusal: str | None = None
        """The reason why the last statement of a task was refused."""
        connection.set_authorizer(self._judge)

    @contextmanager
    def on_task(self) -> Iterator[None]:
        """Treat statements as a task's inside this context."""
        self._is_task = True
        self.refusal = None
        try:
            yield
        finally:
            self._is_task = False

    def _judge(self, action: int, first: str | None, second: str | None, _base: str | None, _by: str | None) -> int:
        if not self._is_task or action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and first == _HARMLESS_PRAGMA:
            return sqlite3.SQLITE_OK
        self.refusal = self._reason(action, first, second)
        return sqlite3.SQLITE_OK if self.refusal is None else sqlite3.SQLITE_DENY

    def _reason(self, action: int, first: str | None, second: str | None) -> str | None:
        if action in _NEVER:
            return _NEVER[action]
        if self._reads_only:
            return "writes; use execute for that"
        for name in (first, second):
            if name is not None and name.lower().startswith(PREFIX):
                return f"writes to {name}: names that begin with {PREFIX} are the store's own"
        return None
