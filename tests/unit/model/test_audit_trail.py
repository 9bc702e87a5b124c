"""A whole audit trail from a row and the lines that are kept of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.model.audit_trail import (
    all_attempts,
    is_plain_end,
    is_plain_start,
    is_plainly_made,
    marked,
    unsaid_attempts,
    whole_trail,
)
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, JobNumber, NodeNumber, OccurrenceRow, Ref, TaskRow, TransitionRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import Limit, StartRequest, Step

pytestmark = pytest.mark.spec("D3")

REF, MADE_BY, OTHER = Ref(7), NodeNumber(1), NodeNumber(2)
ROW = OccurrenceRow(
    REF, 100, JobNumber(1), Kind.SCHEDULED, "", 1, 100, False, 0, 90, MADE_BY, OccurrenceState.PRERUN, MADE_BY, 1
)
S = OccurrenceState
FIRST = AttemptRow(REF, 0, 1, TaskState.RUNNING)
START = StartRequest(REF, 1, 0, "{}", 60, Overlap.SKIP, attempts=(FIRST,))


def line(
    sequence: int, number: int, before: S | None, after: S, at: int, by: NodeNumber | None = None
) -> TransitionRow:
    return TransitionRow(REF, sequence, number, before, after, at, by)


def states(row: OccurrenceRow, *kept: TransitionRow) -> list[tuple[Any, ...]]:
    return [(one.sequence, one.line, one.before, one.after, one.at, one.node) for one in whole_trail(row, kept)]


def test_a_row_that_waits_says_who_made_it_and_when() -> None:
    assert states(ROW) == [(0, 0, None, S.PRERUN, 90, MADE_BY)]


def test_a_plain_start_is_told_by_its_row_with_the_one_who_made_it() -> None:
    row = replace(ROW, status=S.RUNNING, started_at=101, sequence=1)
    assert states(row) == [
        (0, 0, None, S.PRERUN, 90, MADE_BY),
        (1, 0, S.PRERUN, S.PENDING, 101, MADE_BY),
        (1, 1, S.PENDING, S.RUNNING, 101, MADE_BY),
    ]


def test_what_happens_after_a_plain_start_is_kept_and_comes_after_it_whoever_owns_it_then() -> None:
    row = replace(ROW, status=S.ORPHANED, started_at=101, sequence=2, owner=None, fence=2)
    whole = states(row, line(2, 0, S.RUNNING, S.ORPHANED, 300, OTHER))
    assert [after for _, _, _, after, _, _ in whole] == [S.PRERUN, S.PENDING, S.RUNNING, S.ORPHANED]
    assert [by for *_, by in whole] == [MADE_BY, MADE_BY, MADE_BY, OTHER]


def test_a_start_whose_lines_are_kept_is_told_by_them() -> None:
    row = replace(ROW, status=S.RUNNING, started_at=400, sequence=3, owner=OTHER, fence=2)
    kept = (line(2, 0, S.PRERUN, S.PENDING, 350, OTHER), line(3, 0, S.PENDING, S.RUNNING, 400, OTHER))
    assert states(row, *kept)[1:] == [(2, 0, S.PRERUN, S.PENDING, 350, OTHER), (3, 0, S.PENDING, S.RUNNING, 400, OTHER)]


def test_a_row_that_was_made_for_a_reason_has_its_first_line_and_no_start_is_made_up_for_one_that_never_had_one() -> (
    None
):
    row = replace(ROW, status=S.SKIPPED, ended_at=90, reason="paused")
    kept = line(0, 0, None, S.SKIPPED, 90, MADE_BY)
    assert not is_plainly_made(row)
    assert states(row, kept) == [(0, 0, None, S.SKIPPED, 90, MADE_BY)]


def test_a_plain_end_is_told_by_its_row_with_the_owner_that_wrote_it() -> None:
    row = replace(ROW, status=S.COMPLETED, started_at=101, ended_at=200, sequence=4, owner=OTHER, fence=2)
    kept = (line(2, 0, S.PRERUN, S.PENDING, 101, OTHER), line(2, 1, S.PENDING, S.RUNNING, 101, OTHER))
    assert states(row, *kept)[-1] == (4, 0, S.RUNNING, S.COMPLETED, 200, OTHER)
    assert is_plain_end(replace(row, status=S.RUNNING), (Step(S.COMPLETED, 190),), OTHER)


def test_an_end_that_its_row_could_not_tell_is_not_plain() -> None:
    running = replace(ROW, status=S.RUNNING)
    assert not is_plain_end(running, (Step(S.COMPLETED, why="a task failed, and was spared"),), MADE_BY)
    assert not is_plain_end(running, (Step(S.FAILED),), MADE_BY)
    assert not is_plain_end(running, (Step(S.COMPLETED),), OTHER)
    assert not is_plain_end(replace(ROW, status=S.RETRYING), (Step(S.COMPLETED),), MADE_BY)
    assert not is_plain_end(replace(ROW, status=S.RETRYING), (Step(S.RUNNING), Step(S.COMPLETED)), MADE_BY)


@pytest.mark.parametrize(
    ("row", "start"),
    [
        (replace(ROW, fence=2), START),
        (replace(ROW, sequence=1), START),
        (replace(ROW, status=S.PENDING), START),
        (replace(ROW, created_by=OTHER), START),
        (ROW, replace(START, to=S.CONDITION_PENDING)),
        (ROW, replace(START, attempts=())),
        (ROW, replace(START, attempts=(replace(FIRST, place=1),))),
        (ROW, replace(START, attempts=(replace(FIRST, number=2),))),
    ],
)
def test_a_start_that_its_row_could_not_tell_is_not_plain(row: OccurrenceRow, start: StartRequest) -> None:
    assert is_plain_start(ROW, MADE_BY, START)
    assert not is_plain_start(row, MADE_BY, start)


def test_the_first_attempt_of_a_plain_start_is_told_by_its_row_until_there_is_more_to_say() -> None:
    row = replace(ROW, status=S.RUNNING, started_at=101, sequence=1)
    assert unsaid_attempts(START.attempts) == ()
    assert all_attempts(row, (), ()) == (FIRST,)
    done = replace(FIRST, status=TaskState.SUCCESS, started_at=101, ended_at=150)
    assert all_attempts(row, (), (done,)) == (done,)
    second = replace(FIRST, number=2)
    assert all_attempts(row, (), (second,)) == (FIRST, second)


@pytest.mark.parametrize(
    "said",
    [{"status": TaskState.PENDING}, {"started_at": 5}, {"ended_at": 5}, {"error": "none yet"}, {"output": "none yet"}],
    ids=str,
)
def test_a_first_attempt_with_more_to_say_is_kept(said: dict[str, Any]) -> None:
    attempts = (replace(FIRST, **said), replace(FIRST, place=1))
    assert unsaid_attempts(attempts) == attempts
    assert unsaid_attempts((FIRST, attempts[1])) == attempts[1:]


def test_no_attempt_is_made_up_for_one_that_has_not_started_or_whose_start_was_not_plain() -> None:
    assert all_attempts(ROW, (), ()) == ()
    row = replace(ROW, status=S.CONDITION_PENDING, started_at=101, sequence=1)
    kept = (line(1, 0, S.PRERUN, S.PENDING, 101), line(1, 1, S.PENDING, S.CONDITION_PENDING, 101))
    assert all_attempts(row, kept, ()) == ()


PLAIN = replace(START, job=JobNumber(1), instant=0)


def test_a_start_that_asks_for_nothing_special_is_marked_as_plain() -> None:
    assert marked(PLAIN) == replace(PLAIN, is_plain=True)
    assert marked(replace(PLAIN, is_plain=True)).is_plain


@pytest.mark.parametrize(
    "special",
    [
        {"fence": 2},
        {"fence": None},
        {"job": None},
        {"adjustments": 1},
        {"to": OccurrenceState.CONDITION_PENDING},
        {"skip": "paused"},
        {"limits": (Limit("api", 1),)},
        {"tasks": (TaskRow(REF, 0, "main", TaskState.RUNNING),)},
        {"attempts": ()},
        {"attempts": (replace(FIRST, place=1),)},
        {"attempts": (replace(FIRST, started_at=5),)},
        {"attempts": (FIRST, replace(FIRST, place=1))},
    ],
)
def test_a_start_that_asks_for_anything_else_is_not(special: dict[str, Any]) -> None:
    assert not marked(replace(PLAIN, is_plain=True, **special)).is_plain
