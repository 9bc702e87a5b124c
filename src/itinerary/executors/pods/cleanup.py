"""Pods that may have been left behind: of nodes that are gone, or over for long (K3).

They are found by the label that all of ours have, and say in an annotation where their rows are. Whether one may be
removed is for the store to say (protocol rule 28), and is asked by `runtime.leftover_cleanup`.
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
    """A pod as something left behind; None if it is none of ours, whatever its labels say, or is being removed."""
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
