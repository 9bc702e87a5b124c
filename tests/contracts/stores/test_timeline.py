"""The timeline, its gate and its revision (protocol rules 3, 4; R6, R7, D10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import ZoneBook, lacking_entries, newer_entries
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ActiveQuery, EntriesQuery, JobsByNameQuery, JobsQuery, StoreStatusQuery
from itinerary.model.rows import EntryKind, EntryRow, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.timeline import (
    EntryAccepted,
    EntryRefusal,
    EntryRejected,
    TimelineEntryRequest,
    UnstartedDecision,
    VerdictKind,
)
from itinerary.model.writes import ClaimRequest, Refusal, Refused
from itinerary.schedules import Zone, ZoneData, cron, every, packaged_zone
from itinerary.schedules.durations import SECOND
from tests.contracts.stores.desk import HOUR, Desk, told


def version(job: str = "backup", **values: Any) -> TimelineEntryRequest:
    given = {"request": "v1", "by": "anna", "from_version": 0, "body": "{}", **values}
    return TimelineEntryRequest(job=job, kind=EntryKind.VERSION, **given)


def entry(kind: EntryKind, job: str = "backup", **values: Any) -> TimelineEntryRequest:
    return TimelineEntryRequest(job=job, kind=kind, **{"request": f"{kind} 1", "by": "anna", **values})


@pytest.mark.spec("R6")
@told
async def test_a_first_version_registers_a_job(desk: Desk) -> None:
    (entered,) = await desk.store.amend([version(reason="a new job")])
    assert isinstance(entered, EntryAccepted)
    assert (entered.version, entered.revision) == (1, 1)
    job = (await desk.store.read(JobsByNameQuery(("backup", "nobody"))))["backup"]
    assert (job.number, job.version, job.registered_at) == (entered.job, 1, entered.effective_from)
    (row,) = await desk.store.read(EntriesQuery(0))
    assert (row.kind, row.body, row.entered_by, row.reason) == (EntryKind.VERSION, "{}", "anna", "a new job")
    assert (await desk.store.read(StoreStatusQuery())).revision == 1


@pytest.mark.spec("R6")
@told
async def test_a_change_from_an_old_version_is_refused_with_the_newest(desk: Desk) -> None:
    await desk.store.amend([version()])
    await desk.store.amend([version(request="v2", from_version=1)])
    (denied,) = await desk.store.amend([version(request="v3", from_version=1)])
    assert isinstance(denied, EntryRejected)
    assert (denied.why, denied.version) == (EntryRefusal.STALE, 2)
    (again,) = await desk.store.amend([version(request="someone else's v1")])
    assert isinstance(again, EntryRejected)
    assert (await desk.store.read(StoreStatusQuery())).revision == 2


@pytest.mark.spec("R7")
@told
async def test_the_same_request_changes_nothing_the_second_time(desk: Desk) -> None:
    first = await desk.store.amend([version(), entry(EntryKind.PAUSE)])
    assert await desk.store.amend([version(), entry(EntryKind.PAUSE)]) == first
    assert len(await desk.store.read(EntriesQuery(0))) == 2
    assert (await desk.store.read(StoreStatusQuery())).revision == 1


@told
async def test_entries_are_made_all_or_none(desk: Desk) -> None:
    denied = await desk.store.amend([version("a"), entry(EntryKind.PAUSE, "nobody")])
    assert [(one.job, one.why) for one in denied if isinstance(one, EntryRejected)] == [
        ("nobody", EntryRefusal.UNKNOWN)
    ]
    assert list(await desk.store.read(JobsQuery())) == []


@told
async def test_one_call_may_register_a_job_and_change_it(desk: Desk) -> None:
    entered = await desk.store.amend([version(), entry(EntryKind.STOP), version(request="v2", from_version=1)])
    assert [one.version for one in entered if isinstance(one, EntryAccepted)] == [1, 1, 2]
    assert {one.revision for one in entered if isinstance(one, EntryAccepted)} == {1}


@told
async def test_a_change_counts_from_now_on_at_the_earliest(desk: Desk) -> None:
    await desk.store.amend([version()])
    now = await desk.now()
    (denied,) = await desk.store.amend([entry(EntryKind.PAUSE, effective_from=now - HOUR)])
    assert isinstance(denied, EntryRejected)
    assert denied.why is EntryRefusal.EARLY
    assert denied.earliest >= now
    (entered,) = await desk.store.amend([entry(EntryKind.PAUSE, effective_from=now + HOUR)])
    assert isinstance(entered, EntryAccepted)
    assert entered.effective_from == now + HOUR


@told
async def test_a_change_never_counts_from_before_the_watermark(desk: Desk) -> None:
    node = await desk.node()
    await desk.job()
    plan = await desk.store.begin_sweep(node, await desk.now())
    assert plan is not None
    step = SweepStep(fence=plan.fence, step=1, cursor="", is_last=True)
    assert await desk.store.advance_sweep(node, desk.revision, step) is None
    (denied,) = await desk.store.amend([entry(EntryKind.PAUSE, effective_from=plan.end - 1)])
    assert isinstance(denied, EntryRejected)
    (entered,) = await desk.store.amend([entry(EntryKind.PAUSE)])
    assert isinstance(entered, EntryAccepted)
    assert entered.effective_from >= plan.end


@told
async def test_the_timeline_is_read_from_any_revision_and_no_revision_in_half(desk: Desk) -> None:
    for number in range(3):
        await desk.store.amend([version(f"{number} {letter}") for letter in "abc"])
    assert [row.revision for row in await desk.store.read(EntriesQuery(0))] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [row.revision for row in await desk.store.read(EntriesQuery(1, limit=4))] == [2, 2, 2, 3, 3, 3]
    assert [row.revision for row in await desk.store.read(EntriesQuery(1, limit=1))] == [2, 2, 2]
    assert list(await desk.store.read(EntriesQuery(3))) == []


@told
async def test_zones_and_prunings_belong_to_no_job(desk: Desk) -> None:
    entered = await desk.store.amend(
        [
            entry(EntryKind.PRUNE, "", subject="keep_for 30d"),
            entry(EntryKind.ZONE, "", subject="Europe/Berlin", body="{}"),
        ]
    )
    assert [one.job for one in entered if isinstance(one, EntryAccepted)] == [0, 0]
    assert [row.subject for row in await desk.store.read(EntriesQuery(0))] == ["keep_for 30d", "Europe/Berlin"]


@pytest.mark.spec("N1", "protocol rule 5: zone data")
@told
async def test_zone_data_is_entered_once_and_what_is_claimed_is_judged_by_it(desk: Desk) -> None:
    berlin = "Europe/Berlin"
    old = ZoneData("2026a", packaged_zone)
    moved = ZoneData("2026b", lambda name: _moved(packaged_zone(name), 1))
    body = to_json(Definition(schedule=cron("*/10 * * * * *", tz=berlin).to_json())).decode()
    first = lacking_entries(ZoneBook(), old, [berlin], by="anna", revision=0)
    others = version("others", body=to_json(Definition(schedule=every("10s").to_json())).decode())
    entered = await desk.store.amend([*first, version(body=body), others])
    assert next(one.job for one in entered if isinstance(one, EntryAccepted)) == 0
    node, timeline = await desk.node(), await _timeline(desk)
    start = (await desk.now()) // (10 * SECOND) * 10 * SECOND + HOUR
    wanted = [
        ClaimRequest(Key(start + offset * SECOND, job, Kind.SCHEDULED), 1, start + offset * SECOND)
        for offset in (0, 10, 20)
        for job in timeline.jobs
    ]
    claimed = await desk.store.claim(node, timeline.revision, wanted)
    assert isinstance(claimed, list)
    assert [due.instant for due in timeline.expected(start, start + 30 * SECOND)] == [
        start + offset * SECOND for _ in range(2) for offset in (0, 10, 20)
    ]
    newer = newer_entries(timeline.zones, moved, (), by="a", revision=timeline.revision)
    answers = await desk.store.amend(newer, judge_by(timeline))
    assert await desk.store.amend(newer, judge_by(timeline)) == answers, "the same request, and one entry"
    assert len([row for row in await desk.store.read(EntriesQuery(0)) if row.kind is EntryKind.ZONE]) == 2
    backup = (await desk.store.read(JobsByNameQuery(("backup",))))["backup"].number
    for one in claimed:
        row = await desk.row(one.ref)
        gone = (OccurrenceState.CANCELLED, True) if row.job == backup else (OccurrenceState.PRERUN, False)
        assert (row.status, row.is_withdrawn) == gone
    assert await desk.store.claim(node, timeline.revision, wanted) is Refusal.MOVED
    timeline = await _timeline(desk)
    assert newer_entries(timeline.zones, old, (), by="b", revision=timeline.revision) == []
    assert [(due.instant - start) // SECOND for due in timeline.expected(start, start + 30 * SECOND, [backup])] == [
        9,
        19,
        29,
    ]
    stale = newer_entries(timeline.zones, ZoneData("2026c", packaged_zone), (), by="b", revision=1)
    (denied,) = await desk.store.amend(stale, judge_by(timeline))
    assert isinstance(denied, EntryRejected)
    assert denied.why is EntryRefusal.MOVED


async def _timeline(desk: Desk) -> Timeline:
    return Timeline.of(await desk.store.read(EntriesQuery(0)), await desk.store.read(JobsQuery()))


def _moved(zone: Zone, seconds: int) -> Zone:
    return Zone(zone.name, zone.starts, tuple(offset + seconds for offset in zone.offsets))


@pytest.mark.spec("R7")
@told
async def test_what_an_update_removes_is_withdrawn_and_a_later_one_brings_it_back(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    later = await desk.now() + HOUR
    runs = await desk.run(node, job)
    stays = await desk.due(node, job, ago=-3600, due_at=later)
    goes = await desk.due(node, job, ago=-3600, due_at=later)
    shown: list[set[int]] = []

    def judge(kind: VerdictKind, number: int) -> Any:
        def verdicts(rows: Sequence[OccurrenceRow], _: Sequence[EntryRow]) -> list[UnstartedDecision]:
            shown.append({row.ref for row in rows})
            return [
                UnstartedDecision(goes.ref, kind, number, f"version {number}"),
                UnstartedDecision(stays.ref, VerdictKind.KEEP, number, ""),
            ]

        return verdicts

    await desk.store.amend([version(request="v2", from_version=1)], judge(VerdictKind.WITHDRAW, 2))
    row = await desk.row(goes.ref)
    assert (row.status, row.reason, row.is_withdrawn) == (OccurrenceState.CANCELLED, "version 2", True)
    assert (await desk.row(stays.ref)).version == 2
    assert (await desk.row(runs.ref)).version == 1, "what runs keeps its version"
    await desk.store.amend([version(request="v2", from_version=1)], judge(VerdictKind.WITHDRAW, 2))
    await desk.store.amend([version(request="v3", from_version=2)], judge(VerdictKind.RESTORE, 3))
    row = await desk.row(goes.ref)
    assert (row.status, row.version, row.owner, row.ended_at) == (OccurrenceState.PRERUN, 3, None, None)
    assert await desk.trail(goes.ref) == ["prerun", "cancelled", "prerun"]
    assert {found.ref for found in await desk.store.read(ActiveQuery(job))} == {stays.ref, goes.ref, runs.ref}
    assert shown == [{stays.ref, goes.ref}] * 2, "what runs is not shown, and a repeated request asks nobody"


@pytest.mark.spec("D10")
@told
async def test_removing_a_job_cancels_what_has_not_started_and_lets_the_rest_finish(desk: Desk) -> None:
    node, job = await desk.node(), await desk.job()
    running, waiting = await desk.run(node, job), await desk.due(node, job)

    def all_of_it(rows: Sequence[OccurrenceRow], _: Sequence[EntryRow]) -> list[UnstartedDecision]:
        return [UnstartedDecision(row.ref, VerdictKind.CANCEL, 1, "its job was removed") for row in rows]

    await desk.store.amend([entry(EntryKind.REMOVE)], all_of_it)
    assert await desk.status(waiting.ref) is OccurrenceState.CANCELLED
    answers = await desk.store.start(node, desk.revision, [desk.request(waiting)], HOUR)
    assert answers == [Refused(waiting.ref, Refusal.MOVED)]
    await desk.finish(node, running)
    (entered,) = await desk.store.amend([version(request="again", from_version=1)])
    assert isinstance(entered, EntryAccepted)
    assert (entered.job, entered.version) == (job, 2), "the same name continues its versions"


@told
async def test_five_thousand_jobs_are_registered_in_one_call(desk: Desk) -> None:
    entered = await desk.store.amend([version(f"job {number}") for number in range(5_000)])
    assert len({one.job for one in entered if isinstance(one, EntryAccepted)}) == 5_000
    assert len(await desk.store.read(JobsQuery())) == 5_000
