"""A race for occurrences: everybody claims the same ones, in batches that each takes in another order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, NodeNumber
from itinerary.model.writes import ClaimRequest
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore

__all__ = ["race", "wanted_in"]

BATCH: Final = 500
_EPOCH: Final = 1_700_000_000 * SECOND


def wanted_in(round_number: int, job: JobNumber, count: int) -> list[ClaimRequest]:
    instants = (_EPOCH + (round_number * count + number) * SECOND for number in range(count))
    return [ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant) for instant in instants]


async def race(
    store: EngineStore, node: NodeNumber, wanted: Sequence[ClaimRequest], chance: random.Random
) -> list[Key]:
    """Claim all of them, in batches that everybody takes in another order. What was won."""
    batches = [wanted[first : first + BATCH] for first in range(0, len(wanted), BATCH)]
    chance.shuffle(batches)
    won: list[Key] = []
    for batch in batches:
        claimed = await store.claim(node, None, chance.sample(batch, len(batch)))
        assert isinstance(claimed, list)
        won += [one.key for one in claimed]
    return won
