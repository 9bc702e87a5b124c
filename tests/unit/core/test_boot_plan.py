"""The boot plan says what recovery would do, before it does: it is compared with what recovery then does (R3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core.recovery.boot_plan import BootPlan, boot_plan
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Recovery, RecoveryPolicy
from itinerary.model.queries import Status
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from tests.unit.core.timelines import HOUR, MINUTE, NOON, SECOND, Book, Shelf, scheduled

S = OccurrenceState
GRACE, TAKEOVER = 30 * SECOND, 2 * SECOND


def planned(book: Book, shelf: Shelf, start: int, end: int) -> BootPlan:
    rows = [row for row in shelf.rows.values() if row.window is not None]
    return boot_plan(
        Status(end + TAKEOVER, 1, start),
        book.timeline,
        [row.key for row in shelf.rows.values()],
        rows,
        grace_period=GRACE,
        takeover_after=TAKEOVER,
        active=shelf.active(),
    )


@pytest.mark.spec("R3", "a boot plan")
def test_it_says_for_each_job_what_would_run_be_missed_and_be_skipped() -> None:
    book, shelf = Book(), Shelf()
    for strategy in Recovery:
        book.job(str(strategy), every("1h"), overrides=Overrides(recovery=RecoveryPolicy(strategy)))
    book.job("idle", every("1h"), at=NOON + 20 * HOUR)
    plan = planned(book, shelf, NOON, NOON + 10 * HOUR + MINUTE)
    assert {job.job: (job.runs, job.covered, job.missed, job.late) for job in plan.jobs} == {
        "execute_all": (11, 11, 0, 0),
        "execute_last": (1, 1, 10, 0),
        "mark_as_missed": (0, 0, 11, 0),
        "bounded_window": (11, 11, 0, 0),
        "compressed": (1, 11, 0, 0),
    }
    assert (plan.runs, plan.missed, plan.skipped) == (24, 21, 0)
    assert {(job.first_at, job.job == job.strategy) for job in plan.jobs} == {(NOON, True)}
    assert not shelf.rows, "and nothing is written"


@pytest.mark.spec("R3", "a boot plan")
@pytest.mark.spec("R1", "claimed before an outage")
def test_it_counts_what_was_claimed_before_the_outage_like_what_has_no_row() -> None:
    book, shelf = Book(), Shelf()
    for strategy in Recovery:
        job = book.job(str(strategy), every("1m"), overrides=Overrides(recovery=RecoveryPolicy(strategy)))
        for minute in range(3):
            shelf.put(scheduled(job, NOON + minute * MINUTE), S.PRERUN)
    plan = planned(book, shelf, NOON, NOON + 10 * MINUTE)
    assert {job.job: (job.runs, job.covered, job.missed, job.first_at) for job in plan.jobs} == {
        "execute_all": (10, 10, 0, NOON),
        "execute_last": (1, 1, 9, NOON),
        "mark_as_missed": (0, 0, 10, NOON),
        "bounded_window": (10, 10, 0, NOON),
        "compressed": (1, 10, 0, NOON),
    }


@pytest.mark.spec("R3", "a boot plan")
def test_of_a_job_that_nobody_can_enumerate_it_says_so() -> None:
    book, shelf = Book(), Shelf()
    book.job("broken", every("1m"), body="{}")
    (job,) = planned(book, shelf, NOON, NOON + HOUR).jobs
    assert job.job == "broken"
    assert (job.runs, job.missed, job.skipped) == (0, 0, 0)
    assert "not decided" in job.gaps[0]


@pytest.mark.spec("R3", "a boot plan")
@given(
    st.sampled_from(Recovery),
    st.none() | st.integers(0, 30),
    st.sets(st.integers(0, 59)),
    st.integers(0, 10),
    st.integers(0, 60 * 60),
    st.booleans(),
)
def test_what_it_says_is_what_recovery_then_does(
    strategy: Recovery, most: int | None, present: set[int], claimed: int, lasts: int, is_paused: bool
) -> None:
    book, shelf = Book(), Shelf()
    policy = RecoveryPolicy(strategy, max_occurrences=most if strategy is Recovery.BOUNDED_WINDOW else None)
    job = book.job("tick", every("1m"), overrides=Overrides(recovery=policy))
    if is_paused:
        book.pause(job, NOON + 10 * MINUTE)
    for minute in sorted(present):
        if minute * 60 < lasts:
            shelf.put(scheduled(job, NOON + minute * MINUTE))
    for minute in range(claimed):
        shelf.put(scheduled(job, NOON + minute * MINUTE), S.PRERUN)
    before = dict(shelf.rows)
    plan = planned(book, shelf, NOON, NOON + lasts * SECOND)
    shelf.work_off(book.timeline, NOON, NOON + lasts * SECOND)
    made = [row for key, row in shelf.rows.items() if row != before.get(key)]
    counts = {
        "runs": sum(row.is_recovery and row.status is not S.MISSED for row in made),
        "late": sum(not row.is_recovery and row.status is S.PRERUN for row in made),
        "missed": sum((row.window.count if row.window else 1) for row in made if row.status is S.MISSED),
        "skipped": sum((row.window.count if row.window else 1) for row in made if row.status is S.SKIPPED),
    }
    said = {name: sum(getattr(one, name) for one in plan.jobs) for name in counts}
    assert said == counts
