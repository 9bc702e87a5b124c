"""What a pause is judged by."""

from __future__ import annotations

import math

from bench.pause import Notes


def noted(*runs: tuple[int, float, float]) -> Notes:
    notes = Notes(due_at=100, rate=2, seconds=4, resumed_at=102.0)
    for job, scheduled_at, at in runs:
        notes.ran(job, scheduled_at, at)
    return notes


def test_the_node_is_on_time_again_after_the_last_late_run() -> None:
    notes = noted((0, 100, 102.5), (1, 100, 103.5), (0, 101, 104.0), (1, 101, 104.0), (0, 102, 102.9), (1, 103, 103.1))
    found = notes.found()
    assert found["on_time_after_s"] == 2.0
    assert found["catch_up_per_s"] == 3.0
    assert found["missed"] == 2


def test_a_node_that_was_never_late_needs_no_time() -> None:
    found = noted(*((job, second, second + 0.1) for job in (0, 1) for second in (100, 101, 102, 103))).found()
    assert found["on_time_after_s"] == 0
    assert math.isnan(found["catch_up_per_s"])
    assert (found["missed"], found["doubled"], found["out_of_order"]) == (0, 0, 0)


def test_jobs_whose_instants_began_out_of_order_are_counted() -> None:
    found = noted((0, 100, 103.0), (0, 101, 102.5), (0, 102, 104.0), (1, 100, 102.5), (1, 102, 102.6)).found()
    assert found["out_of_order"] == 1
