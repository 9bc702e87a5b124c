"""Which instants of the past a backfill runs (R4, D1)."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.core.recovery.backfill import InstantChoice, chosen, due_between
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, OccurrenceRow, Ref
from itinerary.model.run_request import RunRequestInfo, asked_json
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from tests.unit.core.timelines import HOUR, NOON, Book

S = OccurrenceState
JOB = JobNumber(1)


def row(hour: int, status: OccurrenceState, *, ran: bool, ref: int = 0, **values: Any) -> OccurrenceRow:
    instant = NOON + hour * HOUR
    given: dict[str, Any] = {"kind": Kind.SCHEDULED, "request": "", **values}
    return OccurrenceRow(
        Ref(ref or 100 + hour),
        instant,
        JOB,
        given.pop("kind"),
        given.pop("request"),
        1,
        instant,
        is_recovery=False,
        priority=0,
        created_at=instant,
        created_by=None,
        status=status,
        owner=None,
        fence=1,
        started_at=instant if ran else None,
        ended_at=instant if status in FINAL else None,
        **given,
    )


DUE = {NOON + hour * HOUR: 1 for hour in range(10)}
ROWS = [
    row(0, S.COMPLETED, ran=True),
    row(1, S.FAILED, ran=True),
    row(2, S.MISSED, ran=False),
    row(3, S.RUNNING, ran=True),
    row(4, S.FAILED, ran=True),
    row(4, S.COMPLETED, ran=True, ref=900, kind=Kind.REPLAY, request="x/1"),
    row(5, S.SKIPPED, ran=False, window_start=NOON + 5 * HOUR, window_end=NOON + 6 * HOUR + SECOND, window_count=2),
    row(8, S.COMPLETED, ran=True, window_start=NOON + 7 * HOUR, window_end=NOON + 8 * HOUR + SECOND, window_count=2),
    row(9, S.COMPLETED, ran=True, ref=901, kind=Kind.TRIGGER, request="by hand"),
]


def hours(which: InstantChoice, request: str | None = None) -> list[tuple[int, bool]]:
    """What is run: its hour, and whether it is a replay."""
    found = chosen(DUE, ROWS, which, request)
    return [((choice.instant - NOON) // HOUR, choice.original is not None) for choice in found]


@pytest.mark.spec("R4", "backfill: missing")
def test_missing_is_what_nothing_ran_for_whatever_stands_there() -> None:
    assert hours(InstantChoice.MISSING) == [(2, True), (5, False), (6, False), (9, False)]


@pytest.mark.spec("R4", "backfill: failed")
def test_failed_is_what_ran_and_never_went_well() -> None:
    assert hours(InstantChoice.FAILED) == [(1, True)]


@pytest.mark.spec("R4", "backfill: all")
def test_all_is_everything_but_what_is_under_way() -> None:
    assert [hour for hour, _ in hours(InstantChoice.ALL)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.spec("R4", "backfill")
def test_what_the_same_request_has_asked_for_is_among_it_and_known() -> None:
    asked = asked_json(RunRequestInfo(by="anna", request="again"))
    rows = [
        row(0, S.COMPLETED, ran=True),
        row(0, S.COMPLETED, ran=True, ref=7, kind=Kind.REPLAY, request="x/1", details=asked),
    ]
    (known,) = chosen({NOON: 1}, rows, InstantChoice.MISSING, "again")
    assert known.is_asked
    assert chosen({NOON: 1}, rows, InstantChoice.MISSING, "another") == []


@pytest.mark.spec("R4", "backfill")
def test_where_nothing_was_in_force_or_expected_the_newest_version_says_what_was_due() -> None:
    book = Book()
    job = book.job("etl", every("1h"), NOON)
    book.stop(job, NOON + 2 * HOUR)
    book.version(job, every("30m"), NOON + 3 * HOUR)
    due = due_between(book.timeline, job, NOON - HOUR, NOON + 3 * HOUR)
    assert [((instant - NOON) // (HOUR // 2), version) for instant, version in due.items()] == [
        (-2, 2),
        (-1, 2),
        (0, 1),
        (2, 1),
        (4, 2),
        (5, 2),
    ]
