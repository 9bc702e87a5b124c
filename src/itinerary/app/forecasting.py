"""The forecast of declared jobs: on a store of its own, that is gone afterwards (U5)."""

from __future__ import annotations

from collections.abc import Mapping

from itinerary.app.declaring import Declaration
from itinerary.app.logs import engine_log
from itinerary.app.registering import register
from itinerary.app.sources import Configuration
from itinerary.forecast import Takes, staged, takes_in
from itinerary.forecast.stage import Stage
from itinerary.ports import Store
from itinerary.schedules import ZoneData
from itinerary.stores.opening import open_store

__all__ = ["stage_for"]


async def stage_for(
    configuration: Configuration,
    declared: Mapping[str, Declaration],
    zone_data: ZoneData,
    start: int,
    said: Mapping[str, int],
    history: str | None,
) -> tuple[Stage, Takes]:
    """A stage for declared jobs, as if they were registered at that moment. `said` is how long whole jobs take, and
    `history` the URL of a store that knows how long tasks took."""
    seen: dict[tuple[str, str], int] = {}
    if history is not None:
        async with open_store(history) as store:
            seen = await takes_in(store, declared)
    takes = Takes(said, seen)

    async def declare(store: Store) -> None:
        await register(store, declared, by="forecast", log=engine_log(), zone_data=zone_data)

    return await staged(declare, start, settings=configuration.settings, takes=takes), takes
