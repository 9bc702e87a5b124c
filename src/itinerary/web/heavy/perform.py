"""The computation of each heavy work: from the store's timeline and rows to an answer in JSON. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, assert_never

import msgspec

from itinerary.audit import AuditProgress, audit_store
from itinerary.jobs.job_file.document import document_of
from itinerary.model.queries import ByKeyQuery
from itinerary.model.rows import Key
from itinerary.model.run_request import read_asked
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.operations.apply import ApplyOptions, apply_jobs
from itinerary.operations.backfill import BackfillWish
from itinerary.operations.run_requests import RunRequests
from itinerary.read.run_lookup import RunLookup
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.timeline_view import StoreView
from itinerary.read.upcoming import upcoming
from itinerary.records.inspect import partitions_of
from itinerary.schedules import ZoneData
from itinerary.stores.paging import decided_between
from itinerary.web.api.responses import ApplyResponse, PartitionsResponse
from itinerary.web.heavy.bounds import WindowLimits
from itinerary.web.heavy.documents import SENT_FILE, pack_document
from itinerary.web.heavy.forecasts import forecast
from itinerary.web.heavy.works import (
    AnyWork,
    AuditWork,
    BackfillWork,
    FindWork,
    MadeWork,
    PartitionsWork,
    PlanWork,
    ReadFileWork,
    SimulateWork,
    UpcomingWork,
)
from itinerary.web.problems import RequestRefused

__all__ = ["Environment", "MadeRow", "perform"]

_AT_ONCE: Final = 5_000
_FOLLOWED_MAX: Final = 100_000
"""The maximum number of occurrences, of all jobs, that are searched for those of one backfill."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The store and the settings that a work reads."""

    view: StoreView
    """The current timeline."""
    settings: Settings
    zone_data: ZoneData
    bounds: WindowLimits
    handle: Callable[[AuditProgress], None]
    """Receives the progress of an audit."""


class MadeRow(msgspec.Struct, frozen=True):
    """An occurrence that a backfill has created."""

    instant: int
    status: OccurrenceState
    fingerprint: str | None


async def perform(work: AnyWork, env: Environment) -> bytes:
    """Run a work. Returns the answer as JSON.

    Raises:
        Refused: The work is too much, or impossible.
        ItineraryError: The request is invalid, or the store failed.
    """
    return msgspec.json.encode(await _answer(work, env))


async def _answer(work: AnyWork, env: Environment) -> Any:  # noqa: PLR0911 - one for each work
    view = env.view
    snapshot = StoreSnapshot(view.store, view.timeline, view.status)
    match work:
        case UpcomingWork():
            return upcoming(
                snapshot,
                work.span,
                parts=work.parts,
                pattern=work.pattern,
                limit=work.limit,
                check_count=lambda count: env.bounds.check_count(count, instead="use `itinerary upcoming`"),
            )
        case PlanWork():
            return await _plan(work, env)
        case SimulateWork():
            return await forecast(snapshot, work, bounds=env.bounds, settings=env.settings, zone_data=env.zone_data)
        case AuditWork():
            return await audit_store(view.store, work.start, work.end, env.handle)
        case BackfillWork():
            wish = BackfillWish(start=work.start, end=work.end, which=work.which, key=work.key, version=work.version)
            return await RunRequests(view.store, view, "", RunLookup()).backfill(work.job, wish, None, is_dry=True)
        case MadeWork():
            return await _made(work, view)
        case PartitionsWork():
            return PartitionsResponse(work.desk, tuple(await partitions_of(view.store, work.desk)))
        case ReadFileWork():
            return pack_document(document_of(SENT_FILE, work.text))
        case FindWork():
            return (await RunLookup().find(view.store, view, work.identity)).ref
        case _:
            assert_never(work)


async def _plan(work: PlanWork, env: Environment) -> ApplyResponse:
    wish = ApplyOptions(
        policy=work.policy,
        reason=work.reason,
        window=work.window,
        remove=work.remove,
        instants_max=env.bounds.instants_max,
    )
    done = await apply_jobs(
        env.view.store,
        {job.name: job for job in work.jobs},
        wish,
        by=work.by,
        zone_data=env.zone_data,
        is_plan=True,
        view=env.view,
    )
    return ApplyResponse.of(done)


async def _made(work: MadeWork, view: StoreView) -> list[MadeRow]:
    """Return the rows that a backfill has created, by their idempotency key."""
    keys: list[Key] = []
    looked_at = 0
    async for page in decided_between(view.store.read, work.start, work.end):
        looked_at += len(page)
        keys += [one for one in page if one.job == work.job]
        if looked_at > _FOLLOWED_MAX:
            raise RequestRefused(400, "Bad request", "there is too much in that range; ask for a shorter one")
    found: list[MadeRow] = []
    for first in range(0, len(keys), _AT_ONCE):
        rows = await view.store.read(ByKeyQuery(tuple(keys[first : first + _AT_ONCE])))
        for row in rows.values():
            said = read_asked(row.details)
            if said is not None and said.request == work.key:
                found.append(MadeRow(row.instant, row.status, said.fingerprint))
    return found
