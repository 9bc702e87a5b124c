"""CPU seconds of callers: who is refused, for how long, and what is forgotten."""

from __future__ import annotations

import pytest

from itinerary.web.heavy.budget import FULL_AFTER, CpuBudget


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.spec("Q4", "CPU seconds")
def test_a_caller_is_admitted_while_anything_is_left_and_pays_afterwards() -> None:
    budget = CpuBudget(60.0, Clock())
    budget.take("a", 59.9)
    assert budget.wait("a") is None
    budget.take("a", 30.1)
    assert budget.wait("a") == 300, "30 CPU seconds of debt, and six come back in a minute"
    assert budget.wait("b") is None


def test_what_was_used_comes_back_with_time_and_never_more_than_that() -> None:
    clock = Clock()
    budget = CpuBudget(60.0, clock)
    budget.take("a", 60.0)
    assert budget.wait("a") == 1
    clock.now = 1.0
    assert budget.wait("a") is None
    clock.now = FULL_AFTER * 10
    budget.take("a", 60.0)
    assert budget.wait("a") == 1


def test_a_debt_is_at_most_a_whole_budget() -> None:
    clock = Clock()
    budget = CpuBudget(60.0, clock)
    budget.take("a", 1e9)
    wait = budget.wait("a")
    assert wait == FULL_AFTER
    clock.now = wait + 0.001
    assert budget.wait("a") is None
