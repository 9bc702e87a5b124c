"""`itinerary status`: the figures of a store, and the findings of the doctor."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from itinerary.config.configuration import Configuration
from itinerary.errors import ItineraryError
from itinerary.model.queries import ActiveQuery, NodesQuery
from itinerary.operations.doctor import CheckResult, DoctorReport, Severity, examined
from itinerary.operations.doctor.last_hour import recent_runs
from itinerary.read.nodes import heard_of
from itinerary.read.snapshot import StoreSnapshot
from itinerary.stores.urls import open_store

__all__ = ["Overview", "StoreFigures", "overview"]

_ACTIVE_MAX: Final = 10_000


class StoreFigures(msgspec.Struct, frozen=True, kw_only=True):
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
    figures: StoreFigures | None
    """None if the store cannot be read."""
    errors: tuple[CheckResult, ...]
    warnings: tuple[CheckResult, ...]


async def overview(configuration: Configuration) -> Overview:
    """Check a store and return its figures and findings. Nothing is written."""
    found: DoctorReport = await examined(configuration)
    figures = None
    if not any(
        finding.about in {"store", "schema"} and finding.level is not Severity.WELL for finding in found.findings
    ):
        try:
            async with open_store(configuration.store) as store:
                figures = await _figures(await StoreSnapshot.of(store))
        except ItineraryError:
            figures = None  # the store failed after the checks; their findings still hold
    return Overview(
        store=found.store,
        is_fine=found.is_well,
        figures=figures,
        errors=tuple(finding for finding in found.findings if finding.level is Severity.WRONG),
        warnings=tuple(finding for finding in found.findings if finding.level is Severity.DOUBTFUL),
    )


async def _figures(snapshot: StoreSnapshot) -> StoreFigures:
    rows = await snapshot.store.read(ActiveQuery(due_before=snapshot.now, limit=_ACTIVE_MAX))
    nodes = await snapshot.store.read(NodesQuery())
    ended = Counter(row.status.value for runs in (await recent_runs(snapshot)).values() for row in runs)
    return StoreFigures(
        nodes=tuple(row.name for row in nodes if heard_of(row, snapshot.now)),
        jobs=len(snapshot.named()),
        running=sum(row.started_at is not None for row in rows),
        waiting=sum(row.started_at is None for row in rows),
        ended=dict(ended.most_common()),
    )
