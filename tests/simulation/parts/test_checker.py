"""The checker: content with a history as it should be, and with none that was falsified."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from itinerary.model.policies import Mode, OnShutdown, Overlap, Retry
from itinerary.model.rows import ActiveRow, AttemptRow, MailRow, Ref, ShareRow, TaskRow, TransitionRow, WaitingRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Refused, Started
from itinerary.schedules.durations import SECOND
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import (
    ACTIVE,
    ATTEMPTS,
    MAIL,
    OCCURRENCES,
    OVERLAP_SLOTS,
    SHARES,
    TASKS,
    TRANSITIONS,
    WAITING,
    WINDOWS,
)
from tests.simulation.checker import check_store, match
from tests.simulation.checker.violations import Rule
from tests.simulation.parts.book import MINUTE, NOON, Book, now
from tests.simulation.world.run_log import SimulatedEnd

pytestmark = pytest.mark.spec("U6", "checker")
S = OccurrenceState


def two_minutes() -> Book:
    book = Book()
    book.minute(0)
    book.minute(1)
    return book


def test_a_history_as_it_should_be_is_not_objected_to() -> None:
    assert two_minutes().check().found == []


def test_a_queue_that_is_served_in_order_is_not_objected_to() -> None:
    book = Book()
    claims = [book.claim(minute) for minute in range(3)]
    book.clock.now = NOON + 3 * MINUTE
    first = book.start(claims[0])
    run = book.runs(claims[0].ref)
    for claimed in claims[1:]:
        assert isinstance(book.start(claimed), Refused)
    for following in (*claims[1:], None):
        book.clock.now += SECOND
        book.over(run)
        book.end(first)
        if following is not None:
            first = book.start(following)
            assert isinstance(first, Started)
            run = book.runs(following.ref)
    assert book.check().found == []


# -- falsified, one rule at a time -----------------------------------------------------------------------------------


def lost(book: Book) -> None:
    book.check(minutes=3)


def unexpected(book: Book) -> None:
    row = book.backend.rows(OCCURRENCES)[1,]
    book.falsify(OCCURRENCES, replace(row, ref=Ref(9), instant=NOON + 30 * SECOND))
    book.check()


def expected_by_its_schedule_alone(book: Book) -> None:
    owed = {book.job: [NOON, NOON + 30 * SECOND, NOON + MINUTE]}
    now(check_store(EngineStore(book.backend), owed, NOON, NOON + 2 * MINUTE, book.violations))


def in_a_window_and_by_itself(book: Book) -> None:
    row = book.backend.rows(OCCURRENCES)[1,]
    book.falsify(OCCURRENCES, replace(row, window_start=NOON, window_end=NOON + 2 * MINUTE, window_count=2))
    book.falsify(WINDOWS, WINDOWS.row(NOON + 2 * MINUTE, row.ref))
    book.check()


def a_window_that_miscounts(book: Book) -> None:
    row = book.backend.rows(OCCURRENCES)[1,]
    book.falsify(OCCURRENCES, replace(row, window_start=NOON, window_end=NOON + 1, window_count=2))
    book.falsify(WINDOWS, WINDOWS.row(NOON + 1, row.ref))
    book.check()


def an_illegal_line(book: Book) -> None:
    book.falsify(TRANSITIONS, TransitionRow(Ref(1), 9, 0, S.COMPLETED, S.COMPLETED, NOON, None))
    book.check()


def a_trail_that_leads_elsewhere(book: Book) -> None:
    book.falsify(OCCURRENCES, replace(book.backend.rows(OCCURRENCES)[1,], status=S.FAILED))
    book.check()


def active_and_final(book: Book) -> None:
    book.falsify(ACTIVE, ActiveRow(book.job, Ref(1), NOON))
    book.check()


def waiting_and_final(book: Book) -> None:
    book.falsify(WAITING, WaitingRow(NOON, Ref(1)))
    book.check()


def a_history_without_it(book: Book) -> None:
    book.falsify(
        OVERLAP_SLOTS, replace(book.backend.rows(OVERLAP_SLOTS)[book.job,], count=1, recent=b"\x02" + bytes(7))
    )
    book.check()


def a_slot_that_was_kept(book: Book) -> None:
    slot = book.backend.rows(OVERLAP_SLOTS)[book.job,]
    book.falsify(OVERLAP_SLOTS, replace(slot, ref=1, fence=1))
    book.check()


def a_share_that_was_kept(book: Book) -> None:
    row = book.backend.rows(OCCURRENCES)[1,]
    book.falsify(OCCURRENCES, replace(row, holds='["api"]'))
    book.falsify(SHARES, ShareRow("api", row.ref))
    book.check()


def unread_mail(book: Book) -> None:
    book.falsify(MAIL, MailRow(book.node, Ref(1)))
    book.check()


def ran_twice(book: Book) -> None:
    book.over(book.runs(book.log.runs[0].attempt.ref))
    book.log.runs[-1].began_at = book.log.runs[-1].ended_at = book.log.runs[0].began_at + 1
    book.check()


def ran_early(book: Book) -> None:
    book.log.runs[1].began_at = NOON + MINUTE - 1
    book.check()


def a_success_that_was_none(book: Book) -> None:
    book.log.runs[0].ending = SimulatedEnd.FAILED
    book.log.runs[0].asked_at = NOON
    book.check()


def a_failure_that_was_none(book: Book) -> None:
    attempt = book.backend.rows(ATTEMPTS)[1, 0, 1]
    book.falsify(ATTEMPTS, replace(attempt, status=TaskState.FAILED))
    book.check()


def the_result_of_another(book: Book) -> None:
    book.falsify(TASKS, replace(book.backend.rows(TASKS)[1, 0], result='"2/0/1"'))
    book.check()


def completed_with_a_failed_task(book: Book) -> None:
    book.falsify(TASKS, TaskRow(Ref(1), 0, "main", TaskState.FAILED))
    book.check()


def went_on_after_its_end(book: Book) -> None:
    book.log.runs[1].ended_at = None
    book.log.runs[1].ending = None
    book.falsify(ATTEMPTS, replace(book.backend.rows(ATTEMPTS)[2, 0, 1], status=TaskState.CANCELLED))
    book.falsify(OCCURRENCES, replace(book.backend.rows(OCCURRENCES)[2,], status=S.COMPLETED_WITH_ERRORS))
    row = book.backend.rows(OCCURRENCES)[2,]
    assert row.ended_at is not None
    line = TransitionRow(row.ref, row.sequence, 0, S.RUNNING, S.COMPLETED_WITH_ERRORS, row.ended_at, row.owner)
    book.falsify(TRANSITIONS, line)
    book.check()


def unknown_to_the_store(book: Book) -> None:
    book.without(OCCURRENCES, (1,))
    book.check()


def its_end_forgotten(book: Book) -> None:
    book.without(ATTEMPTS, (1, 0, 1))  # its row still says that it was begun
    book.check()


def really_beside(book: Book) -> None:
    book.log.runs[0].ended_at = NOON + 2 * MINUTE
    book.falsify(OCCURRENCES, replace(book.backend.rows(OCCURRENCES)[1,], ended_at=NOON + 2 * MINUTE))
    book.check()


def written_late(book: Book) -> None:
    book.falsify(OCCURRENCES, replace(book.backend.rows(OCCURRENCES)[2,], ended_at=NOON + 3 * MINUTE))
    book.check()


def too_many_attempts(book: Book) -> None:
    book.falsify(ATTEMPTS, AttemptRow(Ref(1), 0, 2, TaskState.SUCCESS))
    book.check()


def an_attempt_left_out(book: Book) -> None:
    book.without(ATTEMPTS, (1, 0, 1))  # its row still says that it was begun
    book.falsify(ATTEMPTS, AttemptRow(Ref(1), 0, 3, TaskState.SUCCESS))
    run = book.log.runs[0]
    run.attempt = run.attempt._replace(number=3)
    book.log.by_attempt = {run.attempt: [run]}
    book.falsify(TASKS, replace(book.backend.rows(TASKS)[1, 0], result='"1/0/3"'))
    book.check()


@pytest.mark.parametrize(
    ("falsified", "rule", "message"),
    [
        (lost, Rule.OWED, "backup:1774699320 (2026-03-28T12:02:00Z) is lost: nothing was decided about it"),
        (unexpected, Rule.OWED, "was never expected, and has occurrence 9"),
        (expected_by_its_schedule_alone, Rule.OWED, "only its schedule has it"),
        (in_a_window_and_by_itself, Rule.OWED, "more than once: by occurrence 2 and the window of occurrence 1"),
        (a_window_that_miscounts, Rule.OWED, "says that its window holds 2 instants, and it holds 1"),
        (an_illegal_line, Rule.TRAIL, "completed is final"),
        (a_trail_that_leads_elsewhere, Rule.TRAIL, "is failed, and its trail ends with running"),
        (active_and_final, Rule.INDEXES, "is completed, and the table active"),
        (waiting_and_final, Rule.INDEXES, "is completed, and the table waiting"),
        (a_history_without_it, Rule.INDEXES, "is not at place"),
        (a_slot_that_was_kept, Rule.SETTLED, "the slot of job 1 is held by occurrence 1"),
        (a_slot_that_was_kept, Rule.HELD, "is completed, and is in its job's slot"),
        (a_share_that_was_kept, Rule.SETTLED, "holds a share of limit api"),
        (a_share_that_was_kept, Rule.HELD, "is completed, and holds a share of api"),
        (unread_mail, Rule.SETTLED, "unread mail"),
        (ran_twice, Rule.ONE_START, "began 2 times"),
        (ran_early, Rule.EARLY, "began 1 µs before it was due"),
        (a_success_that_was_none, Rule.RESULTS, "is a success in the store, and really failed"),
        (a_failure_that_was_none, Rule.RESULTS, "really succeeded, and is stored as failed"),
        (the_result_of_another, Rule.RESULTS, "of another attempt"),
        (completed_with_a_failed_task, Rule.RESULTS, "is completed, and task 0 is failed"),
        (went_on_after_its_end, Rule.RESULTS, "goes on after the end of its occurrence was written"),
        (unknown_to_the_store, Rule.RESULTS, "the store has no row of it"),
        (its_end_forgotten, Rule.RESULTS, "really succeeded, and is stored as running"),
        (really_beside, Rule.BESIDE, "began while backup:1774699200"),
        (written_late, Rule.PROMPT, "before the end was written"),
        (too_many_attempts, Rule.RETRIES, "has 2 attempts, 1 are allowed"),
        (an_attempt_left_out, Rule.RETRIES, "has attempts [1, 3]"),
    ],
)
def test_each_falsified_history_is_found_out(falsified: Callable[[Book], None], rule: Rule, message: str) -> None:
    book = two_minutes()
    falsified(book)
    assert rule in book.violations.rules(), book.violations.found
    assert any(message in str(found) for found in book.violations.found), book.violations.found


def test_who_is_disturbed_may_write_its_end_late() -> None:
    book = two_minutes()
    book.disturbances.note(book.clock() - 1, book.clock() + 1, book.process)
    written_late(book)
    assert Rule.PROMPT not in book.violations.rules()


def test_what_is_not_final_in_the_end_is_named() -> None:
    book = Book()
    book.claim(0)
    (found,) = book.check().found
    assert found.rule is Rule.SETTLED
    assert found.message == "backup:1774699200 (scheduled, occurrence 1) is still prerun (owner 1)"


def test_jumping_the_line_is_found_out() -> None:
    book = Book()
    claims = [book.claim(minute) for minute in range(3)]
    book.clock.now = NOON + 3 * MINUTE
    first = book.start(claims[0])
    for claimed in claims[1:]:
        book.start(claimed)
    book.clock.now += SECOND
    book.end(first)
    second = book.start(claims[1])
    book.clock.now += SECOND
    book.end(second)
    book.end(book.start(claims[2]))
    assert Rule.LINE not in book.check().rules()
    served = {line.ref: line for line in book.backend.rows(TRANSITIONS).values() if line.after is S.PENDING}
    one, two = served[claims[1].ref], served[claims[2].ref]
    book.falsify(TRANSITIONS, replace(one, at=two.at + SECOND), replace(two, at=one.at))
    assert Rule.LINE in book.check().rules()


def test_tasks_in_sequence_that_overlap_are_found_out() -> None:
    book = Book(Overlap.SKIP, mode=Mode.SEQUENTIAL, retry=Retry(max_retries=1))
    claimed = book.claim(0)
    started = book.start(claimed)
    first = book.runs(claimed.ref)
    book.falsify(TASKS, TaskRow(claimed.ref, 1, "next", TaskState.SUCCESS))
    second = book.runs(claimed.ref, place=1)
    book.clock.now += SECOND
    book.over(first)
    book.over(second)
    book.end(started)
    assert Rule.SEQUENCE in book.check().rules()


# -- matching by time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("due", "started", "served", "spare"),
    [
        ([(0, 10), (5, 10)], [1, 6], [0, 1], []),
        ([(0, 10), (0, 2)], [1, 3], [1, 0], []),
        ([(0, 2)], [3], [None], [0]),
        ([(5, 9)], [1], [None], [0]),
        ([(0, 9)], [1, 2], [0], [1]),
        ([], [], [], []),
    ],
)
def test_starts_are_matched_with_the_earliest_deadline_first(
    due: list[tuple[int, int]], started: list[int], served: list[int | None], spare: list[int]
) -> None:
    assert match(due, started) == (served, spare)


# -- shutdowns -------------------------------------------------------------------------------------------------------


def shut_down(policy: OnShutdown, *, was_called: bool = True, again: bool = False) -> list[tuple[Rule, str]]:
    """What is said of a run that a shutdown has cancelled, or that was run again after it."""
    book = Book(on_shutdown=policy)
    run = book.minute(0)
    row = book.backend.rows(OCCURRENCES)[run.attempt.ref,]
    cancelled = AttemptRow(row.ref, 0, 1, TaskState.CANCELLED, row.started_at, row.ended_at)
    if again:
        second = book.runs(row.ref, number=2)
        book.over(second)
        book.falsify(ATTEMPTS, cancelled, replace(cancelled, number=2, status=TaskState.SUCCESS))
    else:
        why = "node a was shut down"
        book.falsify(ATTEMPTS, cancelled)
        book.falsify(OCCURRENCES, replace(row, status=S.CANCELLED, reason=why))
    run.process.asked_to_end_at = run.began_at + SECOND
    run.asked_at = run.began_at + SECOND
    run.ending = SimulatedEnd.STOPPED
    if not was_called:
        book.log.runs.remove(run)
        del book.log.by_attempt[run.attempt]
    return [(one.rule, one.message) for one in book.check().found if one.rule is Rule.SHUTDOWN]


@pytest.mark.spec("R9")
@pytest.mark.parametrize("policy", [OnShutdown.FINISH, OnShutdown.CANCEL])
def test_a_shutdown_may_cancel_what_was_called(policy: OnShutdown) -> None:
    assert shut_down(policy) == []


@pytest.mark.spec("R9")
@pytest.mark.parametrize("policy", list(OnShutdown))
def test_a_shutdown_may_not_cancel_what_was_never_called(policy: OnShutdown) -> None:
    assert len(shut_down(policy, was_called=False)) == 1


@pytest.mark.spec("R9")
def test_a_shutdown_may_not_cancel_what_is_to_run_again() -> None:
    ((_, message),) = shut_down(OnShutdown.RERUN)
    assert message.endswith("was cancelled, and is to be run again")


@pytest.mark.spec("R9")
@pytest.mark.parametrize("policy", list(OnShutdown))
def test_only_what_is_to_run_again_or_was_never_called_is_run_again(policy: OnShutdown) -> None:
    assert shut_down(policy, was_called=False, again=True) == []
    found = shut_down(policy, again=True)
    assert (found == []) is (policy is OnShutdown.RERUN)
