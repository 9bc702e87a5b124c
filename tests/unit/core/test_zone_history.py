"""Zone data on the timeline: which table counts when, and who may enter another one (protocol rules 3 and 5)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.core.recovery.backfill import due_between
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import StoredZone, ZoneBook, lacking_entries, newer_entries, outdated_names
from itinerary.errors import RecordError, ScheduleError, UnknownZone
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.rows import EntryKind, EntryRow, JobNumber
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import TimelineEntryRequest, VerdictKind
from itinerary.schedules import (
    Calendar,
    Schedule,
    ZoneData,
    cron,
    every,
    excluding,
    from_json,
    iso8601,
    packaged_zone,
    packaged_zone_data,
    union,
)
from tests.unit.core.timelines import HOUR, MINUTE, NOON, SECOND, Book, Shelf, minutes, scheduled, shifted

BERLIN, TOKYO = "Europe/Berlin", "Asia/Tokyo"
AHEAD = 1_800
"""In the other zone data all clocks are half an hour ahead."""
OLD = ZoneData("2026a", packaged_zone)
NEW = ZoneData("2026b", lambda name: shifted(name, AHEAD))
ONLY_BERLIN = ZoneData("2026b", lambda name: shifted(name, AHEAD if name == BERLIN else 0))


def made(entries: list[TimelineEntryRequest], revision: int, at: int = NOON) -> list[EntryRow]:
    """Entries as a store makes them."""
    return [
        EntryRow(
            revision, line, JobNumber(0), entry.kind, entry.request, at, at, entry.by, 0, entry.subject, entry.body
        )
        for line, entry in enumerate(entries)
    ]


def entered(book: ZoneBook, data: ZoneData, names: set[str], revision: int, at: int = NOON) -> ZoneBook:
    return book.extended(made(newer_entries(book, data, names, by="a", revision=None), revision, at))


# -- which table counts ----------------------------------------------------------------------------------------------


@pytest.mark.spec("S8", "protocol rule 5: new zone data counts from its entry on")
def test_until_new_zone_data_counts_the_old_one_does_and_then_the_new_one() -> None:
    book = Book()
    book.zone(BERLIN, NOON)
    job = book.job("at ten past", cron("10 * * * *", tz=BERLIN))
    book.zone(BERLIN, NOON + 2 * HOUR, AHEAD, "2026b")
    assert minutes(book, job, 0, 300) == [(10, 1, True), (70, 1, True), (160, 1, True), (220, 1, True), (280, 1, True)]
    assert book.timeline.next_run(job, NOON + 70 * MINUTE) == NOON + 160 * MINUTE
    assert list(due_between(book.timeline, job, NOON, NOON + 3 * HOUR)) == [
        NOON + offset * MINUTE for offset in (10, 70, 160)
    ]


@pytest.mark.spec("S8", "protocol rule 5: before its first entry")
def test_before_its_first_entry_a_zone_has_the_table_of_that_entry() -> None:
    book = Book()
    job = book.job("at ten past", cron("10 * * * *", tz=BERLIN))
    book.zone(BERLIN, NOON + HOUR, AHEAD)
    assert minutes(book, job, 0, 120) == [(40, 1, True), (100, 1, True)]


@pytest.mark.spec("S8", "protocol rule 5: UTC")
def test_utc_needs_no_zone_data_and_what_is_entered_of_others_changes_nothing_for_it() -> None:
    book = Book()
    job = book.job("hourly", cron("0 * * * *", tz="UTC"))
    assert minutes(book, job, 0, 120) == [(0, 1, True), (60, 1, True)]
    book.zone(BERLIN, NOON)
    book.zone(BERLIN, NOON + HOUR, AHEAD)
    assert minutes(book, job, 0, 120) == [(0, 1, True), (60, 1, True)]


@pytest.mark.spec("S8", "protocol rule 5: every kind of schedule")
@pytest.mark.parametrize(
    "schedule",
    [
        cron("*/7 13-15 * * *", tz=BERLIN),
        cron("10 * * * *", tz=BERLIN, start="2027-01-15T14:30", end="2027-01-15T15:30"),
        every("11m", tz=BERLIN, start="2027-01-15T13:05", end="2027-01-15T16:00"),
        iso8601("R/2027-01-14T13:10/P1D", tz=BERLIN),
        iso8601("R/2027-01-15T13:10/PT25M", tz=BERLIN),
        excluding(every("9m"), Calendar("lunch", blackouts=[("2027-01-15T14:00", "2027-01-15T15:00")]), tz=BERLIN),
        excluding(cron("20 14 * * *", tz=TOKYO), Calendar("closed", dates=["2027-01-15"]), "next", tz=BERLIN),
        union(cron("5 * * * *", tz=BERLIN), cron("5 * * * *", tz=TOKYO), cron("35 * * * *")),
    ],
    ids=str,
)
def test_every_kind_of_schedule_has_its_old_instants_before_the_change_and_its_new_ones_after(
    schedule: Schedule,
) -> None:
    book, change = Book(), NOON + 95 * MINUTE
    book.zone(BERLIN, NOON)
    book.zone(TOKYO, NOON)
    job = book.job("job", schedule)
    book.zone(BERLIN, change, AHEAD, "2026b")
    new = {BERLIN: shifted(BERLIN, AHEAD)}
    end = NOON + 72 * HOUR
    before = schedule.between(NOON, change)
    after = schedule.between(change, end, lambda name: new.get(name) or packaged_zone(name))
    found = book.timeline.expected(NOON, end)
    assert not found.gaps
    assert [due.instant for due in found] == [round(at.timestamp()) * SECOND for at in before + after]
    assert [due.instant for due in book.timeline.expected(NOON, end, [job])] == [due.instant for due in found]


@pytest.mark.spec("S13", "zone data that does not change costs nothing")
def test_only_schedules_in_a_zone_that_changed_are_cut() -> None:
    book = ZoneBook()
    book = entered(book, OLD, {BERLIN, TOKYO}, 1)
    assert len(book.spans({BERLIN}, 0, 2 * NOON)) == 1
    book = book.extended(made(lacking_entries(ZoneBook(), NEW, [BERLIN], by="a", revision=None), 2, NOON + HOUR))
    spans = book.spans({BERLIN, "UTC"}, NOON, NOON + 2 * HOUR)
    assert [(span.start, span.end) for span in spans] == [(NOON, NOON + HOUR), (NOON + HOUR, NOON + 2 * HOUR)]
    assert [span.zones(BERLIN) for span in spans] == [packaged_zone(BERLIN), shifted(BERLIN, AHEAD)]
    assert [span.zones(TOKYO) for span in book.spans({TOKYO}, NOON, NOON + 2 * HOUR)] == [packaged_zone(TOKYO)]
    assert len(book.spans({BERLIN}, NOON + HOUR, NOON + 2 * HOUR)) == 1


# -- what can go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.spec("S7", "protocol rule 5: a zone that was never entered")
def test_a_job_in_a_zone_that_was_never_entered_has_a_gap_and_the_others_go_on() -> None:
    book = Book()
    book.zone(TOKYO, NOON)
    lost, fine = book.job("lost", cron("0 * * * *", tz=BERLIN)), book.job("fine", cron("0 * * * *", tz=TOKYO))
    found = book.timeline.expected(NOON, NOON + HOUR)
    assert [due.job for due in found] == [fine]
    assert [(gap.job, gap.reason) for gap in found.gaps] == [
        (lost, f"the store has no table of time zone '{BERLIN}'; start a node that knows it, and it enters one")
    ]
    with pytest.raises(UnknownZone, match="no table of time zone 'Europe/Berlin'"):
        book.timeline.next_run(lost, NOON)


@pytest.mark.spec("N1", "protocol rule 5: a zone that is newer than a node's zone data")
def test_a_stored_job_in_a_zone_that_this_program_has_never_heard_of_is_expected_by_the_stored_table() -> None:
    book = Book()
    schedule = cron("10 * * * *", tz=BERLIN)
    text = to_json(Definition(schedule={**schedule.to_json(), "tz": "Moon/Copernicus"})).decode()
    job = book.job("on the moon", schedule, body=text)
    zone = StoredZone.of(dataclasses.replace(shifted(BERLIN, AHEAD), name="Moon/Copernicus"), "2026b")
    book.enter(EntryKind.ZONE, 0, NOON, subject="Moon/Copernicus", body=to_json(zone).decode())
    assert minutes(book, job, 0, 120) == [(40, 1, True), (100, 1, True)]
    assert book.timeline.next_run(job, NOON) == NOON + 40 * MINUTE
    with pytest.raises(UnknownZone, match="Moon/Copernicus"):
        from_json({"cron": "10 * * * *", "tz": "Moon/Copernicus"})


def _broken(**changes: Any) -> str:
    return to_json(replace(StoredZone.of(packaged_zone(BERLIN), "2026b"), **changes)).decode()


@pytest.mark.spec("S7", "protocol rule 5: a table that cannot be read")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "missing required field"),
        (_broken(zone={"name": BERLIN, "starts": [1], "offsets": [2]}), "malformed"),
        (_broken(digest="0" * 64), "its digest is"),
        (_broken(release="yesterday's"), "is no release of zone data"),
        (to_json(StoredZone.of(packaged_zone(TOKYO), "2026b")).decode(), "it is the table of 'Asia/Tokyo'"),
    ],
)
def test_a_table_that_cannot_be_read_is_a_gap_from_its_entry_on_until_another_takes_its_place(
    body: str, message: str
) -> None:
    book = Book()
    book.zone(BERLIN, NOON)
    job, other = book.job("job", cron("0 * * * *", tz=BERLIN)), book.job("other", every("1h"))
    book.enter(EntryKind.ZONE, 0, NOON + HOUR, subject=BERLIN, body=body)
    found = book.timeline.expected(NOON, NOON + 3 * HOUR)
    assert [(due.job, (due.instant - NOON) // HOUR) for due in found] == [(job, 0), (other, 0), (other, 1), (other, 2)]
    (gap,) = found.gaps
    assert (gap.job, gap.start, gap.end) == (job, NOON + HOUR, NOON + 3 * HOUR)
    assert message in gap.reason
    with pytest.raises(RecordError, match="the table of zone 'Europe/Berlin'"):
        book.timeline.next_run(job, NOON + HOUR)
    (healed,) = newer_entries(book.timeline.zones, OLD, (), by="a", revision=None)
    timeline = book.timeline.extended(made([healed], book.timeline.revision + 1, NOON + 2 * HOUR))
    found = timeline.expected(NOON, NOON + 3 * HOUR, [job])
    assert [(due.instant - NOON) // HOUR for due in found] == [0, 2]


# -- who enters what -------------------------------------------------------------------------------------------------


@pytest.mark.spec("N1", "protocol rule 5: only zones that are used")
def test_a_zone_is_entered_when_a_job_needs_it_and_only_once() -> None:
    book = ZoneBook()
    (entry,) = lacking_entries(book, OLD, ["UTC", BERLIN], by="anna", revision=7)
    assert (entry.job, entry.kind, entry.subject, entry.by, entry.revision) == ("", EntryKind.ZONE, BERLIN, "anna", 7)
    assert entry.reason == "zone data 2026a"
    book = book.extended(made([entry], 1))
    assert book.names == [BERLIN]
    assert lacking_entries(book, OLD, ["UTC", BERLIN], by="anna", revision=7) == []
    assert lacking_entries(book, NEW, [BERLIN], by="anna", revision=7) == [], "newer data is a matter of nodes"


@pytest.mark.spec("N1", "protocol rule 5: equal tables")
def test_newer_zone_data_that_says_the_same_of_a_zone_enters_nothing() -> None:
    book = entered(ZoneBook(), OLD, {BERLIN}, 1)
    assert newer_entries(book, ZoneData("2026b", packaged_zone), {BERLIN}, by="a", revision=1) == []
    assert newer_entries(book, OLD, {BERLIN}, by="a", revision=1) == []


@pytest.mark.spec("N1", "protocol rule 5: older zone data")
def test_a_node_with_older_zone_data_enters_nothing_so_that_two_nodes_do_not_take_turns() -> None:
    book = entered(ZoneBook(), OLD, {BERLIN, TOKYO}, 1)
    newer = newer_entries(book, ONLY_BERLIN, {BERLIN}, by="a", revision=1)
    assert [entry.subject for entry in newer] == [BERLIN]
    book = book.extended(made(newer, 2, NOON + HOUR))
    for _ in range(2):
        assert newer_entries(book, OLD, {BERLIN, TOKYO}, by="b", revision=2) == []
        assert newer_entries(book, ONLY_BERLIN, {BERLIN, TOKYO}, by="a", revision=2) == []
    assert outdated_names(book, OLD) == [BERLIN]
    assert outdated_names(book, ONLY_BERLIN) == []


@pytest.mark.spec("N1", "protocol rule 5: the same data, entered twice")
def test_two_nodes_that_bring_the_same_zone_data_make_the_same_request() -> None:
    book = entered(ZoneBook(), OLD, {BERLIN}, 1)
    (one,) = newer_entries(book, NEW, (), by="a", revision=1)
    (other,) = newer_entries(book, NEW, (), by="b", revision=1)
    assert one.request == other.request
    gone = book.extended(made([one], 2, NOON + HOUR))
    (back,) = newer_entries(gone, ZoneData("2026c", packaged_zone), (), by="a", revision=2)
    assert back.request not in (one.request, other.request), "what is brought back later is another one"


def test_a_node_whose_zone_data_lacks_a_zone_leaves_it_to_others() -> None:
    def nothing(name: str) -> Any:
        raise UnknownZone(name)

    book = entered(ZoneBook(), OLD, {BERLIN}, 1)
    assert newer_entries(book, ZoneData("2026b", nothing), {TOKYO}, by="a", revision=1) == []
    assert outdated_names(book, ZoneData("2025c", nothing)) == [BERLIN]
    with pytest.raises(UnknownZone):
        lacking_entries(book, ZoneData("2026b", nothing), [TOKYO], by="a", revision=1)


def test_releases_are_ordered_as_iana_names_them() -> None:
    assert ZoneData("2026b", packaged_zone).is_newer_than("2026a")
    assert ZoneData("2026a", packaged_zone).is_newer_than("2025z")
    assert ZoneData("2026za", packaged_zone).is_newer_than("2026z")
    assert not OLD.is_newer_than("2026a")
    assert packaged_zone_data().is_newer_than("2020a")
    with pytest.raises(ScheduleError, match=r"'2026\.1' is no release of zone data"):
        ZoneData("2026.1", packaged_zone)


# -- what was claimed ahead ------------------------------------------------------------------------------------------


@pytest.mark.spec("R7", "protocol rule 5: claimed ahead, and gone by new zone data")
def test_what_was_claimed_ahead_and_is_not_due_by_the_new_table_is_withdrawn_and_comes_back_with_it() -> None:
    book, shelf = Book(), Shelf()
    book.zone(BERLIN, NOON)
    book.zone(TOKYO, NOON)
    moved = book.job("moved", cron("0 15 * * *", tz=BERLIN))
    stays, other = book.job("stays", cron("*/30 * * * *", tz=BERLIN)), book.job("other", cron("0 * * * *", tz=TOKYO))
    change, instant = NOON + 2 * HOUR - 5 * SECOND, NOON + 2 * HOUR
    for job in (moved, stays, other):
        shelf.put(scheduled(job, instant), OccurrenceState.PRERUN)
    shelf.put(scheduled(moved, change - 60 * SECOND), OccurrenceState.PRERUN)
    timeline = book.timeline
    changed = newer_entries(timeline.zones, ONLY_BERLIN, (), by="a", revision=timeline.revision)
    entries = made(changed, timeline.revision + 1, change)
    (verdict,) = judge_by(timeline)(list(shelf.rows.values()), entries)
    row = shelf.rows[scheduled(moved, instant)]
    assert (verdict.ref, verdict.kind, verdict.version) == (row.ref, VerdictKind.WITHDRAW, 1)
    assert verdict.why == "version 1, by the zone data in force then, does not have this instant"
    withdrawn = replace(row, status=OccurrenceState.CANCELLED, is_withdrawn=True)
    timeline = timeline.extended(entries)
    back = newer_entries(timeline.zones, ZoneData("2026c", packaged_zone), (), by="a", revision=timeline.revision)
    (verdict,) = judge_by(timeline)([withdrawn], made(back, timeline.revision + 1, change))
    assert (verdict.kind, verdict.version) == (VerdictKind.RESTORE, 1)


@pytest.mark.spec("R7", "protocol rule 5: an update and its zone at once")
def test_an_update_that_brings_its_zone_is_judged_by_both() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("job", cron("0 * * * *"))
    instant = NOON + HOUR
    shelf.put(scheduled(job, instant), OccurrenceState.PRERUN)
    timeline = book.timeline
    zone = made(lacking_entries(timeline.zones, NEW, [BERLIN], by="a", revision=None), 2, NOON + 30 * MINUTE)
    book.version(job, cron("0 * * * *", tz=BERLIN), NOON + 30 * MINUTE)
    version = replace(book.entries[-1], revision=2, line=1)
    (verdict,) = judge_by(timeline)(list(shelf.rows.values()), [*zone, version])
    assert (verdict.kind, verdict.why) == (VerdictKind.WITHDRAW, "version 2 does not have this instant")


@pytest.mark.spec("S11", "survives a restart")
def test_new_zone_data_reaches_a_timeline_that_was_compiled_before() -> None:
    book = Book()
    book.zone(BERLIN, NOON)
    book.job("job", cron("10 * * * *", tz=BERLIN))
    grown, known = book.timeline, len(book.entries)
    assert len(grown.expected(NOON, NOON + 3 * HOUR)) == 3
    book.zone(BERLIN, NOON + HOUR, AHEAD, "2026b")
    grown = grown.extended(book.entries[known:])
    assert list(grown.expected(NOON, NOON + 4 * HOUR)) == list(book.timeline.expected(NOON, NOON + 4 * HOUR))
    assert Timeline.of(book.entries, book.jobs.values()).zones_needed(NOON) == {BERLIN}
