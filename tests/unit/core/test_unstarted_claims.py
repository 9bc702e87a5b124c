"""What was claimed before an outage and has not started is recovered with what has no row (R1, protocol rule 17)."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core.recovery.audit import audit
from itinerary.core.recovery.strategies import STRETCH_MIN
from itinerary.core.recovery.unstarted_claims import is_overlooked
from itinerary.model.occurrence import Kind, Window
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap, Recovery, RecoveryPolicy
from itinerary.model.reasons import lacks_share, unsure_of
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from tests.unit.core.timelines import HOUR, MINUTE, NOON, SECOND, Book, Shelf, scheduled

S = OccurrenceState


def claimed(shelf: Shelf, job: JobNumber, *minutes: int, **values: object) -> None:
    for minute in minutes:
        shelf.put(scheduled(job, NOON + minute * MINUTE), S.PRERUN, **values)


def told(shelf: Shelf, job: JobNumber) -> list[tuple[int, str, bool]]:
    """The rows of a job: minutes after noon, status, and whether it is a recovery."""
    return [((row.instant - NOON) // MINUTE, str(row.status), row.is_recovery) for row in shelf.of(job)]


def made(strategy: Recovery, overlap: Overlap = Overlap.SKIP, **bounds: Any) -> tuple[Book, JobNumber]:
    book = Book()
    policy = RecoveryPolicy(strategy, **bounds)
    return book, book.job("tick", every("1m"), overrides=Overrides(recovery=policy, overlap=overlap))


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.parametrize(
    ("strategy", "bounds", "runs"),
    [
        (Recovery.EXECUTE_ALL, {}, range(6)),
        (Recovery.EXECUTE_LAST, {}, [5]),
        (Recovery.MARK_AS_MISSED, {}, []),
        (Recovery.BOUNDED_WINDOW, {"max_occurrences": 5}, range(1, 6)),
        (Recovery.BOUNDED_WINDOW, {"max_duration": "4m"}, range(2, 6)),
    ],
)
def test_the_strategy_decides_over_both(strategy: Recovery, bounds: dict[str, Any], runs: list[int]) -> None:
    book, job = made(strategy, **bounds)
    shelf = Shelf()
    claimed(shelf, job, 0, 1, 4)
    shelf.work_off(book.timeline, NOON, NOON + 6 * MINUTE)
    assert told(shelf, job) == [(minute, "queued" if minute in runs else "missed", True) for minute in range(6)]


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.spec("R1", "compressed")
@pytest.mark.parametrize("minutes", [(0, 1), (2, 4), (5,), (0, 1, 2, 3, 4, 5)])
def test_one_compressed_run_covers_what_was_claimed(minutes: tuple[int, ...]) -> None:
    book, job = made(Recovery.COMPRESSED)
    shelf = Shelf()
    claimed(shelf, job, *minutes)
    shelf.work_off(book.timeline, NOON, NOON + 6 * MINUTE)
    (row,) = shelf.of(job)
    assert row.key == scheduled(job, NOON + 5 * MINUTE)
    assert row.window == Window(NOON, NOON + 5 * MINUTE + SECOND, 6)


@pytest.mark.spec("R1", "claimed before an outage")
def test_a_window_ends_where_a_row_has_started() -> None:
    book, job = made(Recovery.COMPRESSED)
    shelf = Shelf()
    claimed(shelf, job, 0, 1)
    shelf.put(scheduled(job, NOON + 2 * MINUTE))
    shelf.work_off(book.timeline, NOON, NOON + 6 * MINUTE)
    assert [(row.instant - NOON) // MINUTE for row in shelf.of(job)] == [1, 2, 5]
    assert [row.window.count for row in shelf.of(job) if row.window is not None] == [2, 3]


@pytest.mark.spec("R1", "claimed before an outage")
def test_with_overlap_allow_it_is_open_to_every_node_as_a_recovery() -> None:
    book, job = made(Recovery.EXECUTE_ALL, Overlap.ALLOW)
    shelf = Shelf()
    claimed(shelf, job, 0)
    shelf.work_off(book.timeline, NOON, NOON + 2 * MINUTE)
    assert told(shelf, job) == [(0, "prerun", True), (1, "prerun", True)]


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.spec("S11", "pause")
def test_a_claimed_instant_within_a_pause_is_skipped_with_the_reason() -> None:
    book, job = made(Recovery.EXECUTE_ALL)
    shelf = Shelf()
    claimed(shelf, job, 1, 2)
    book.pause(job, NOON + MINUTE, until=NOON + 3 * MINUTE, reason="migration")
    shelf.work_off(book.timeline, NOON, NOON + 5 * MINUTE)
    assert told(shelf, job) == [
        *((0, "queued", True), (1, "skipped", False), (2, "skipped", False), (3, "queued", True), (4, "queued", True))
    ]


@pytest.mark.spec("S11", "a pause holds")
def test_what_a_pause_holds_is_not_decided_and_keeps_its_place_before_the_backlog() -> None:
    book, job = made(Recovery.MARK_AS_MISSED)
    runs = book.job("runs", every("1m"))
    shelf = Shelf()
    for number in (job, runs):
        claimed(shelf, number, 0)
        book.pause(number, NOON + 3 * MINUTE)
    shelf.work_off(book.timeline, NOON, NOON + 4 * MINUTE)
    assert told(shelf, job)[:3] == [(0, "prerun", False), (1, "missed", True), (2, "missed", True)]
    assert told(shelf, runs)[:3] == [(0, "queued", False), (1, "queued", True), (2, "queued", True)]


@pytest.mark.spec("R2", "one after another")
def test_older_rows_that_wait_for_a_share_join_the_queue_and_those_that_wait_to_learn_do_not() -> None:
    book, job = made(Recovery.EXECUTE_ALL)
    sure = book.job("sure", every("1m"))
    shelf = Shelf()
    shelf.put(scheduled(job, NOON), S.PENDING, reason=lacks_share("api"))
    shelf.put(Key(NOON, job, Kind.TRIGGER, "by hand"), S.PENDING)
    shelf.put(scheduled(job, NOON + MINUTE), S.RUNNING, started_at=NOON + MINUTE)
    shelf.put(scheduled(sure, NOON), S.PENDING, reason=unsure_of(Ref(7), "a"))
    shelf.work_off(book.timeline, NOON, NOON + 4 * MINUTE)
    assert [str(row.status) for row in shelf.of(job)] == ["queued", "pending", "running", "queued", "queued"]
    assert [str(row.status) for row in shelf.of(sure)] == ["pending", "queued", "queued", "queued"]


@pytest.mark.spec("R1", "claimed before an outage")
def test_what_is_younger_than_the_grace_period_or_not_due_or_of_another_kind_is_left_alone() -> None:
    book, job = made(Recovery.MARK_AS_MISSED)
    shelf = Shelf()
    claimed(shelf, job, 0, due_at=NOON + 4 * MINUTE)
    claimed(shelf, job, 3)
    shelf.work_off(book.timeline, NOON, NOON + 3 * MINUTE + 30 * SECOND)
    assert told(shelf, job) == [(0, "prerun", False), (1, "missed", True), (2, "missed", True), (3, "prerun", False)]
    shelf.begin(NOON, NOON + HOUR)
    assert shelf.plan is not None
    rows = {row.instant: row for row in shelf.rows.values()}
    assert is_overlooked(rows[NOON], shelf.plan, 30 * SECOND)
    assert not is_overlooked(rows[NOON + MINUTE], shelf.plan, 30 * SECOND), "it has been decided"


@pytest.mark.spec("R1", "claimed before an outage")
def test_what_was_claimed_of_a_job_that_cannot_be_enumerated_runs() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("broken", every("1m"), body="{}")
    claimed(shelf, job, 1)
    shelf.work_off(book.timeline, NOON, NOON + 10 * MINUTE)
    gap, row = shelf.of(job)
    assert gap.status is S.MISSED
    assert (row.status, row.is_recovery) == (S.PRERUN, True)


@pytest.mark.spec("R1", "claimed before an outage")
def test_of_very_many_missed_instants_the_claimed_ones_keep_rows_of_their_own() -> None:
    book = Book()
    job = book.job("pulse", every("1s"), overrides=Overrides(recovery=RecoveryPolicy(Recovery.MARK_AS_MISSED)))
    shelf = Shelf()
    for second in range(3):
        shelf.put(scheduled(job, NOON + second * SECOND), S.PRERUN)
    shelf.work_off(book.timeline, NOON, NOON + 2 * STRETCH_MIN * SECOND)
    rows = [row for row in shelf.of(job) if row.status is S.MISSED]
    assert [row.window is None for row in rows] == [True, True, True, False]
    assert rows[3].window == Window(NOON + 3 * SECOND, rows[3].window_end or 0, 2 * STRETCH_MIN - 3 - 30)


@pytest.mark.spec("R2", "a dead node's plan")
@pytest.mark.spec("R1", "claimed before an outage")
@given(
    st.sampled_from(Recovery),
    st.sampled_from([Overlap.SKIP, Overlap.ALLOW]),
    st.sets(st.integers(0, 29)),
    st.sets(st.integers(0, 29)),
    st.integers(1, 5),
    st.integers(0, 20),
)
def test_whoever_goes_on_with_a_plan_decides_as_the_first_would_have_and_each_instant_once(
    strategy: Recovery, overlap: Overlap, ran: set[int], ahead: set[int], step_max: int, dies_after: int
) -> None:
    book, job = made(strategy, overlap)
    whole, interrupted = Shelf(), Shelf()
    for shelf in (whole, interrupted):
        for minute in sorted(ran):
            shelf.put(scheduled(job, NOON + minute * MINUTE))
        claimed(shelf, job, *sorted(ahead - ran))
    timeline, end = book.timeline, NOON + 30 * MINUTE
    whole.work_off(timeline, NOON, end)
    interrupted.begin(NOON, end)
    for step in islice(interrupted.sweep(timeline).steps(step_max), dies_after):
        interrupted.take(step)
    if interrupted.plan is not None:
        for step in interrupted.sweep(timeline).steps(step_max):
            interrupted.take(step)
    shown = [
        [(row.key, row.status, row.is_recovery, row.window, row.reason) for row in shelf.of(job)]
        for shelf in (whole, interrupted)
    ]
    assert shown[0] == shown[1]
    report = audit(timeline.expected(NOON, end), whole.decided(NOON, end), whole.windows(NOON), {})
    assert report.is_clean
    assert report.matched == report.expected == 30
