"""What a node tells is counted: by job and status, late, in bulk, and with as many labels as there may be."""

from __future__ import annotations

import pytest

from itinerary.core.loop.events import (
    AttemptEnded,
    LoadSampled,
    OccurrenceDecided,
    OccurrenceEnded,
    OccurrenceStarted,
    SchedulerEvent,
)
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Recovery
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.observe.counters import OTHER, MetricCounters
from itinerary.schedules.durations import SECOND

AT = 1_774_699_200_000_000


def key(kind: Kind = Kind.SCHEDULED) -> Key:
    return Key(AT, JobNumber(1), kind)


def life(job: str, outcome: OccurrenceState = OccurrenceState.COMPLETED) -> list[SchedulerEvent]:
    return [
        OccurrenceStarted(Ref(1), key(), job, AT, AT + SECOND // 100),
        AttemptEnded(job, "main", TaskState.SUCCESS, AT, AT + 2 * SECOND),
        OccurrenceEnded(Ref(1), key(), job, outcome, AT, AT + 3 * SECOND),
    ]


@pytest.mark.spec("U7", "counted")
def test_an_occurrence_is_counted_by_its_job_its_tasks_and_what_they_came_to() -> None:
    tally = MetricCounters(10)
    tally.handle(life("etl"))
    tally.handle(life("etl", OccurrenceState.FAILED))
    counted = tally.counted()
    job, task = counted.jobs["etl"], counted.tasks["etl", "main"]
    assert job.statuses == {"completed": 1, "failed": 1}
    assert task.statuses == {"success": 2}
    assert (sum(job.durations.counts), job.durations.total) == (2, 6 * SECOND)
    assert task.durations.total == 4 * SECOND
    assert counted.lateness.total == SECOND // 50


@pytest.mark.spec("U7", "recovery runs")
def test_a_recovery_run_is_counted_by_its_strategy_and_is_not_late() -> None:
    tally = MetricCounters(10)
    tally.handle([OccurrenceStarted(Ref(1), key(), "etl", AT, AT + 3_600 * SECOND, Recovery.EXECUTE_LAST)])
    counted = tally.counted()
    assert counted.jobs["etl"].recoveries == {"execute_last": 1}
    assert sum(counted.lateness.counts) == 0


def test_what_somebody_asked_for_by_hand_is_never_late() -> None:
    tally = MetricCounters(10)
    tally.handle([OccurrenceStarted(Ref(1), key(Kind.TRIGGER), "etl", AT, AT + 60 * SECOND)])
    assert sum(tally.counted().lateness.counts) == 0


def test_what_others_ended_is_counted_with_all_the_instants_that_it_answers_for() -> None:
    tally = MetricCounters(10)
    tally.handle([OccurrenceDecided(key(), "etl", OccurrenceState.MISSED, "nobody was there", 176)])
    assert tally.counted().jobs["etl"].statuses == {"missed": 176}


@pytest.mark.spec("U7", "bounded")
def test_of_a_hundred_thousand_jobs_the_first_ones_have_labels_and_the_rest_one_together() -> None:
    tally = MetricCounters(100)
    for number in range(100_000):
        tally.handle(life(f"job {number}"))
    counted = tally.counted()
    assert (len(counted.jobs), len(counted.tasks)) == (101, 201)
    assert counted.jobs[OTHER].statuses == {"completed": 99_900}
    assert counted.tasks[OTHER, OTHER].statuses == {"success": 99_800}
    assert sum(one.statuses["completed"] for one in counted.jobs.values()) == 100_000


def test_what_waits_to_be_counted_is_bounded_though_nobody_publishes_it() -> None:
    tally = MetricCounters(10)
    for _ in range(100_000):
        tally.handle([LoadSampled(1, 0)])
    assert len(tally._batches) <= 20_001


def test_a_copy_stays_as_it_is_and_two_nodes_do_not_mix() -> None:
    one, other = MetricCounters(10), MetricCounters(10)
    one.handle(life("etl"))
    before = one.counted()
    one.handle(life("etl"))
    assert before.jobs["etl"].statuses == {"completed": 1}
    assert other.counted().jobs == {}
