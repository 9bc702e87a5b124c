"""`@reboot`: one run at each start of a node, on that node (S1).

No schedule has these instants, so the node creates the occurrences itself when it starts. An occurrence is a trigger
whose request is this start of the node. If an answer is lost and the request repeated, there is still only one
occurrence. This node owns it from the beginning. Another node takes it over only if this node does not start it in
time.
"""

from __future__ import annotations

from itinerary.core.timeline.history import JobActive
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import JobNumber, Key, NodeNumber, OccurrenceRow
from itinerary.model.writes import ClaimRequest, Refusal
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.schedules.reboot import Reboot

__all__ = ["boot_runs"]


async def boot_runs(
    store: Store, node: NodeNumber, incarnation: str, timeline: Timeline, now: int
) -> list[OccurrenceRow] | None:
    """Create the occurrences of this start.

    Args:
        store: The store to create the rows in.
        node: The node that starts.
        incarnation: The id of this start.
        timeline: The timeline, as far as it has been read.
        now: The store's time.

    Returns:
        The rows; None if the timeline in the store is newer than the given one.
    """
    instant = now - now % SECOND
    wanted = [
        ClaimRequest(
            Key(instant, job, Kind.TRIGGER, f"reboot/{incarnation}"), version, instant, reason="the node has started"
        )
        for job, version in _on_reboot(timeline, now)
    ]
    if not wanted:
        return []
    claimed = await store.claim(node, timeline.revision, wanted)
    if isinstance(claimed, Refusal):
        return None
    rows = await store.read(ByRefQuery(tuple(one.ref for one in claimed)))
    return list(rows.values())


def _on_reboot(timeline: Timeline, now: int) -> list[tuple[JobNumber, int]]:
    """Return the jobs that run at each start, with their versions, without paused and stopped ones."""
    found = []
    for listed in timeline.catalogue(now).jobs:
        if not isinstance(listed.status, JobActive) or '"reboot"' not in (listed.body or ""):
            continue  # this skips nearly all jobs without decoding their definitions
        try:
            schedule = listed.schedule
        except ItineraryError:
            continue  # the index builder logs this error
        if isinstance(schedule, Reboot):
            found.append((listed.job.number, listed.version))
    return found
