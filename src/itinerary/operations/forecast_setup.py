"""Set up the forecast of declared jobs on a temporary store (U5)."""

from __future__ import annotations

from collections.abc import Mapping

from itinerary.config.configuration import Configuration
from itinerary.config.log_setup import engine_log
from itinerary.forecast import TaskDurations, staged, takes_in
from itinerary.forecast.simulator import ForecastSimulator
from itinerary.jobs.declaration import Declaration
from itinerary.jobs.registration import register
from itinerary.ports import Store
from itinerary.schedules import ZoneData
from itinerary.stores.urls import open_store

__all__ = ["stage_for"]


async def stage_for(
    configuration: Configuration,
    declared: Mapping[str, Declaration],
    zone_data: ZoneData,
    start: int,
    said: Mapping[str, int],
    history: str | None,
) -> tuple[ForecastSimulator, TaskDurations]:
    """Return a simulator for declared jobs that are registered at `start`.

    Args:
        configuration: The configuration of the application.
        declared: The jobs, by name.
        zone_data: The zone data of this machine.
        start: The first instant of the forecast, in microseconds.
        said: The durations of whole jobs that the user gave, in microseconds, by job.
        history: The URL of a store with the durations of past tasks; None if there is none.
    """
    seen: dict[tuple[str, str], int] = {}
    if history is not None:
        async with open_store(history) as store:
            seen = await takes_in(store, declared)
    takes = TaskDurations(said, seen)

    async def declare(store: Store) -> None:
        await register(store, declared, by="forecast", log=engine_log(), zone_data=zone_data)

    return await staged(declare, start, settings=configuration.settings, takes=takes), takes
