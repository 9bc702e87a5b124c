"""The real node, put into a simulated world: the one place that knows how it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from itinerary.runtime.node import Node
from itinerary.simulate.machines import Life, Surroundings

__all__ = ["real_life"]

T = TypeVar("T")


async def _inline(work: Callable[..., T], *args: object) -> T:
    """What a real node has done in a thread: here there are none."""
    return work(*args)


def real_life(around: Surroundings) -> Life:
    """A node as everybody runs it; its store, its clock, its executor and its log are the world's."""
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
