"""The five recovery strategies: the examples of R1, and that each of them answers for every instant exactly once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.core.recovery.strategies import (
    STRETCH_MIN,
    MissingInstants,
    RecoveryTerms,
    late,
    overlap_of_recovery,
    recovered,
    settled,
    to_run,
)
from itinerary.model.config import EffectiveRecovery
from itinerary.model.ids import jitter_for, job_id, occurrence_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap, Recovery
from itinerary.model.rows import JobNumber, JobRow, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.schedules import every
from tests.unit.core.timelines import HOUR, NOON, SECOND

JOB = JobRow(JobNumber(7), "backup", 0, 2, 0)
RUNS, MISSED = OccurrenceState.QUEUED, OccurrenceState.MISSED
"""What is recovered stands in line, since recovery runs go one after another (R2)."""


def missing(
    instants: Sequence[int], places: Sequence[int] | None = None, versions: Sequence[int] | None = None
) -> MissingInstants:
    return MissingInstants(
        np.array(instants, np.int64),
        np.array(range(len(instants)) if places is None else places, np.int64),
        np.array([1] * len(instants) if versions is None else versions, np.int64),
    )


def policies(strategy: Recovery, *schedules: str, **bounds: int | None) -> dict[int, RecoveryTerms]:
    recovery = EffectiveRecovery(strategy, **bounds)
    return {
        version: RecoveryTerms(version, every(schedule), recovery, priority=5)
        for version, schedule in enumerate(schedules or ("1h", "1h"), 1)
    }


def hours_down(count: int) -> tuple[list[int], int]:
    """An hourly job's instants while nobody was there for so many hours, and when somebody came back."""
    return [NOON + n * HOUR for n in range(count)], NOON + count * HOUR


def counted(rows: Sequence[ClaimRequest]) -> dict[OccurrenceState, int]:
    """How many instants run and how many are missed, windows counted with what they hold."""
    found: dict[OccurrenceState, int] = {}
    for row in rows:
        found[row.status] = found.get(row.status, 0) + (1 if row.window is None else row.window.count)
    return found


@pytest.mark.spec("R1", "execute_all")
def test_execute_all_runs_them_in_order_as_recovery_of_their_own_instants() -> None:
    instants, now = hours_down(5)
    rows = recovered(JOB, missing(instants), policies(Recovery.EXECUTE_ALL), now)
    assert [row.key for row in rows] == [Key(instant, JOB.number, Kind.SCHEDULED) for instant in instants]
    assert {(row.status, row.is_recovery, row.version, row.priority) for row in rows} == {(RUNS, True, 1, 5)}
    assert [row.due_at for row in rows] == instants
    assert rows[0].reason == "recovered by execute_all: nobody was there at its instant"


@pytest.mark.spec("R1", "execute_last")
def test_execute_last_runs_the_last_and_the_earlier_ones_are_missed() -> None:
    instants, now = hours_down(5)
    rows = recovered(JOB, missing(instants), policies(Recovery.EXECUTE_LAST), now)
    assert [row.status for row in rows] == [MISSED] * 4 + [RUNS]
    assert [row.key.instant for row in rows] == instants
    assert rows[0].reason == "missed: nobody was there at its instant, and execute_last runs only the last one"


@pytest.mark.spec("R1", "mark_as_missed")
def test_mark_as_missed_runs_nothing() -> None:
    instants, now = hours_down(5)
    rows = recovered(JOB, missing(instants), policies(Recovery.MARK_AS_MISSED), now)
    assert [(row.key.instant, row.status) for row in rows] == [(instant, MISSED) for instant in instants]
    assert rows[0].reason == "missed: nobody was there at its instant, and its recovery is mark_as_missed"


@pytest.mark.spec("R1", "bounded_window")
@pytest.mark.parametrize(
    ("bounds", "runs"),
    [
        ({"max_duration": 24 * HOUR}, 24),
        ({"max_occurrences": 10}, 10),
        ({"max_duration": 24 * HOUR, "max_occurrences": 10}, 10),
        ({"max_duration": 5 * HOUR, "max_occurrences": 10}, 5),
        ({"max_occurrences": 0}, 0),
        ({"max_duration": 0}, 0),
        ({"max_occurrences": 1_000}, 200),
        ({}, 200),
    ],
)
def test_bounded_window_runs_the_most_recent_by_age_first_and_then_by_count(bounds: dict[str, int], runs: int) -> None:
    instants, now = hours_down(200)
    rows = recovered(JOB, missing(instants), policies(Recovery.BOUNDED_WINDOW, **bounds), now)
    assert counted(rows) == {state: n for state, n in ((RUNS, runs), (MISSED, 200 - runs)) if n}
    assert [row.status for row in rows] == [MISSED] * (200 - runs) + [RUNS] * runs


@pytest.mark.spec("R1", "bounded_window")
def test_a_reason_says_by_which_bounds_an_instant_was_missed() -> None:
    instants, now = hours_down(3)
    rows = recovered(
        JOB, missing(instants), policies(Recovery.BOUNDED_WINDOW, max_duration=2 * HOUR, max_occurrences=1), now
    )
    assert rows[0].reason == (
        "missed: nobody was there at its instant, and bounded_window runs only the most recent ones: "
        "of the last 2h, at most 1"
    )


@pytest.mark.spec("R1", "compressed")
@pytest.mark.spec("R5", "window")
def test_compressed_is_one_run_at_the_last_instant_whose_window_holds_them_all() -> None:
    instants, now = hours_down(200)
    (row,) = recovered(JOB, missing(instants), policies(Recovery.COMPRESSED), now)
    assert row.key == Key(instants[-1], JOB.number, Kind.SCHEDULED)
    assert (row.status, row.is_recovery) == (RUNS, True)
    assert row.window == Window(instants[0], instants[-1] + SECOND, 200)
    (single,) = recovered(JOB, missing(instants[:1]), policies(Recovery.COMPRESSED), now)
    assert single.window is None, "one instant is no window"


@pytest.mark.spec("R5", "versions")
def test_a_compressed_window_ends_where_the_schedule_changes_and_not_where_only_the_version_does() -> None:
    instants, now = hours_down(6)
    versions = [1, 1, 2, 2, 3, 3]
    rows = recovered(JOB, missing(instants, versions=versions), policies(Recovery.COMPRESSED, "1h", "1h", "30m"), now)
    assert [(row.key.instant, row.version, row.window) for row in rows] == [
        (instants[3], 2, Window(instants[0], instants[3] + SECOND, 4)),
        (instants[5], 3, Window(instants[4], instants[5] + SECOND, 2)),
    ]


@pytest.mark.spec("R1", "strategy in force")
def test_the_strategy_is_that_of_the_version_in_force_at_the_last_missing_instant() -> None:
    instants, now = hours_down(3)
    mixed = {
        1: RecoveryTerms(1, every("1h"), EffectiveRecovery(Recovery.EXECUTE_ALL)),
        2: RecoveryTerms(2, every("1h"), EffectiveRecovery(Recovery.MARK_AS_MISSED)),
    }
    rows = recovered(JOB, missing(instants, versions=[1, 1, 2]), mixed, now)
    assert [(row.status, row.version) for row in rows] == [(MISSED, 1), (MISSED, 1), (MISSED, 2)]


@pytest.mark.spec("R1", "segment")
def test_more_than_a_thousand_missed_instants_are_one_row_with_window_and_count() -> None:
    instants, now = hours_down(STRETCH_MIN + 2)
    rows = recovered(JOB, missing(instants), policies(Recovery.EXECUTE_LAST), now)
    assert [(row.key.instant, row.status) for row in rows] == [(instants[0], MISSED), (instants[-1], RUNS)]
    assert rows[0].window == Window(instants[0], instants[-2] + SECOND, STRETCH_MIN + 1)
    assert rows[1].window is None
    fewer = recovered(JOB, missing(instants[1:]), policies(Recovery.EXECUTE_LAST), now)
    assert len(fewer) == STRETCH_MIN + 1
    assert all(row.window is None for row in fewer)


@pytest.mark.spec("R1", "segment")
def test_no_window_reaches_over_an_instant_that_has_a_row() -> None:
    count = 2 * STRETCH_MIN + 3
    instants, now = hours_down(count)
    there = STRETCH_MIN + 1
    places = [place for place in range(count) if place != there]
    left = missing([instants[place] for place in places], places)
    segments = recovered(JOB, left, policies(Recovery.MARK_AS_MISSED), now)
    assert [row.window for row in segments] == [
        Window(instants[0], instants[there - 1] + SECOND, STRETCH_MIN + 1),
        Window(instants[there + 1], instants[-1] + SECOND, STRETCH_MIN + 1),
    ]
    runs = recovered(JOB, left, policies(Recovery.COMPRESSED), now)
    assert [row.window for row in runs] == [row.window for row in segments]
    assert [row.key.instant for row in runs] == [instants[there - 1], instants[-1]]


STRATEGY = st.builds(
    EffectiveRecovery,
    st.sampled_from(Recovery),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(0, 60).map(lambda hours: hours * HOUR),
)


@pytest.mark.spec("R1", "each exactly once")
@given(st.sets(st.integers(0, 49)), STRATEGY, st.data())
def test_every_strategy_answers_for_each_missing_instant_exactly_once(
    places: set[int], recovery: EffectiveRecovery, data: st.DataObject
) -> None:
    listed = sorted(places)
    versions = sorted(data.draw(st.sampled_from([1, 2, 3])) for _ in listed)
    of_versions = {n: RecoveryTerms(n, every(f"{n % 2 + 1}h"), recovery) for n in (1, 2, 3)}
    left = missing([NOON + place * HOUR for place in listed], listed, versions)
    rows = recovered(JOB, left, of_versions, NOON + 50 * HOUR)
    answered = [
        place
        for row in rows
        for place in range(50)
        if (
            row.window.start <= NOON + place * HOUR < row.window.end
            if row.window
            else row.key.instant == NOON + place * HOUR
        )
    ]
    assert sorted(answered) == listed
    assert [row.key for row in rows] == sorted(row.key for row in rows)
    assert all(row.window is None or row.window.count > 1 for row in rows)
    if recovery.strategy is not Recovery.COMPRESSED:
        runs = to_run(left.instants, recovery, NOON + 50 * HOUR)
        assert [row.key.instant for row in rows if row.status is RUNS] == left.instants[runs].tolist()


@pytest.mark.spec("R2", "the rest is decided alike")
@given(st.integers(0, 60), st.integers(0, 60), STRATEGY.filter(lambda one: one.strategy is not Recovery.COMPRESSED))
def test_what_is_left_after_a_crash_is_decided_as_it_would_have_been(
    count: int, written: int, recovery: EffectiveRecovery
) -> None:
    instants, now = hours_down(count)
    of_versions = {1: RecoveryTerms(1, every("1h"), recovery)}
    whole = recovered(JOB, missing(instants), of_versions, now)
    rest = recovered(JOB, missing(instants[written:], range(written, max(count, written))), of_versions, now)
    assert rest == whole[written:]


@pytest.mark.spec("R1", "younger than the grace period")
def test_what_is_younger_than_the_grace_period_simply_runs_late() -> None:
    (row,) = late(JOB, missing([NOON]), policies(Recovery.MARK_AS_MISSED))
    assert (row.status, row.is_recovery, row.key.instant) == (OccurrenceState.PRERUN, False, NOON)
    assert row.reason == "late: nobody had claimed it, and the sweep found it missing"


@pytest.mark.spec("S6", "jitter")
def test_a_row_is_due_at_its_instant_and_the_jitter_of_its_id_on_top() -> None:
    schedule = every("1h", jitter="10m")
    of_versions = {1: RecoveryTerms(1, schedule, EffectiveRecovery(Recovery.EXECUTE_ALL))}
    rows = recovered(JOB, missing([NOON, NOON + HOUR]), of_versions, NOON + 2 * HOUR)
    delays = [jitter_for(occurrence_id(job_id("backup"), instant), 600 * SECOND) for instant in (NOON, NOON + HOUR)]
    assert [row.due_at - row.key.instant for row in rows] == delays
    assert len(set(delays)) == 2
    assert [row.key.instant for row in rows] == [NOON, NOON + HOUR], "the instant does not move"


@pytest.mark.spec("R2", "one after another")
@pytest.mark.parametrize("overlap", Overlap)
def test_recovery_runs_go_one_after_another_unless_overlap_is_allowed(overlap: Overlap) -> None:
    assert overlap_of_recovery(overlap) is (Overlap.ALLOW if overlap is Overlap.ALLOW else Overlap.QUEUE)
    instants, now = hours_down(2)
    policy = RecoveryTerms(1, every("1h"), EffectiveRecovery(Recovery.EXECUTE_ALL), overlap=overlap)
    rows = recovered(JOB, missing(instants), {1: policy}, now)
    assert {row.status for row in rows} == {OccurrenceState.PRERUN if overlap is Overlap.ALLOW else RUNS}


@pytest.mark.spec("R1", "segment")
def test_a_stretch_can_be_asked_for_however_short_it_is() -> None:
    rows = settled(
        JOB,
        missing([NOON, NOON + HOUR]),
        policies(Recovery.EXECUTE_ALL),
        OccurrenceState.SKIPPED,
        "why",
        as_stretch=True,
    )
    assert [(row.key.instant, row.status, row.window, row.reason) for row in rows] == [
        (NOON, OccurrenceState.SKIPPED, Window(NOON, NOON + HOUR + SECOND, 2), "why")
    ]


def test_nothing_missing_is_nothing_written() -> None:
    assert recovered(JOB, missing([]), {}, NOON) == []
    assert late(JOB, missing([]), {}) == []
