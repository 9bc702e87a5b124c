"""The timeline entry of a prune: who removes old history. The entry is made before the first row is removed.

The entry concerns all jobs and changes none of them. Since it comes first, a prune that is killed half-way is on record
too. Nodes that remove old history by their settings make no entry: the settings say what they remove.
"""

from __future__ import annotations

from uuid import uuid4

from itinerary.model.retention import Retention
from itinerary.model.rows import EntryKind
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.ports import Store
from itinerary.schedules.durations import format_duration

__all__ = ["record_prune"]


async def record_prune(store: Store, rules: Retention, *, by: str) -> None:
    """Enter on the timeline who removes old history, and by which rules.

    Args:
        store: The store whose history is removed.
        rules: How much history is kept.
        by: The name of the token or the user.

    Raises:
        StoreError: The store cannot be written. Remove nothing then.
    """
    kept = f"keep_for {format_duration(rules.keep_for)}, keep_failed_for {format_duration(rules.keep_failed_for)}"
    entry = TimelineEntryRequest(
        job="", kind=EntryKind.PRUNE, request=f"prune/{uuid4()}", by=by, subject=f"{kept}, keep_max {rules.keep_max}"
    )
    await store.amend([entry])
