"""Zone data that a node adds to the store when it starts (protocol rules 3 and 5).

    the store lacks a zone that a job needs              the node enters its table
    the store has an older table than this node          the node enters its table, which is in force from then on
    the store has a newer table than this node           no change: the node uses the stored table, like all nodes

In a rolling restart, the first node with new zone data therefore moves all nodes to it, at one instant. The same
transaction withdraws claims that were made ahead and are not due by the new tables. Nodes with old zone data use the
new tables as soon as they have read them. Until then, the gate refuses requests that are based on the old tables.
"""

from __future__ import annotations

from typing import Any, Final

from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import newer_entries, outdated_names
from itinerary.errors import NodeError
from itinerary.model.timeline import EntryRejected, TimelineEntryRequest
from itinerary.ports import Clock, Store
from itinerary.runtime.index_builder import Elsewhere, IndexBuilder
from itinerary.schedules import ZoneData

__all__ = ["bring_zone_data"]

_ROUNDS_MAX: Final = 50
"""Changes of the timeline by other nodes during the update before this node gives up."""


async def bring_zone_data(
    store: Store, clock: Clock, builder: IndexBuilder, data: ZoneData, *, by: str, elsewhere: Elsewhere, log: Any
) -> None:
    """Enter the zone data that this node has and the store lacks.

    Args:
        store: The store.
        clock: The store clock.
        builder: Keeps the timeline.
        data: The zone data of this node.
        by: The author of the entries.
        elsewhere: Runs a function without blocking the loop.
        log: The log of the node.

    Raises:
        NodeError: If other nodes change the timeline too often.
    """
    for _ in range(_ROUNDS_MAX):
        timeline = await builder.read()
        entries = await elsewhere(_entries, timeline, clock.now(), data, by)
        if not entries:
            _tell_if_outdated(timeline, data, log)
            return
        answers = await store.amend(entries, judge_by(timeline))
        if not any(isinstance(answer, EntryRejected) for answer in answers):
            log.info("zones.entered", zones=[entry.subject for entry in entries], why=entries[0].reason)
    raise NodeError(
        f"zone data {data.release} was not entered: the timeline changes all the time; start the node again"
    )


def _entries(timeline: Timeline, now: int, data: ZoneData, by: str) -> list[TimelineEntryRequest]:
    return newer_entries(timeline.zones, data, timeline.zones_needed(now), by=by, revision=timeline.revision)


def _tell_if_outdated(timeline: Timeline, data: ZoneData, log: Any) -> None:
    if names := outdated_names(timeline.zones, data):
        hint = "this node computes with the store's tables; update its tzdata package when you can"
        log.info("zones.outdated", release=data.release, zones=names, hint=hint)
