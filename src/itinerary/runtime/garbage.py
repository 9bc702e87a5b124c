"""Python's collector of cyclic garbage, in a process that is a node and nothing else.

A node keeps some eight objects that the collector knows for each occurrence that waits for its instant, and makes more
when it starts, none of them part of a cycle. In its usual setting the collector looks at all that there is whenever
that has grown by a quarter: in the middle of ten thousand starts, and for a tenth of a second. What is there when a
node has started stays, so it is not looked at again, and what comes later is looked at less often. Memory is freed as
ever: all but cycles is freed at once, without the collector.

`itinerary up` does this. An embedding program decides for itself: the collector is its own.
"""

from __future__ import annotations

import gc
from typing import Final

__all__ = ["relax_collector"]

_THRESHOLDS: Final = (50_000, 20, 100)
"""New objects before the youngest generation is looked at, and how often that comes before the next two are."""


def relax_collector() -> None:
    """Collect once more, keep what is left for good, and look less often. To be called when the node has started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
