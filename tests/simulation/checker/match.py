"""Matching of starts with due instants, earliest deadline first, without the keys of rows.

The audit uses the key of a row, which names the row's instant. This check finds the same answer in another way, so it
detects a row with a wrong key.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

__all__ = ["match"]


def match(due: Sequence[tuple[int, int]], started: Sequence[int]) -> tuple[list[int | None], list[int]]:
    """Match starts with windows `(from, until)`, earliest deadline first.

    If any matching serves all windows, this one does.

    Returns:
        For each window, the index of its start or None; and the indexes of the starts without an open window.
    """
    order = sorted(range(len(due)), key=lambda number: due[number][0])
    served: list[int | None] = [None] * len(due)
    spare: list[int] = []
    open_windows: list[tuple[int, int]] = []
    upcoming = 0
    for start in sorted(range(len(started)), key=lambda number: started[number]):
        at = started[start]
        while upcoming < len(order) and due[order[upcoming]][0] <= at:
            heapq.heappush(open_windows, (due[order[upcoming]][1], order[upcoming]))
            upcoming += 1
        while open_windows and open_windows[0][0] < at:
            heapq.heappop(open_windows)
        if open_windows:
            served[heapq.heappop(open_windows)[1]] = start
        else:
            spare.append(start)
    return served, spare
