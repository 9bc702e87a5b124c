"""An occurrence is found by its id, its run id and its number for as long as a store keeps it (D1, D8)."""

from __future__ import annotations

from uuid import UUID

import pytest

from itinerary.errors import NotFoundError
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.rows import Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.read.run_lookup import RunLookup
from itinerary.read.timeline_view import StoreView
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import Desk, told

DAY = 86_400 * SECOND


@pytest.mark.spec("D1", "found by its id")
@told
async def test_an_occurrence_is_found_by_its_id_and_run_id_however_old_it_is(desk: Desk) -> None:
    job = await desk.job()
    today = await desk.now() // DAY * DAY
    keys = [
        Key(today - 40 * DAY, job, Kind.SCHEDULED),
        Key(today - 500 * DAY, job, Kind.BACKFILL),
        Key(today - 41 * DAY, job, Kind.TRIGGER, "request-7"),
    ]
    claimed = await desk.claim(
        None, *[ClaimRequest(key, 1, key.instant, OccurrenceState.MISSED, reason="it is over") for key in keys]
    )
    view = await StoreView.of(desk.store)
    assert {one.key for one in claimed} == set(keys)
    for one in claimed:
        found = [
            await RunLookup().find(desk.store, view, called)
            for called in (one.key.id(job_id("backup")), f"backup:{one.key.instant // SECOND}", str(one.ref))
        ]
        assert [run.ref for run in found] == [one.ref] * 3
    for unknown in (UUID(int=7), f"backup:{today // SECOND}", "999999"):
        with pytest.raises(NotFoundError, match="no longer kept"):
            await RunLookup().find(desk.store, view, unknown)


@told
async def test_several_runs_with_one_run_id_are_told_apart_by_their_numbers(desk: Desk) -> None:
    job = await desk.job()
    instant = await desk.now() // DAY * DAY
    keys = [Key(instant, job, Kind.TRIGGER, request) for request in ("a", "b")]
    first, second = await desk.claim(
        None, *[ClaimRequest(key, 1, key.instant, OccurrenceState.SKIPPED) for key in keys]
    )
    with pytest.raises(NotFoundError, match=f"2 occurrences have this run id; name one by its number: {first.ref}, "):
        await RunLookup().find(desk.store, await StoreView.of(desk.store), f"backup:{instant // SECOND}")
    assert second.ref > first.ref
