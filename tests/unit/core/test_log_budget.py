"""Floods of log lines are summarised, and nothing of them is hidden."""

from __future__ import annotations

from itinerary.core.loop.log_budget import LogBudget, Summary

SECOND = 1_000_000


def test_the_first_lines_of_a_second_are_written_and_the_others_counted_with_examples() -> None:
    budget = LogBudget(3)
    written = [budget.admits("run.skipped", f"job {number}", 5 * SECOND + number) for number in range(20)]
    assert written == [True] * 3 + [False] * 17
    assert budget.owes
    assert budget.summaries(5 * SECOND + 999) == [], "the second is not over"
    assert budget.summaries(6 * SECOND) == [
        Summary("run.skipped", 17, ("job 3", "job 4", "job 5", "job 6", "job 7"), "info")
    ]
    assert budget.summaries(6 * SECOND) == [], "it is said once"
    assert not budget.owes


def test_each_second_and_each_event_has_a_budget_of_its_own() -> None:
    budget = LogBudget(1)
    assert budget.admits("a", "x", 0)
    assert budget.admits("b", "x", 0)
    assert not budget.admits("a", "y", 0, "warning")
    assert budget.admits("a", "z", SECOND)
    assert budget.summaries(SECOND) == [Summary("a", 1, ("y",), "warning")], "with the level of its lines"


def test_what_was_counted_last_is_said_at_the_end() -> None:
    budget = LogBudget(1)
    for job in ("x", "y"):
        budget.admits("a", job, 7 * SECOND)
    assert budget.close() == [Summary("a", 1, ("y",), "info")]
    assert budget.close() == []


def test_every_line_is_either_written_or_counted() -> None:
    budget, written, counted = LogBudget(10), 0, 0
    for number in range(1_000):
        now = number * SECOND // 100
        written += budget.admits("a", str(number), now)
        counted += sum(one.lines for one in budget.summaries(now))
    counted += sum(one.lines for one in budget.close())
    assert (written, counted) == (100, 900)
