"""What an outage should leave behind, worked out by hand from the words of R1: no arrays, no code of ours.

`whole_seconds` are the instants that nobody was there for, in order, all of them older than the grace period. What
comes back is one `Told` for each row that there should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LONG", "Told", "expected_rows"]

LONG = 1_000
"""A stretch of more than this many missed instants is one row."""


class Told(NamedTuple):
    """A row: at which second, whether it runs, and the window that it stands for: from, to, and how many."""

    at: int
    runs: bool
    window: tuple[int, int, int] | None = None


def expected_rows(
    strategy: str, whole_seconds: Sequence[int], now: int, most: int | None = None, age: int | None = None
) -> list[Told]:
    """The rows of an outage that ended at the second `now`."""
    seconds = list(whole_seconds)
    if not seconds:
        return []
    if strategy == "compressed":
        window = (seconds[0], seconds[-1] + 1, len(seconds)) if len(seconds) > 1 else None
        return [Told(seconds[-1], True, window)]
    running: list[int] = []
    if strategy == "execute_all":
        running = seconds
    elif strategy == "execute_last":
        running = [seconds[-1]]
    elif strategy == "bounded_window":
        running = [second for second in seconds if age is None or second >= now - age]
        while most is not None and len(running) > most:
            del running[0]
    else:
        assert strategy == "mark_as_missed"
    missed = [second for second in seconds if second not in set(running)]
    rows = [Told(second, True) for second in running]
    if len(missed) > LONG:
        rows.append(Told(missed[0], False, (missed[0], missed[-1] + 1, len(missed))))
    else:
        rows += [Told(second, False) for second in missed]
    return sorted(rows)
