"""Protection against forks: a child must not open files that were open at the fork.

SQLite tracks its locks in memory, and a forked child inherits that state without the locks. The child would believe
that it is protected, and the parent could delete the log that the child writes to. SQLite does not report that, so we
do. A child with a fresh start (`spawn`, `forkserver`, a command) inherits nothing and may open the file.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final, TypeAlias

from itinerary.errors import StoreError

__all__ = ["HOW_TO", "FileId", "check_not_inherited", "closed", "opened"]

FileId: TypeAlias = tuple[int, int]
"""Device and inode: many paths may lead to the same file, and SQLite tracks its locks by these."""

HOW_TO: Final = "SQLite's locks do not survive that; open stores after forking, or start processes with 'spawn'"

_open: Final[Counter[FileId]] = Counter()
_inherited: Final[set[FileId]] = set()


def check_not_inherited(path: Path) -> None:
    """Check that the parent process did not have the file open at the fork.

    Raises:
        StoreError: It did.
    """
    if _inherited and path.exists() and _identity(path) in _inherited:
        raise StoreError(f"{path}: was open when this process was forked: {HOW_TO}")


def opened(path: Path) -> FileId:
    """Record that the file is open, and return its identity."""
    identity = _identity(path)
    _open[identity] += 1
    return identity


def closed(identity: FileId) -> None:
    """Record that one user of the file has closed it."""
    _open[identity] -= 1


def _identity(path: Path) -> FileId:
    status = path.stat()
    return status.st_dev, status.st_ino


def _forked() -> None:
    _inherited.update(+_open)
    _open.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)
