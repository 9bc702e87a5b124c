"""Other users of the machine, for tests of what they may do. Only root can become another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

__all__ = ["AS_NOBODY", "NOBODY", "needs_root", "needs_setpriv", "public_directory"]

NOBODY: Final = 65_534
AS_NOBODY: Final = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--bounding-set=-all,+dac_read_search", "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Runs a program as another user, who may read the files of this interpreter wherever they are, and nothing more."""


def _can_become_nobody() -> bool:
    try:
        return subprocess.run([*AS_NOBODY, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603 - our own
    except OSError:
        return False


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or not _can_become_nobody(), reason="needs root, and setpriv(1) with ambient capabilities"
)


@contextmanager
def public_directory(owner: int, mode: int = 0o755) -> Iterator[Path]:
    """Make a directory that other users can reach: those of pytest are for their owner only."""
    path = Path(tempfile.mkdtemp(prefix="itinerary-test-"))
    try:
        os.chown(path, owner, owner if owner == NOBODY else -1)
        path.chmod(mode)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
