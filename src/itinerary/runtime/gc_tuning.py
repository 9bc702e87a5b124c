"""Python's collector of cyclic garbage, in a process that is a node and nothing else.

A node keeps some eight objects that the collector knows for each occurrence that waits for its instant, and makes more
when it starts, none of them part of a cycle. In its usual setting the collector looks at all that there is whenever
that has grown by a quarter: in the middle of ten thousand starts, and for a tenth of a second. What is there when a
node has started stays, so it is not looked at again, and what comes later is looked at less often. Memory is freed as
ever: all but cycles is freed at once, without the collector.

The rest is looked at when nothing is due for a while: ten thousand occurrences that have been claimed are ten
milliseconds' work for the collector, and they are better spent before the instant than after it.

`itinerary up` does this. An embedding program decides for itself: the collector is its own.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["collect_in_quiet", "relax_collector"]

_THRESHOLDS: Final = (200_000, 20, 100)
"""New objects before the youngest generation is looked at, and how often that comes before the next two are."""

_WORTH_IT: Final = 5_000
"""New objects that are worth a look."""


def relax_collector() -> None:
    """Collect once more, keep what is left for good, and look less often. To be called when the node has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def collect_in_quiet() -> None:
    """Nothing is due for a while: look at what is new, if the collector is a node's own."""
    if gc.get_count()[0] >= _WORTH_IT and gc.get_threshold() == _THRESHOLDS:
        gc.collect(0)
