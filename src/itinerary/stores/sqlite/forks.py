"""Files that were open when this process was forked must not be opened in the child.

SQLite keeps account of its locks in memory, and a forked child inherits the account without the locks: it would believe
itself protected where it is not, and the parent could clear away the log that the child writes to. Nothing reports
that, so we do. A child that is started anew (`spawn`, `forkserver`, a command) inherits nothing and may open the file.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final, TypeAlias

from itinerary.errors import StoreError

__all__ = ["HOW_TO", "FileId", "check_not_inherited", "closed", "opened"]

FileId: TypeAlias = tuple[int, int]
"""Device and inode: the same file may be reached by many paths, and SQLite's account is by these."""

HOW_TO: Final = "SQLite's locks do not survive that; open stores after forking, or start processes with 'spawn'"

_open: Final[Counter[FileId]] = Counter()
_inherited: Final[set[FileId]] = set()


def check_not_inherited(path: Path) -> None:
    """Raise if the process that this one was forked from had the file open."""
    if _inherited and path.exists() and _identity(path) in _inherited:
        raise StoreError(f"{path}: was open when this process was forked: {HOW_TO}")


def opened(path: Path) -> FileId:
    """The file is open from now on."""
    identity = _identity(path)
    _open[identity] += 1
    return identity


def closed(identity: FileId) -> None:
    """One of those who had opened it has closed it."""
    _open[identity] -= 1


def _identity(path: Path) -> FileId:
    status = path.stat()
    return status.st_dev, status.st_ino


def _forked() -> None:
    _inherited.update(+_open)
    _open.clear()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_forked)
