"""The audit: what is lost, doubled, unexpected or unknown, and that it agrees with a check of one instant at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core.recovery.audit import LISTED_MAX, AuditReport, audit, excused
from itinerary.core.recovery.match import GAP
from itinerary.core.timeline.expected import Due, Expected
from itinerary.model.ids import job_id, occurrence_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import JobNumber, Key
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from tests.unit.core.timelines import HOUR, MINUTE, NOON, SECOND, Book, Shelf, scheduled

S = OccurrenceState
JOB, OTHER = JobNumber(1), JobNumber(2)


def minutely(minutes: int = 10) -> Expected:
    """Two jobs, each due every minute from noon on."""
    book = Book()
    book.job("backup", every("1m"))
    book.job("report", every("1m"))
    return book.timeline.expected(NOON, NOON + minutes * MINUTE)


def full_shelf(expected: Expected, *without: tuple[JobNumber, int]) -> Shelf:
    """A row for each expected instant but these, in minutes after noon."""
    shelf = Shelf()
    for due in expected:
        if (due.job, (due.instant - NOON) // MINUTE) not in without:
            shelf.put(scheduled(due.job, due.instant))
    return shelf


def audited(expected: Expected, shelf: Shelf, floors: dict[JobNumber, int] | None = None) -> AuditReport:
    return audit(expected, shelf.decided(expected.start, expected.end), shelf.windows(expected.start), floors or {})


def told(dues: tuple[Due, ...]) -> list[tuple[int, int]]:
    return [(due.job, (due.instant - NOON) // MINUTE) for due in dues]


@pytest.mark.spec("U6", "clean")
def test_a_row_for_each_instant_is_a_clean_audit() -> None:
    expected = minutely()
    report = audited(expected, full_shelf(expected))
    assert report.is_clean
    assert (report.expected, report.matched, report.unexpected) == (20, 20, ())
    assert (report.start, report.end) == (NOON, NOON + 10 * MINUTE)


@pytest.mark.spec("U6", "lost")
def test_an_instant_without_a_row_is_lost_and_named() -> None:
    expected = minutely()
    report = audited(expected, full_shelf(expected, (JOB, 3), (OTHER, 9)))
    assert not report.is_clean
    assert (report.lost_count, report.matched) == (2, 18)
    assert told(report.lost) == [(JOB, 3), (OTHER, 9)]


@pytest.mark.spec("U6", "kinds")
def test_triggers_replays_and_backfills_answer_for_nothing() -> None:
    expected = minutely()
    shelf = full_shelf(expected, (JOB, 3))
    at = NOON + 3 * MINUTE
    shelf.put(Key(at, JOB, Kind.TRIGGER, "by hand"))
    shelf.put(Key(at, JOB, Kind.BACKFILL))
    shelf.put(
        Key(at, JOB, Kind.REPLAY, f"{occurrence_id(job_id('backup'), at)}/1"), window=Window(NOON, at + SECOND, 4)
    )
    report = audited(expected, shelf)
    assert told(report.lost) == [(JOB, 3)]
    assert (report.doubled_count, report.unexpected) == (0, ())


@pytest.mark.spec("U6", "windows")
@pytest.mark.parametrize(("status", "at"), [(S.MISSED, 3), (S.SKIPPED, 3), (S.COMPLETED, 6)])
def test_instants_inside_one_stretch_or_compressed_window_are_answered_for(status: OccurrenceState, at: int) -> None:
    expected = minutely()
    shelf = full_shelf(expected, *((JOB, minute) for minute in range(3, 7)))
    window = Window(NOON + 3 * MINUTE, NOON + 6 * MINUTE + SECOND, 4)
    shelf.put(scheduled(JOB, NOON + at * MINUTE), status, window=window)
    report = audited(expected, shelf)
    assert report.is_clean
    assert report.matched == 20


@pytest.mark.spec("U6", "windows")
def test_a_window_that_reaches_out_of_what_is_audited_counts_inside_it() -> None:
    expected, shelf = minutely(), Shelf()
    for job, at in ((JOB, NOON - 5 * MINUTE), (OTHER, NOON + 50 * MINUTE)):
        shelf.put(scheduled(job, at), S.MISSED, window=Window(NOON - 5 * MINUTE, NOON + HOUR, 65))
    report = audited(expected, shelf)
    assert report.is_clean
    assert (report.matched, report.unexpected) == (20, ())


@pytest.mark.spec("U6", "doubled")
def test_a_row_inside_a_window_two_windows_and_two_rows_are_doubled() -> None:
    expected = minutely()
    shelf = full_shelf(expected, (JOB, 2), (JOB, 6), (JOB, 7), (JOB, 8))
    shelf.put(scheduled(JOB, NOON + 2 * MINUTE), S.MISSED, window=Window(NOON + 2 * MINUTE, NOON + 3 * MINUTE + 1, 2))
    shelf.put(scheduled(JOB, NOON + 6 * MINUTE), S.MISSED, window=Window(NOON + 6 * MINUTE, NOON + 7 * MINUTE + 1, 2))
    shelf.put(scheduled(JOB, NOON + 8 * MINUTE), S.PRERUN, window=Window(NOON + 7 * MINUTE, NOON + 8 * MINUTE + 1, 2))
    assert told(audited(expected, shelf).doubled) == [(JOB, 3), (JOB, 7)]
    keys = [*shelf.decided(NOON, NOON + HOUR), scheduled(OTHER, NOON)]
    report = audit(expected, keys, shelf.windows(NOON), {})
    assert told(report.doubled) == [(JOB, 3), (JOB, 7), (OTHER, 0)], "a store without a unique key"
    assert (report.doubled_count, report.is_clean) == (3, False)


@pytest.mark.spec("U6", "unexpected")
def test_a_row_that_no_version_in_force_explains_is_unexpected_unless_an_update_withdrew_it() -> None:
    expected = minutely()
    shelf = full_shelf(expected)
    strange = [scheduled(JOB, NOON + second * SECOND) for second in (1, 2, 3, 4)]
    shelf.put(strange[0])
    shelf.put(strange[1], S.CANCELLED, is_withdrawn=True)
    shelf.put(strange[2], S.CANCELLED)
    shelf.put(strange[3], S.CANCELLED, started_at=NOON)
    shelf.put(scheduled(JobNumber(9), NOON))
    report = audited(expected, shelf)
    assert sorted(report.unexpected) == [scheduled(JobNumber(9), NOON), *strange]
    assert report.is_clean, "nothing is lost, and nothing doubled"
    left = excused(report, shelf.rows)
    assert sorted(left.unexpected) == [scheduled(JobNumber(9), NOON), strange[0], strange[3]]


@pytest.mark.spec("U6", "unknown")
def test_what_lies_below_the_floor_of_its_history_is_unknown_and_never_lost() -> None:
    expected = minutely()
    shelf = full_shelf(expected, (JOB, 2), (JOB, 5), (OTHER, 2))
    report = audited(expected, shelf, {JOB: NOON + 5 * MINUTE})
    assert told(report.unknown) == [(JOB, 2)]
    assert told(report.lost) == [(JOB, 5), (OTHER, 2)]
    assert (report.unknown_count, report.matched) == (1, 17)


@pytest.mark.spec("U6", "gap")
def test_what_lies_in_a_gap_is_unknown_and_rows_inside_it_are_no_contradiction() -> None:
    expected = minutely()
    shelf = full_shelf(expected, (JOB, 3))
    gap = Window(NOON + 2 * MINUTE, NOON + 5 * MINUTE, 0)
    shelf.put(Key(NOON + 2 * MINUTE, JOB, Kind.SCHEDULED, GAP), S.MISSED, window=gap)
    report = audited(expected, shelf)
    assert report.is_clean
    assert (told(report.unknown), report.unexpected) == ([(JOB, 3)], ())
    alone = audit(minutely(1), [Key(NOON, JOB, Kind.SCHEDULED, GAP)], [], {})
    assert told(alone.lost) == [(JOB, 0), (OTHER, 0)], "the key of a gap is not that of an occurrence"


@pytest.mark.spec("U6", "gap")
def test_rows_of_a_job_that_cannot_be_enumerated_today_are_not_called_unexpected() -> None:
    book, shelf = Book(), Shelf()
    broken = book.job("broken", every("1m"), body="{}")
    shelf.put(scheduled(broken, NOON + MINUTE))
    shelf.put(scheduled(broken, NOON - MINUTE))
    expected = book.timeline.expected(NOON - HOUR, NOON + HOUR)
    report = audited(expected, shelf)
    assert report.unexpected == (scheduled(broken, NOON - MINUTE),), "before its first version nothing explains a row"
    assert [gap.job for gap in report.gaps] == [broken]


@pytest.mark.spec("U6", "bounded")
def test_counts_are_exact_and_lists_are_cut() -> None:
    book = Book()
    book.job("pulse", every("1s"))
    report = audit(book.timeline.expected(NOON, NOON + (LISTED_MAX + 5) * SECOND), [], [], {})
    assert (report.lost_count, len(report.lost)) == (LISTED_MAX + 5, LISTED_MAX)


@pytest.mark.spec("U6", "empty")
def test_nothing_expected_and_nothing_there_is_clean() -> None:
    expected = Book().timeline.expected(NOON, NOON + HOUR)
    report = audited(expected, Shelf())
    assert report.is_clean
    assert report.expected == 0
    shelf = Shelf()
    shelf.put(scheduled(JOB, NOON))
    assert audited(expected, shelf).unexpected == (scheduled(JOB, NOON),)


MINUTES = st.integers(-3, 12)
WINDOWS = st.lists(st.tuples(st.sampled_from([JOB, OTHER]), MINUTES, st.integers(1, 5), st.integers(0, 3)), max_size=6)


@pytest.mark.spec("U6", "each exactly once")
@given(
    st.lists(st.tuples(st.sampled_from([JOB, OTHER]), MINUTES, st.sampled_from([0, 1])), max_size=30), WINDOWS, MINUTES
)
def test_an_audit_agrees_with_a_look_at_one_instant_at_a_time(
    rows: list[tuple[JobNumber, int, int]], windows: list[tuple[JobNumber, int, int, int]], floor: int
) -> None:
    expected, shelf = minutely(), Shelf()
    for number, (job, minute, length, count) in enumerate(windows):
        start = NOON + minute * MINUTE
        key = Key(start, job, Kind.SCHEDULED, f"window {number}" if count else f"{GAP}")
        shelf.put(key, S.MISSED, window=Window(start, start + length * MINUTE, count))
    keys = [Key(NOON + minute * MINUTE + second * SECOND, job, Kind.SCHEDULED) for job, minute, second in rows]
    status = shelf.windows(NOON)
    report = audit(expected, shelf.decided(NOON, expected.end) + keys, status, {JOB: NOON + floor * MINUTE})
    wrong: dict[str, list[Due]] = {"lost": [], "doubled": [], "unknown": []}
    for due in expected:
        inside = [
            row.window.count
            for row in status
            if row.window is not None and row.job == due.job and row.window.start <= due.instant < row.window.end
        ]
        answers = keys.count(scheduled(due.job, due.instant)) + sum(1 for count in inside if count)
        is_unknown = 0 in inside or (due.job == JOB and due.instant < NOON + floor * MINUTE)
        if answers != 1:
            wrong["doubled" if answers else "unknown" if is_unknown else "lost"].append(due)
    assert (list(report.lost), list(report.doubled), list(report.unknown)) == (
        *(wrong["lost"], wrong["doubled"], wrong["unknown"]),
    )
    assert report.matched == 20 - sum(map(len, wrong.values()))
    assert sorted(report.unexpected) == sorted(
        key for key in keys if key.instant % MINUTE and NOON <= key.instant < expected.end
    )


@pytest.mark.spec("U6", "ids")
def test_what_is_matched_is_matched_by_the_id_that_d1_gives_it() -> None:
    expected = minutely(3)
    shelf = full_shelf(expected)
    names = {JOB: job_id("backup"), OTHER: job_id("report")}
    owed = {occurrence_id(names[due.job], due.instant) for due in expected}
    assert {key.id(names[key.job]) for key in shelf.rows} == owed
    assert np.unique(expected.jobs).tolist() == [JOB, OTHER]
    assert audited(expected, shelf).matched == len(owed)
