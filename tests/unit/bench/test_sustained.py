"""What a sustained load is judged by."""

from __future__ import annotations

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
