"""`itinerary audit`: what came of an audit, in words, and how far it is while it goes on (see `itinerary.audit`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

from itinerary.audit import Audited, Progress
from itinerary.audit.findings import shown_instant

__all__ = ["ProgressLine", "words"]

_TERMINAL_INTERVAL: Final = 0.5
_LOG_INTERVAL: Final = 10.0
"""Seconds between two words about progress: on a terminal, where they replace each other, and elsewhere."""


def words(found: Audited) -> str:
    """What came of an audit: a line for the whole, and one for each thing that is wrong."""
    decided = f"{found.expected} expected, {found.matched} decided exactly once"
    others = f"{found.lost} lost, {found.doubled} doubled, {found.unexpected} unexpected, {found.unknown} unknown"
    looked_at = f"{found.occurrences} occurrences looked at, {found.wrong} other faults"
    lines = [f"{found.start} to {found.end}: {decided}, {others}; {looked_at}"]
    lines += [f"  {finding}" for finding in found.findings]
    left_out = found.lost + found.doubled + found.unexpected + found.wrong - len(found.findings)
    if left_out:
        lines.append(f"  … and {left_out} more")
    lines += [f"  cannot be enumerated: {gap}" for gap in found.gaps]
    return "\n".join(lines)


class ProgressLine:
    """Says on standard error how far an audit is, if it takes long."""

    def __init__(self, out: TextIO, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._out, self._elapsed = out, elapsed
        self._is_terminal = out.isatty()
        self._interval = _TERMINAL_INTERVAL if self._is_terminal else _LOG_INTERVAL
        self._next = elapsed() + self._interval
        self._shown = 0

    def hear(self, progress: Progress) -> None:
        """An audit has come this far."""
        if self._elapsed() < self._next:
            return
        self._next = self._elapsed() + self._interval
        part = (progress.upto - progress.start) / max(progress.end - progress.start, 1)
        line = f"{part:4.0%}  up to {shown_instant(progress.upto)}, {progress.occurrences} occurrences"
        self._write(line)

    def close(self) -> None:
        """It is over: a terminal is left as it was."""
        if self._is_terminal and self._shown:
            self._write("")
            self._out.write("\r")
            self._out.flush()

    def _write(self, line: str) -> None:
        if self._is_terminal:
            self._out.write(f"\r{line:<{self._shown}}")
            self._shown = len(line)
        else:
            self._out.write(f"{line}\n")
        self._out.flush()
