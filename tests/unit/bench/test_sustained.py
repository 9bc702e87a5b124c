"""What a sustained load is judged by."""

from __future__ import annotations

import math
from array import array

import pytest

from bench.sustained import Notes


def test_each_occurrence_is_counted_by_its_instant_and_its_place() -> None:
    notes = Notes(due_at=100, rate=2, seconds=3)
    for place, scheduled_at in ((0, 100.0), (1, 100.0), (0, 101.0), (0, 101.0), (1, 102.0)):
        notes.ran(place, scheduled_at, scheduled_at + 0.25)
    notes.finished, notes.finished_at = 5, 102.5
    found = notes.found()
    assert (found["missed"], found["doubled"], found["p99_ms"]) == (2, 1, 250.0)


def test_the_rate_is_over_the_whole_time_even_if_the_last_of_it_was_quick() -> None:
    notes = Notes(due_at=100, rate=2, seconds=3)
    notes.finished, notes.finished_at = 6, 102.01
    assert notes.found()["per_s"] == 2.0
    notes.finished_at = 106.0
    assert notes.found()["per_s"] == 1.0


def test_the_lateness_of_seconds_in_which_the_machine_was_there_is_told_by_itself() -> None:
    notes = Notes(due_at=100, rate=1, seconds=4)
    for second, late, stolen in ((0, 0.05, 0.0), (1, 0.05, 0.01), (2, 1.0, 0.3), (3, 0.5, 0.0)):
        notes.ran(0, 100.0 + second, 100.0 + second + late)
        notes.stolen[second] = stolen
    notes.times[3], notes.late[3] = 0, math.nan
    found = notes.found()
    assert found["quiet_seconds"] == 3
    assert found["quiet_p99_ms"] == pytest.approx(50.0, rel=1e-3)
    assert found["p99_ms"] > 900
    assert found["stolen_percent"] == pytest.approx(7.75)


def test_where_nothing_is_known_of_the_machine_no_second_counts_as_quiet() -> None:
    notes = Notes(due_at=100, rate=1, seconds=1)
    notes.ran(0, 100.0, 100.05)
    found = notes.found()
    assert found["quiet_seconds"] == 0
    assert math.isnan(found["quiet_p99_ms"])
    assert math.isnan(found["stolen_percent"])


def test_memory_grows_from_the_quarter_after_the_warm_up_to_the_last_and_a_moment_of_much_does_not_count() -> None:
    notes = Notes(due_at=100, rate=1, seconds=12)
    notes.memory[:] = array("d", [1e6, 2e6, 3e6, 50e6, 50e6, 900e6, 80e6, 80e6, 80e6, 60e6, 10e6, 61e6])
    found = notes.found()
    assert (found["rss_growth_mb"], found["rss_mb"]) == (10.0, 60.0)
