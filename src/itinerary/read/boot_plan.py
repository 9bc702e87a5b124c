"""The boot plan of an app. The store is read, and nothing is written (R3).

Jobs that are declared here and not stored yet have nothing to recover: they count from their registration. The same
holds for a version that differs from the stored one, since it would be in force from now on.
"""

from __future__ import annotations

from itinerary.config.configuration import Configuration
from itinerary.core.recovery.boot_plan import BootPlan, boot_plan
from itinerary.core.recovery.sweep import ACTIVE_MAX, WINDOWS_REACH
from itinerary.model.queries import ActiveQuery, StoreStatusQuery
from itinerary.ports import Store
from itinerary.stores.paging import decided_between, read_timeline, windows_after
from itinerary.stores.urls import open_store

__all__ = ["plan_of", "planned_boot"]


async def planned_boot(configuration: Configuration) -> BootPlan:
    """Return the recovery that a node of this configuration would do if it started now."""
    async with open_store(configuration.store) as store:
        return await plan_of(store, configuration)


async def plan_of(store: Store, configuration: Configuration) -> BootPlan:
    """Return the boot plan for an open store."""
    status = await store.read(StoreStatusQuery())
    timeline = await read_timeline(store.read)
    settings = configuration.settings
    return boot_plan(
        status,
        timeline,
        [key async for page in decided_between(store.read, status.watermark, status.now) for key in page],
        await windows_after(store.read, status.watermark - WINDOWS_REACH),
        grace_period=settings.grace_period,
        takeover_after=settings.takeover_after,
        active=await store.read(ActiveQuery(due_before=status.now, limit=ACTIVE_MAX, with_queued=False)),
    )
