"""The progress of a long command: a bar on a terminal, occasional lines in a log, and nothing if it is quick.

Progress goes to standard error, so that standard output can be piped while it grows. The terminal is left unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from itinerary.cli.output import one_line, screen

__all__ = ["ProgressCallback", "progress"]

LOG_INTERVAL: Final = 10.0
"""The seconds between two lines if there is no terminal."""


class ProgressCallback(Protocol):
    """A callback that receives the progress."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """Report the progress: `done` of `total`, if that is known, with a note."""


@contextmanager
def progress(
    what: str, console: Console | None = None, elapsed: Callable[[], float] = time.monotonic
) -> Iterator[ProgressCallback]:
    """Show the progress of `what` until the context ends."""
    console = screen(errors=True) if console is None else console
    if not console.is_terminal:
        yield _Lines(what, console, elapsed)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task(one_line(what), total=None, note="")

        def handle(done: int, total: int | None, note: str = "") -> None:
            bar.update(line, completed=done, total=total, note=one_line(note))

        yield handle


class _Lines:
    """Progress as occasional lines."""

    def __init__(self, what: str, console: Console, elapsed: Callable[[], float]) -> None:
        self._what, self._console, self._elapsed = what, console, elapsed
        self._next = elapsed() + LOG_INTERVAL

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        if self._elapsed() < self._next:
            return
        self._next = self._elapsed() + LOG_INTERVAL
        far = f"{done:,}" if not total else f"{done / total:.0%}"
        self._console.print(one_line(f"{self._what}: {far}{note and f', {note}'}"), soft_wrap=True)
