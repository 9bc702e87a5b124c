"""Settings of Python's cyclic garbage collector, for a process that runs only a node.

For every claimed occurrence, a node keeps about eight objects that the collector tracks. Its start creates more. None
of them is part of a cycle. By default, the collector scans all objects whenever their number has grown by a quarter.
Such a scan can happen during ten thousand starts, and takes a tenth of a second. Objects that exist after the start of
a node stay alive, so the collector never scans them again. The collector scans newer objects less often. Python still
frees objects without cycles at once, without the collector.

The collector scans the rest when nothing is due for a while. Ten thousand claimed occurrences take it ten milliseconds,
and these are better spent before the instant than after it.

`itinerary up` uses these settings. A program that embeds a node decides for itself about its collector.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["collect_in_quiet", "relax_collector"]

_THRESHOLDS: Final = (200_000, 20, 100)
"""New objects before a scan of the youngest generation, and the scans of a generation before one of the next."""

_WORTH_IT: Final = 5_000
"""New objects that make a scan worthwhile."""


def relax_collector() -> None:
    """Collect once, exempt the remaining objects from later scans, and scan less often.

    Call this when the node has started.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def collect_in_quiet() -> None:
    """Scan the newest objects if the collector has the settings of a node.

    Call this when nothing is due for a while.
    """
    if gc.get_count()[0] >= _WORTH_IT and gc.get_threshold() == _THRESHOLDS:
        gc.collect(0)
