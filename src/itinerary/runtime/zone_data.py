"""Zone data that a node brings with it, when it starts (protocol rules 3 and 5).

    the store has none of a zone that a job needs        it is entered
    the store has an older table, and this node another  it is entered, and counts from now on
    the store has a newer table than this node           nothing: the node computes with what is stored, like everybody

So in a rolling restart the first node with new zone data moves the whole fleet to it, at one instant, and what was
claimed ahead and is not due by the new tables is withdrawn in the same transaction. Nodes with old zone data go on with
the new tables as soon as they have read them, and till then the gate refuses whatever they ask for by the old ones.
"""

from __future__ import annotations

from typing import Any, Final

from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import newer_entries, outdated_names
from itinerary.errors import NodeError
from itinerary.model.timeline import Denied, NewEntry
from itinerary.ports import Clock, Store
from itinerary.runtime.index_builder import Elsewhere, IndexBuilder
from itinerary.schedules import ZoneData

__all__ = ["bring_zone_data"]

_ROUNDS_MAX: Final = 50
"""How often others may change the timeline meanwhile before this gives up."""


async def bring_zone_data(
    store: Store, clock: Clock, builder: IndexBuilder, data: ZoneData, *, by: str, elsewhere: Elsewhere, log: Any
) -> None:
    """Enter what this node has and the store has not."""
    for _ in range(_ROUNDS_MAX):
        timeline = await builder.read()
        entries = await elsewhere(_entries, timeline, clock.now(), data, by)
        if not entries:
            _tell_if_outdated(timeline, data, log)
            return
        answers = await store.amend(entries, judge_by(timeline))
        if not any(isinstance(answer, Denied) for answer in answers):
            log.info("zones.entered", zones=[entry.subject for entry in entries], why=entries[0].reason)
    raise NodeError(
        f"zone data {data.release} was not entered: the timeline changes all the time; start the node again"
    )


def _entries(timeline: Timeline, now: int, data: ZoneData, by: str) -> list[NewEntry]:
    return newer_entries(timeline.zones, data, timeline.zones_needed(now), by=by, revision=timeline.revision)


def _tell_if_outdated(timeline: Timeline, data: ZoneData, log: Any) -> None:
    if names := outdated_names(timeline.zones, data):
        hint = "this node computes with the store's tables; update its tzdata package when you can"
        log.info("zones.outdated", release=data.release, zones=names, hint=hint)
