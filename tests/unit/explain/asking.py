"""How the tests of `explain` ask, and what others do meanwhile."""

from __future__ import annotations

from typing import Any

from itinerary.explain import Cause, Explanation, RunResult, explain
from itinerary.model.rows import EntryKind
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.operations.job_changes import StatusChanges
from itinerary.read.timeline_view import NodeView
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from itinerary.stores.store import EngineStore
from tests.unit.runtime.world import EPOCH, World

NOON = EPOCH // SECOND
MINUTE = 60 * SECOND


async def asked(world: World, seconds: float | None, job: str = "etl") -> Explanation:
    """What is said of an instant, in seconds after noon; read past whatever is rough."""
    when = None if seconds is None else Moment(NOON + int(seconds))
    return await explain(EngineStore(world.engine.engine), job, when)


def changes(world: World, node: Node) -> StatusChanges:
    return StatusChanges(world.store, NodeView(world.store, node), "anna")


async def enter(world: World, kind: EntryKind, **values: Any) -> None:
    """What somebody does who has no node."""
    entry = TimelineEntryRequest(job="etl", kind=kind, request=f"{kind} {world.now()}", by="anna", **values)
    (answer,) = await world.store.amend([entry])
    assert isinstance(answer, EntryAccepted)


def says(found: Explanation, fate: RunResult, cause: Cause, verdict: str) -> None:
    """What an answer says, whole."""
    assert found.verdict == verdict
    assert (found.fate, found.cause) == (fate, cause)
