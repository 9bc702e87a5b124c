"""Pods that may have been left behind: pods of dead nodes, and pods that ended long ago (K3).

All pods of Itinerary have a common label, and an annotation with the location of their rows. The store decides whether
a pod may be removed (protocol rule 28), and `runtime.leftover_cleanup` asks it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from itinerary.executors.pods.manifest import MANAGED, OCCURRENCE, PLACE
from itinerary.executors.pods.status import seen
from itinerary.model.attempts import AttemptKey, Leftover
from itinerary.model.ids import OccurrenceId
from itinerary.model.rows import Ref

__all__ = ["LEFT_BEHIND", "leftover"]

LEFT_BEHIND: Final = MANAGED


def leftover(pod: Mapping[str, Any]) -> Leftover | None:
    """Return a pod as a leftover; None if Itinerary did not create it, or if it is being deleted."""
    metadata = pod["metadata"]
    place = metadata.get("annotations", {}).get(PLACE, "")
    try:
        ref, at, number = (int(part) for part in place.split(" "))
        occurrence = OccurrenceId(UUID(metadata["labels"][OCCURRENCE]))
    except (ValueError, KeyError):
        return None
    if "deletionTimestamp" in metadata:
        return None
    sight = seen(pod)
    over_for = 0 if sight.ended_at is None else max(round(time.time() * 1_000_000) - sight.ended_at, 0)
    handle = metadata["namespace"], metadata["name"], metadata["uid"]
    return Leftover(AttemptKey(Ref(ref), at, number), occurrence, handle, sight.is_over, over_for)
