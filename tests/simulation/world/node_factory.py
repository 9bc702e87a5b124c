"""The factory of the real node in a simulated world: the only module that knows how to create one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from itinerary.runtime.node import Node
from tests.simulation.world.machines import Life, Surroundings

__all__ = ["real_life"]

T = TypeVar("T")


async def _inline(work: Callable[..., T], *args: object) -> T:
    """Call a function directly. A real node uses a thread, but the simulation has none."""
    return work(*args)


def real_life(around: Surroundings) -> Life:
    """Return a real node with the store, clock, executor and log of the world."""
    return Node(
        around.store,
        name=around.name,
        incarnation=around.incarnation,
        settings=around.options.settings,
        executor=around.executor,
        log=around.log,
        zone_data=around.zone_data,
        elapsed=around.clock.elapsed,
        elsewhere=_inline,
        about=around.about,
        is_gone=around.is_gone,
    )
