"""Starting the program with a desk, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.integration.stores.nursery import environment

__all__ = ["program"]

_PROGRAM: Final = Path(__file__).parent / "program.py"


@contextmanager
def program(url: str, path: Path, *settings: str, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """One of them, until the block is over; `settings` are a name, a lease and a heartbeat."""
    with Path("/dev/null" if log is None else log).open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, str(_PROGRAM), url, str(path), *settings],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", None if log is None else log.read_text("utf-8")
        yield process
    finally:
        process.kill()
        process.communicate()
