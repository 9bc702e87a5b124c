"""`itinerary status`: the figures of a store, and the findings of the doctor."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from itinerary.config.configuration import Configuration
from itinerary.errors import ItineraryError
from itinerary.model.queries import Active, Nodes
from itinerary.operations.doctor import Examined, Finding, Level, examined
from itinerary.operations.doctor.last_hour import recent_runs
from itinerary.read.nodes import heard_of
from itinerary.read.snapshot import Ground
from itinerary.stores.urls import open_store

__all__ = ["Figures", "Overview", "overview"]

_ACTIVE_MAX: Final = 10_000


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a store."""

    nodes: tuple[str, ...]
    """The names of the running nodes."""
    jobs: int
    running: int
    waiting: int
    """Runs that are due and have not started."""
    ended: dict[str, int]
    """The runs that ended within the last hour, by outcome."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to "is everything fine?"."""

    store: str
    is_fine: bool
    """True if no finding is an error. Warnings do not count."""
    figures: Figures | None
    """None if the store cannot be read."""
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


async def overview(configuration: Configuration) -> Overview:
    """Check a store and return its figures and findings. Nothing is written."""
    found: Examined = await examined(configuration)
    figures = None
    if not any(finding.about in {"store", "schema"} and finding.level is not Level.WELL for finding in found.findings):
        try:
            async with open_store(configuration.store) as store:
                figures = await _figures(await Ground.of(store))
        except ItineraryError:
            figures = None  # the store failed after the checks; their findings still hold
    return Overview(
        store=found.store,
        is_fine=found.is_well,
        figures=figures,
        errors=tuple(finding for finding in found.findings if finding.level is Level.WRONG),
        warnings=tuple(finding for finding in found.findings if finding.level is Level.DOUBTFUL),
    )


async def _figures(ground: Ground) -> Figures:
    rows = await ground.store.read(Active(due_before=ground.now, limit=_ACTIVE_MAX))
    nodes = await ground.store.read(Nodes())
    ended = Counter(row.status.value for runs in (await recent_runs(ground)).values() for row in runs)
    return Figures(
        nodes=tuple(row.name for row in nodes if heard_of(row, ground.now)),
        jobs=len(ground.named()),
        running=sum(row.started_at is not None for row in rows),
        waiting=sum(row.started_at is None for row in rows),
        ended=dict(ended.most_common()),
    )
