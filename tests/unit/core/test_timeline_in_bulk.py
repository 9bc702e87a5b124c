"""The timeline of many jobs: what all of them expect is what each of them does, however it was read."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core.timeline import timeline as timeline_module
from itinerary.core.timeline.definitions import read_schedule
from itinerary.core.timeline.expected import Due, Expected
from itinerary.core.timeline.history import FOREVER, JobPaused, JobRemoved
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import StoredZone
from itinerary.errors import RecordError
from itinerary.model.codec import from_json
from itinerary.model.rows import EntryKind, EntryRow, JobNumber
from itinerary.schedules import (
    Calendar,
    Schedule,
    Zone,
    ZoneSource,
    cron,
    every,
    excluding,
    iso8601,
    once,
    packaged_zone,
    union,
)
from itinerary.schedules.instants import from_seconds
from tests.unit.core.timelines import HOUR, MINUTE, MINUTELY, NOON, SECOND, Book, minutes

BERLIN = "Europe/Berlin"
LUNCH = ("2027-01-15T13:10", "2027-01-15T13:40")
SCHEDULES: list[Schedule] = [
    MINUTELY,
    every("7m"),
    cron("*/5 * * * *"),
    cron("*/4 13 * * *", tz=BERLIN),
    iso8601("R/2027-01-15T12:00Z/PT11M"),
    once("2027-01-15T12:25:00Z"),
    once("2027-01-15T13:25:00", tz=BERLIN),
    union(cron("7 * * * *", tz=BERLIN), excluding(every("6m"), Calendar("lunch", blackouts=[LUNCH]), tz=BERLIN)),
    cron("@reboot"),
]
AT = st.integers(0, 60).map(lambda minute: NOON + minute * MINUTE)
WHAT = st.sampled_from(["version", "pause", "until", "resume", "stop", "start", "remove", "skip", "zone"])
Event: TypeAlias = tuple[int, str, int, int, Schedule]
EVENTS = st.lists(st.tuples(st.integers(1, 4), WHAT, AT, AT, st.sampled_from(SCHEDULES)), max_size=24)


def booked(events: list[Event]) -> Book:
    book = Book()
    book.zone(BERLIN, NOON)
    for number, schedule in enumerate(SCHEDULES[:4], 1):
        book.job(f"job {number}", schedule, at=NOON + number * MINUTE)
    for number, what, at, other, schedule in events:
        job = JobNumber(number)
        match what:
            case "version":
                book.version(job, schedule, at)
            case "until":
                book.pause(job, at, until=other)
            case "skip":
                book.skip(job, other, at)
            case "zone":
                book.zone(BERLIN, at, shifted_by=(other - NOON) // SECOND - 1_800)
            case _:
                getattr(book, what)(job, at)
    return book


def naive(book: Book, job: JobNumber, start: int, end: int) -> list[Due]:
    """Second by second, by the rules as they are told, with nothing remembered from one second to the next."""
    entries = [entry for entry in book.entries if entry.job == job]
    found = []
    for second in range(-(-start // SECOND), -(-end // SECOND)):
        version, is_removed, is_stopped, paused = naive_standing(entries, second * SECOND)
        if version is None or is_removed or is_stopped:
            continue
        if read_schedule(version.body).next_second(second - 1, naive_zones(book, second * SECOND)) != second:
            continue
        skips = [entry for entry in entries if entry.kind is EntryKind.SKIP and entry.subject == str(second * SECOND)]
        by_name = any(entry.effective_from <= second * SECOND for entry in skips)
        found.append(Due(job, second * SECOND, version.version, paused or ("skipped by anna" if by_name else None)))
    return found


def naive_zones(book: Book, instant: int) -> ZoneSource:
    """The last of the tables that have begun by then; before the first one, the first."""
    entries = [entry for entry in book.entries if entry.kind is EntryKind.ZONE]
    status = [
        entry
        for entry in entries
        if not any(
            later.revision > entry.revision and later.effective_from <= entry.effective_from for later in entries
        )
    ]
    begun = [entry for entry in status if entry.effective_from <= instant] or status[:1]
    zone = table(begun[-1].body or "")
    return lambda name: zone if name == BERLIN else packaged_zone(name)


@cache
def table(body: str) -> Zone:
    return Zone.from_json(from_json(StoredZone, body).zone)


def naive_standing(entries: list[EntryRow], instant: int) -> tuple[EntryRow | None, bool, bool, str | None]:
    """The version in force, whether it is removed, whether it is stopped, and the words of its pause."""
    acting = sorted(
        (entry for entry in entries if entry.effective_from <= instant),
        key=lambda entry: (entry.effective_from, entry.revision),
    )
    version, is_removed, is_stopped, paused, until = None, False, False, None, FOREVER
    for entry in acting:
        if until <= entry.effective_from:
            paused, until = None, FOREVER
        if entry.kind is EntryKind.VERSION and not any(
            later.kind in (EntryKind.VERSION, EntryKind.REMOVE)
            and later.revision > entry.revision
            and later.effective_from <= entry.effective_from
            for later in entries
        ):
            version, is_removed = entry, False
        elif entry.kind is EntryKind.REMOVE:
            is_removed, is_stopped, paused, until = True, False, None, FOREVER
        elif entry.kind in (EntryKind.STOP, EntryKind.START):
            is_stopped = entry.kind is EntryKind.STOP
        elif entry.kind is EntryKind.RESUME:
            paused, until = None, FOREVER
        elif entry.kind is EntryKind.PAUSE:
            since = from_seconds(entry.effective_from // SECOND).strftime("%Y-%m-%dT%H:%M:%SZ")
            paused = paused or f"paused by anna since {since}"
            until = int(entry.body[9:-1]) if entry.body else FOREVER
    return version, is_removed, is_stopped, None if until <= instant else paused


@pytest.mark.spec("S11", "next_run")
@given(st.data())
def test_the_next_run_is_the_first_that_is_expected_to_run(data: st.DataObject) -> None:
    book, after = booked(data.draw(EVENTS)), data.draw(AT)
    for job in book.jobs:
        ahead = book.timeline.expected(after + 1, NOON + 2 * HOUR, [job])
        found = book.timeline.next_run(job, after)
        expected = next((due.instant for due in ahead if due.skipped is None), None)
        assert (found if found is not None and found < NOON + 2 * HOUR else None) == expected


@pytest.mark.spec("S13", "timeline and zone data")
@given(EVENTS, AT, st.integers(0, 20))
def test_what_many_jobs_expect_is_what_each_of_them_expects(events: list[Event], start: int, length: int) -> None:
    book, end = booked(events), start + length * MINUTE
    together = list(book.timeline.expected(start, end))
    assert together == [due for job in sorted(book.jobs) for due in naive(book, job, start, end)]
    assert together == [due for job in sorted(book.jobs) for due in book.timeline.expected(start, end, [job])]


@pytest.mark.spec("S11", "survives a restart")
@given(EVENTS, st.integers(0, 24), AT)
def test_a_timeline_that_grew_answers_like_one_that_was_read_at_once(events: list[Event], cut: int, start: int) -> None:
    book = booked(events)
    revision = 5 + cut
    grown = Timeline.of([entry for entry in book.entries if entry.revision <= revision], book.jobs.values())
    before = list(grown.expected(NOON, NOON + HOUR))
    for entry in book.entries[revision:]:
        longer = grown.extended([entry])
        assert longer.revision == entry.revision
        longer.expected(start, start + MINUTE)
        grown = longer
    assert list(grown.expected(NOON, NOON + HOUR)) == list(book.timeline.expected(NOON, NOON + HOUR))
    assert list(grown.expected(start, NOON + HOUR)) == list(book.timeline.expected(start, NOON + HOUR))
    assert grown.catalogue(start) == book.timeline.catalogue(start)
    shorter = Timeline.of([entry for entry in book.entries if entry.revision <= revision], book.jobs.values())
    assert before == list(shorter.expected(NOON, NOON + HOUR)), "and the one that it grew from did not change"


@pytest.mark.spec("S11", "survives a restart")
def test_many_changes_are_compiled_together_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "_CHANGED_MAX", 2)
    book = Book()
    jobs = [book.job(f"job {n}", MINUTELY) for n in range(5)]
    grown, known = book.timeline, len(book.entries)
    grown.expected(NOON, NOON + MINUTE)
    for number, job in enumerate(jobs, 1):
        book.stop(job, NOON + number * MINUTE)
        grown, known = grown.extended(book.entries[known:]), len(book.entries)
        assert list(grown.expected(NOON, NOON + HOUR)) == list(book.timeline.expected(NOON, NOON + HOUR))
    assert len(grown.expected(NOON, NOON + HOUR)) == 1 + 2 + 3 + 4 + 5


@pytest.mark.spec("U6", "long ago")
def test_what_was_expected_long_before_the_first_window_is_still_known() -> None:
    book = Book()
    long_ago = NOON - 30 * 24 * HOUR
    job = book.job("backup", every("1h"), at=long_ago)
    book.version(job, every("30m"), NOON - HOUR)
    timeline = book.timeline
    assert len(timeline.expected(NOON, NOON + HOUR)) == 2
    assert [due.version for due in timeline.expected(long_ago, long_ago + 3 * HOUR)] == [1, 1, 1]
    assert len(timeline.expected(NOON, NOON + HOUR)) == 2


@pytest.mark.spec("I3", "a later version")
def test_a_version_that_takes_effect_later_shows_its_instants_after_that() -> None:
    book = Book()
    job = book.job("backup", every("2m"))
    book.version(job, every("3m"), NOON + 5 * MINUTE)
    assert minutes(book, job, 0, 10) == [(0, 1, True), (2, 1, True), (4, 1, True), (6, 2, True), (9, 2, True)]
    assert minutes(book, job, 0, 10) == [
        ((due.instant - NOON) // MINUTE, due.version, True) for due in book.timeline.expected(NOON, NOON + 10 * MINUTE)
    ]


@given(EVENTS, st.lists(st.tuples(AT, st.integers(0, 40)), min_size=1, max_size=12))
def test_who_asks_for_one_window_after_another_is_told_the_same_whatever_was_asked_before(
    events: list[Event], windows: list[tuple[int, int]]
) -> None:
    timeline = booked(events).timeline
    for start, seconds in [*windows, *sorted(windows)]:
        asked = (start + seconds * SECOND, start + 3 * seconds * SECOND)
        found, expected = timeline.expected_next(*asked), timeline.expected(*asked)
        assert (found.start, found.end, found.gaps) == (expected.start, expected.end, expected.gaps)
        assert list(found) == list(expected)


def test_what_is_looked_for_ahead_is_bounded_by_the_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "_AHEAD_SECONDS", 240)
    book = Book()
    for name in ("a", "b"):
        book.job(name, MINUTELY)
    asked: list[int] = []
    timeline, real = book.timeline, Timeline.expected

    def expected(self: Timeline, start: int, end: int) -> Expected:
        asked.append((end - start) // SECOND)
        return real(self, start, end)

    monkeypatch.setattr(Timeline, "expected", expected)
    for second in range(0, 120, 10):
        timeline.expected_next(NOON + second * SECOND, NOON + (second + 10) * SECOND)
    assert asked == [120], "of two jobs two minutes are 240 seconds, and twelve windows of ten seconds"
    timeline.expected_next(NOON, NOON + 100 * SECOND)
    timeline.expected_next(NOON + 60 * SECOND, NOON + 180 * SECOND)
    assert asked == [120, 120], "a window that is too long is answered as it is"


@pytest.mark.spec("S11", "a gap")
def test_a_schedule_that_misbehaves_later_makes_no_gap_before(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book()
    book.job("nonsense", MINUTELY, at=NOON + HOUR, body='{"schedule": {"cron": "61 * * * *"}}')
    steady = book.job("steady", MINUTELY)
    timeline = book.timeline
    found = timeline.expected_next(NOON + 55 * MINUTE, NOON + 57 * MINUTE)
    assert [due.job for due in found] == [steady, steady]
    assert found.gaps == ()
    (gap,) = timeline.expected_next(NOON + 59 * MINUTE, NOON + 61 * MINUTE).gaps
    assert (gap.start, gap.end) == (NOON + HOUR, NOON + 61 * MINUTE)


@pytest.mark.spec("S11", "catalogue")
def test_the_catalogue_lists_who_has_a_version_now_or_later() -> None:
    book = Book()
    now = NOON + 30 * MINUTE
    steady, gone = book.job("steady", MINUTELY), book.job("gone", MINUTELY)
    back, ahead = book.job("back", MINUTELY), book.job("ahead", MINUTELY, at=NOON + HOUR)
    book.remove(gone, NOON + MINUTE)
    book.remove(back, NOON + MINUTE)
    book.version(back, every("5m"), NOON + HOUR)
    book.pause(steady, NOON + MINUTE)
    book.version(steady, every("9m"), NOON + 2 * HOUR)
    listed = {one.job.number: one for one in book.timeline.catalogue(now).jobs}
    assert sorted(listed) == [steady, back, ahead]
    assert listed[steady].version == 2
    assert listed[steady].definition.schedule == {"every": "9m"}
    assert listed[steady].schedule == every("9m")
    assert isinstance(listed[steady].status, JobPaused)
    assert isinstance(listed[back].status, JobRemoved)
    assert listed[ahead].status is None
    assert book.timeline.definition(steady, 1).schedule == {"every": "1m"}
    assert book.timeline.schedule(steady, 2) == every("9m")
    with pytest.raises(RecordError, match="no version 3"):
        book.timeline.definition(steady, 3)


def test_entries_are_only_ever_appended_and_their_jobs_are_known() -> None:
    book = Book()
    book.job("backup", MINUTELY)
    with pytest.raises(AssertionError, match="appended"):
        book.timeline.extended(book.entries)
    with pytest.raises(AssertionError, match="read after their entries"):
        Timeline.of(book.entries, [])


def test_the_columns_are_in_order_and_say_which_are_to_run() -> None:
    book = Book()
    job, other = book.job("backup", MINUTELY), book.job("report", every("2m"))
    book.pause(job, NOON + MINUTE)
    found = book.timeline.expected(NOON, NOON + 3 * MINUTE)
    assert found.jobs.tolist() == [job, job, job, other, other]
    assert found.is_to_run.tolist() == [True, False, False, True, True]
    assert np.diff(found.instants[:3]).tolist() == [MINUTE, MINUTE]
    assert found.due(0) == Due(job, NOON, 1)
    assert [found.due(place) for place in range(len(found))] == list(found)
    assert from_seconds(int(found.instants[0]) // SECOND).hour == 12
