"""The timeline read as history: stretches, what is expected in them, and many jobs at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary.core.timeline.expected import Due
from itinerary.core.timeline.history import JobActive, JobPaused, JobRemoved, JobStopped
from itinerary.errors import RecordError, WindowError
from itinerary.model.rows import EntryKind, JobNumber
from itinerary.schedules import cron, custom, every, excluding, once
from tests.unit.core.timelines import (
    HOUR,
    MINUTE,
    MINUTELY,
    NOON,
    SECOND,
    Book,
    Stubborn,
    install_stubborn,
    minutes,
    standings,
)

# -- stretches -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S11", "pause")
def test_a_pause_is_history_and_not_a_flag() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.pause(job, NOON + 10 * MINUTE, reason="migration")
    book.resume(job, NOON + 20 * MINUTE)
    found = book.timeline.segments(job, NOON, NOON + HOUR)
    assert standings(found) == [(0, 10, 1, "active"), (10, 20, 1, "paused"), (20, 60, 1, "active")]
    assert found[1].status == JobPaused("anna", NOON + 10 * MINUTE, "migration")
    assert str(found[1].status) == "paused by anna since 2027-01-15T12:10:00Z: migration"


@pytest.mark.spec("S11", "repeating has no effect")
def test_repeating_a_pause_a_stop_a_resume_or_a_start_has_no_effect() -> None:
    once_only, repeated = Book(), Book()
    for book in (once_only, repeated):
        book.job("backup", MINUTELY)
    job = JobNumber(1)
    steps = (("pause", 10), ("resume", 20), ("stop", 30), ("start", 40))
    for what, at in steps:
        getattr(once_only, what)(job, NOON + at * MINUTE)
        getattr(repeated, what)(job, NOON + at * MINUTE)
        getattr(repeated, what)(job, NOON + (at + 5) * MINUTE)
    assert repeated.timeline.history(job) == once_only.timeline.history(job)
    assert standings(repeated.timeline.segments(job, NOON, NOON + HOUR)) == [
        (0, 10, 1, "active"),
        (10, 20, 1, "paused"),
        (20, 30, 1, "active"),
        (30, 40, 1, "stopped"),
        (40, 60, 1, "active"),
    ]


@pytest.mark.spec("S12", "pause until")
def test_a_pause_until_an_instant_ends_by_itself_and_a_later_pause_moves_its_end() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.pause(job, NOON + 10 * MINUTE, until=NOON + 20 * MINUTE)
    book.pause(job, NOON + 30 * MINUTE, until=NOON + 40 * MINUTE, by="ben")
    book.pause(job, NOON + 35 * MINUTE, until=NOON + 50 * MINUTE)
    found = book.timeline.segments(job, NOON, NOON + HOUR)
    assert standings(found) == [
        (0, 10, 1, "active"),
        (10, 20, 1, "paused"),
        (20, 30, 1, "active"),
        (30, 35, 1, "paused"),
        (35, 50, 1, "paused"),
        (50, 60, 1, "active"),
    ]
    assert found[4].status == JobPaused("ben", NOON + 30 * MINUTE, None, NOON + 50 * MINUTE), "it is still ben's pause"
    book.pause(job, NOON + 60 * MINUTE, until=NOON + 60 * MINUTE)
    assert isinstance(book.timeline.segments(job, NOON + 61 * MINUTE, NOON + 62 * MINUTE)[0].status, JobActive)


@pytest.mark.spec("S11", "stop")
def test_what_is_stopped_and_paused_is_stopped_and_paused_again_when_it_is_started() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.pause(job, NOON + 10 * MINUTE)
    book.stop(job, NOON + 20 * MINUTE, reason="too slow")
    book.start(job, NOON + 30 * MINUTE)
    found = book.timeline.segments(job, NOON, NOON + 40 * MINUTE)
    assert standings(found)[1:] == [(10, 20, 1, "paused"), (20, 30, 1, "stopped"), (30, 40, 1, "paused")]
    assert found[2].status == JobStopped("anna", NOON + 20 * MINUTE, "too slow")
    assert [minute for minute, _, _ in minutes(book, job, 15, 35)] == [*range(15, 20), *range(30, 35)]


@pytest.mark.spec("R6", "superseded")
def test_a_new_version_supersedes_every_version_that_was_to_take_effect_then_or_later() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.version(job, every("10m"), NOON + 30 * MINUTE)
    book.version(job, every("20m"), NOON + 50 * MINUTE)
    book.version(job, every("2m"), NOON + 30 * MINUTE)
    assert standings(book.timeline.segments(job, NOON, NOON + HOUR)) == [(0, 30, 1, "active"), (30, 60, 4, "active")]
    assert minutes(book, job, 28, 34) == [(28, 1, True), (29, 1, True), (30, 4, True), (32, 4, True)]


@pytest.mark.spec("D10")
def test_a_removed_job_expects_nothing_until_a_later_version_brings_it_back() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.pause(job, NOON + 5 * MINUTE)
    book.version(job, every("5m"), NOON + 40 * MINUTE)
    book.remove(job, NOON + 10 * MINUTE)
    assert standings(book.timeline.segments(job, NOON, NOON + HOUR))[2:] == [(10, 60, 1, "removed")], (
        "an update that was planned before the removal does not bring it back"
    )
    book.version(job, every("2m"), NOON + 20 * MINUTE)
    found = book.timeline.segments(job, NOON, NOON + HOUR)
    assert standings(found)[2:] == [(10, 20, 1, "removed"), (20, 60, 3, "active")], "nor is it paused any more"
    assert isinstance(found[2].status, JobRemoved)
    assert minutes(book, job, 8, 24) == [(8, 1, False), (9, 1, False), (20, 3, True), (22, 3, True)]


@pytest.mark.spec("R6", "at once")
def test_of_entries_that_act_from_one_instant_the_later_has_the_last_word() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.remove(job, NOON + 10 * MINUTE)
    book.version(job, every("2m"), NOON + 10 * MINUTE)
    book.pause(job, NOON + 20 * MINUTE)
    book.resume(job, NOON + 20 * MINUTE)
    assert standings(book.timeline.segments(job, NOON, NOON + HOUR)) == [(0, 10, 1, "active"), (10, 60, 2, "active")]


@pytest.mark.spec("S11", "in force")
def test_nothing_is_in_force_before_the_first_version_and_bounds_are_half_open() -> None:
    book = Book()
    job = book.job("backup", MINUTELY, at=NOON + 10 * MINUTE)
    book.pause(job, NOON + 20 * MINUTE)
    timeline = book.timeline
    assert timeline.in_force(job, NOON + 10 * MINUTE - 1) is None
    first, second = timeline.in_force(job, NOON + 10 * MINUTE), timeline.in_force(job, NOON + 20 * MINUTE)
    assert first is not None
    assert second is not None
    assert (first.start, first.end, second.start) == (NOON + 10 * MINUTE, NOON + 20 * MINUTE, NOON + 20 * MINUTE)
    assert timeline.in_force(job, NOON + 20 * MINUTE - 1) == first
    assert first.definition.schedule == {"every": "1m"}
    assert minutes(book, job, 0, 12) == [(10, 1, True), (11, 1, True)]


# -- what is expected ------------------------------------------------------------------------------------------------


@pytest.mark.spec("S11", "paused instants are skipped")
def test_paused_instants_are_skipped_with_who_and_why_and_stopped_ones_are_not_expected() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.pause(job, NOON + 2 * MINUTE, until=NOON + 4 * MINUTE, reason="migration")
    book.stop(job, NOON + 5 * MINUTE)
    found = list(book.timeline.expected(NOON, NOON + HOUR, [job]))
    assert [(due.instant - NOON) // MINUTE for due in found] == [0, 1, 2, 3, 4]
    assert [due.skipped for due in found] == [
        None,
        None,
        *["paused by anna since 2027-01-15T12:02:00Z: migration"] * 2,
        None,
    ]


@pytest.mark.spec("S12", "skip one")
def test_one_named_instant_is_skipped_with_who_and_why() -> None:
    book = Book()
    job, other = book.job("backup", MINUTELY), book.job("report", MINUTELY)
    book.skip(job, NOON + MINUTE, reason="holiday")
    book.skip(job, NOON + MINUTE, by="ben", reason="again")
    book.skip(job, NOON + 90 * SECOND)
    book.skip(job, NOON + 2 * MINUTE, at=NOON + 3 * MINUTE)
    found = list(book.timeline.expected(NOON, NOON + 3 * MINUTE))
    assert found == [
        Due(job, NOON, 1),
        Due(job, NOON + MINUTE, 1, "skipped by anna: holiday"),
        Due(job, NOON + 2 * MINUTE, 1),
        *(Due(other, NOON + n * MINUTE, 1) for n in range(3)),
    ], "what is asked for too late, or names no instant, changes nothing"


@pytest.mark.spec("S12", "skip one")
def test_an_instant_that_is_skipped_by_name_inside_a_pause_is_skipped_by_the_pause() -> None:
    book = Book()
    job = book.job("backup", MINUTELY)
    book.skip(job, NOON + MINUTE, reason="holiday")
    book.pause(job, NOON + MINUTE)
    found = book.timeline.expected(NOON, NOON + 3 * MINUTE)
    assert [due.skipped for due in found] == [None, *["paused by anna since 2027-01-15T12:01:00Z"] * 2]


@pytest.mark.spec("S5", "sweep")
@pytest.mark.spec("S1", "reboot")
def test_a_single_instant_is_expected_once_and_reboot_never() -> None:
    book = Book()
    single = book.job("fireworks", once("2027-01-15T12:07:00Z"))
    reboot = book.job("greeting", cron("@reboot"))
    assert minutes(book, single, 0, 600) == [(7, 1, True)]
    assert minutes(book, reboot, 0, 600) == []
    assert [listed.job.number for listed in book.timeline.catalogue(NOON).jobs] == [single, reboot]


@pytest.mark.spec("S7", "quarantine")
@pytest.mark.spec("I3", "left out")
def test_a_job_that_cannot_be_enumerated_has_a_gap_with_the_reason_and_the_others_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_stubborn(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    book = Book()
    good = book.job("good", MINUTELY)
    book.job("no json", MINUTELY, body="{")
    book.job("no schedule", MINUTELY, body="{}")
    book.job("no name yet", cron("H * * * *"))
    book.job("no calendar", excluding(MINUTELY, "holidays"))
    stuck = book.job("stuck", custom(Stubborn()))
    later = book.job("bad later", MINUTELY)
    book.version(later, MINUTELY, NOON + 2 * MINUTE, body='{"schedule":{"every":"0s"}}')
    paused = book.job("bad pause", MINUTELY)
    book.enter(EntryKind.PAUSE, paused, NOON + MINUTE, body='{"till":1}')
    skipped = book.job("bad skip", MINUTELY)
    book.enter(EntryKind.SKIP, skipped, NOON + MINUTE, subject="noon")
    stopped = book.job("stopped and bad", MINUTELY, body="{}")
    book.stop(stopped, NOON)
    found = book.timeline.expected(NOON, NOON + 3 * MINUTE)
    assert [(due.job, (due.instant - NOON) // MINUTE) for due in found] == [
        *((good, n) for n in range(3)),
        *((later, n) for n in range(2)),
    ]
    gaps = {gap.job: gap for gap in found.gaps}
    assert sorted(gaps) == [2, 3, 4, 5, stuck, later, paused, skipped], (
        "what is stopped expects nothing, readable or not"
    )
    assert "not a stored" in gaps[JobNumber(2)].reason
    assert "schedule" in gaps[JobNumber(3)].reason
    assert "not complete" in gaps[JobNumber(4)].reason
    assert "'holidays'" in gaps[JobNumber(5)].reason
    assert "'stubborn'" in gaps[stuck].reason
    assert (gaps[later].start, gaps[later].end, gaps[later].version) == (NOON + 2 * MINUTE, NOON + 3 * MINUTE, 2)
    assert "till" in gaps[paused].reason
    assert "'noon'" in gaps[skipped].reason
    assert [rejected.job for rejected in book.timeline.catalogue(NOON).rejected] == ["bad pause", "bad skip"]
    with pytest.raises(RecordError, match="till"):
        book.timeline.in_force(paused, NOON)


@pytest.mark.spec("Q4", "window")
def test_more_instants_than_one_call_returns_are_refused() -> None:
    book = Book()
    book.job("busy", every("1s"))
    with pytest.raises(WindowError, match="more than 10,000,000 instants"):
        book.timeline.expected(NOON, NOON + 10_000_001 * SECOND)
    assert len(book.timeline.expected(NOON, NOON - SECOND)) == 0


@pytest.mark.spec("S11", "next_run")
def test_the_next_run_is_the_next_instant_that_will_not_be_skipped() -> None:
    book = Book()
    job = book.job("backup", every("10m"))
    book.skip(job, NOON + 10 * MINUTE)
    book.pause(job, NOON + 20 * MINUTE, until=NOON + 40 * MINUTE)
    book.version(job, every("15m"), NOON + 50 * MINUTE)
    book.stop(job, NOON + 2 * HOUR)
    timeline = book.timeline
    asked = [-60 * MINUTE, -1, 0, 1, 10 * MINUTE, 40 * MINUTE - 1, 40 * MINUTE, 105 * MINUTE - 1]
    found = [timeline.next_run(job, NOON + after) for after in asked]
    assert [None if at is None else (at - NOON) // MINUTE for at in found] == [0, 0, 40, 40, 40, 40, 60, 105]
    assert timeline.next_run(job, NOON + 105 * MINUTE) is None, "it will be stopped by then"
    single = book.job("fireworks", once("2027-01-15T12:07:00Z"))
    assert book.timeline.next_run(single, NOON) == NOON + 7 * MINUTE
    assert book.timeline.next_run(single, NOON + 7 * MINUTE) is None, "it has fired, and is finished"


@pytest.mark.spec("S11", "next_run")
def test_the_next_instant_of_a_paused_job_is_that_of_its_schedule_and_a_stopped_one_has_none() -> None:
    book = Book()
    job = book.job("backup", every("10m"))
    book.pause(job, NOON - 5 * MINUTE)
    book.skip(job, NOON)
    assert (book.timeline.next_run(job, NOON - MINUTE), book.timeline.next_instant(job, NOON - MINUTE)) == (
        None,
        NOON + 10 * MINUTE,
    )
    ending = book.job("ending", every("10m"))
    book.pause(ending, NOON - 5 * MINUTE, until=NOON + 25 * MINUTE)
    assert book.timeline.next_instant(ending, NOON) == NOON + 30 * MINUTE, "the first one after the pause"
    book.stop(job, NOON)
    assert book.timeline.next_instant(job, NOON) is None
    assert not book.timeline.is_finished(job, NOON), "the schedule goes on"


@pytest.mark.spec("S5", "finished")
def test_a_job_is_finished_when_no_instant_is_left_and_one_of_each_start_never_is() -> None:
    book = Book()
    single = book.job("fireworks", once("2027-01-15T12:07:00Z"))
    paused = book.job("paused", once("2027-01-15T12:07:00Z"))
    book.pause(paused, NOON)
    boot = book.job("boot", cron("@reboot"))
    asked = [(job, NOON + after * MINUTE) for job in (single, paused, boot) for after in (6, 7)]
    assert [book.timeline.is_finished(*one) for one in asked] == [False, True, False, True, False, False]
