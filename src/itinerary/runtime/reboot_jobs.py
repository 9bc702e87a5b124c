"""`@reboot`: once for each start of a node, on that node (S1).

No schedule says when that is, so the node makes these occurrences itself, when it starts. Each is a trigger whose
request is this start of the node: made twice, because an answer was lost, it is one. It belongs to this node from the
beginning, and goes to another only if this one does not start it in time.
"""

from __future__ import annotations

from itinerary.core.timeline.history import Active
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ByRef
from itinerary.model.rows import JobNumber, Key, NodeNumber, OccurrenceRow
from itinerary.model.writes import Refusal, Wanted
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.schedules.reboot import Reboot

__all__ = ["boot_runs"]


async def boot_runs(
    store: Store, node: NodeNumber, incarnation: str, timeline: Timeline, now: int
) -> list[OccurrenceRow] | None:
    """The occurrences of this start, with rows of their own; None if the timeline has moved on meanwhile."""
    instant = now - now % SECOND
    wanted = [
        Wanted(
            Key(instant, job, Kind.TRIGGER, f"reboot/{incarnation}"), version, instant, reason="the node has started"
        )
        for job, version in _on_reboot(timeline, now)
    ]
    if not wanted:
        return []
    claimed = await store.claim(node, timeline.revision, wanted)
    if isinstance(claimed, Refusal):
        return None
    rows = await store.read(ByRef(tuple(one.ref for one in claimed)))
    return list(rows.values())


def _on_reboot(timeline: Timeline, now: int) -> list[tuple[JobNumber, int]]:
    """The jobs that want to run at each start, and are neither paused nor stopped."""
    found = []
    for listed in timeline.catalogue(now).jobs:
        if not isinstance(listed.standing, Active) or '"reboot"' not in (listed.body or ""):
            continue  # nearly all of them, and none of their definitions had to be read for that
        try:
            schedule = listed.schedule
        except ItineraryError:
            continue  # whoever builds the index says so
        if isinstance(schedule, Reboot):
            found.append((listed.job.number, listed.version))
    return found
