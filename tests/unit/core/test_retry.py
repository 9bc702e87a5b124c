"""Attempts that are made again (X3, O7): after how long, how often, and what ends the waiting."""

from __future__ import annotations

import pytest

from itinerary.core.loop.messages import OccurrenceAsked
from itinerary.model.policies import Retry
from itinerary.model.states import OccurrenceState
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import Act, fails, hangs, works


@pytest.mark.spec("X3")
@pytest.mark.spec("O7")
def test_waits_grow_by_the_factor() -> None:
    world = World()
    world.job("etl", retry=Retry(3, "1m", 2.0))
    world.does("main", fails(), fails(), fails(), works())
    world.run_to(1000)
    assert world.story() == (
        "completed after 424 s (fail_fast)\n"
        "main success [1 failed 0-1: boom] [2 failed 61-62: boom] [3 failed 182-183: boom] [4 success 423-424] "
        "waits 60 120 240"
    )
    again = "retrying pending running "
    assert world.trail() == f"prerun pending running {again}{again}{again}completed"
    world.at_rest()


@pytest.mark.spec("X3")
def test_a_cap_ends_the_growth() -> None:
    world = World()
    world.job("etl", retry=Retry(3, "10s", 10.0, interval_max="30s"))
    world.does("main", fails())
    world.run_to(1000)
    assert world.story() == (
        "failed after 74 s: task main failed after 4 attempts: boom (fail_fast)\n"
        "main failed (boom) [1 failed 0-1: boom] [2 failed 11-12: boom] [3 failed 42-43: boom] [4 failed 73-74: boom] "
        "waits 10 30 30"
    )


@pytest.mark.spec("X3")
def test_jitter_is_added_and_is_the_same_each_time() -> None:
    def waits() -> list[int]:
        world = World()
        world.job("etl", retry=Retry(2, "10s", jitter="5s"))
        world.does("main", fails())
        world.run_to(100)
        begun = [row.started_at or 0 for row in world.detail().attempts]
        ended = [row.ended_at or 0 for row in world.detail().attempts]
        return [start - end for start, end in zip(begun[1:], ended[:-1], strict=True)]

    first = waits()
    assert first == waits()
    assert all(10 * SECOND <= wait < 15 * SECOND for wait in first)
    assert len({*first}) == 2
    assert any(wait % SECOND for wait in first)


@pytest.mark.spec("X3")
@pytest.mark.parametrize("never", ["ValueError", "builtins.ValueError", "LookupError"])
def test_what_is_never_retried_fails_at_once(never: str) -> None:
    world = World()
    world.job("etl", retry=Retry(3, "1s", never_retry=(never,)))
    world.does("main", fails("no", 1, "app.Bad", "builtins.ValueError", "builtins.LookupError", "builtins.Exception"))
    world.run_to(100)
    assert world.story() == ("failed after 1 s: task main failed: no (fail_fast)\nmain failed (no) [1 failed 0-1: no]")


@pytest.mark.spec("X3")
def test_another_error_is_tried_again_though_some_never_are() -> None:
    world = World()
    world.job("etl", retry=Retry(1, "1s", never_retry=("KeyError",)))
    world.does("main", fails("no", 1, "builtins.ValueError"), works())
    world.run_to(100)
    assert world.story().startswith("completed after 3 s")


@pytest.mark.spec("X3", "timeouts")
@pytest.mark.spec("X4")
def test_a_timeout_is_tried_again_like_a_failure() -> None:
    world = World()
    world.job("etl", task_timeout="5s", retry=Retry(2, "10s"))
    world.does("main", hangs(stops_after=1), works())
    world.run_to(100)
    assert world.story() == (
        "completed after 17 s (fail_fast)\nmain success [1 timeout 0-6: over its time] [2 success 16-17] waits 10"
    )
    assert world.trail() == "prerun pending running terminating retrying pending running completed"
    world.at_rest()


@pytest.mark.spec("O7")
@pytest.mark.parametrize("act", [fails(after=5), hangs(stops_after=1)], ids=["failed", "timed out"])
def test_a_retry_without_a_wait_goes_the_same_way(act: Act) -> None:
    world = World()
    world.job("etl", task_timeout="5s", retry=Retry(1, "0s"))
    world.does("main", act, works())
    world.run_to(100)
    assert world.statuses == ["completed"]
    assert world.trail().endswith("retrying pending running completed")
    world.at_rest()


@pytest.mark.spec("X3")
@pytest.mark.spec("O5")
def test_cancelled_while_it_waits_to_retry() -> None:
    world = World()
    world.job("etl", "a", "b", retry=Retry(3, "1m"))
    world.does("a", fails())
    world.run_to(30)
    assert world.statuses == ["retrying"]
    world.cancel(by="anna")
    assert world.story() == (
        "cancelled after 30 s: anna (fail_fast)\na cancelled by anna [1 failed 0-1: boom]\nb skipped (anna)"
    )
    world.run_to(200)
    assert world.launches() == [("a", 1, 0)]
    world.at_rest()


@pytest.mark.spec("O8")
def test_it_is_told_which_attempt_is_waited_for_and_until_when() -> None:
    world = World()
    world.job("etl", retry=Retry(3, "1m"))
    world.does("main", fails())
    world.run_to(30)
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert shown.state is OccurrenceState.RETRYING
    assert shown.waits_for == f"attempt 2 of 4 of task main, at {START + 61 * SECOND}"


@pytest.mark.spec("X3")
def test_each_task_has_its_own_policy() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel", failure="continue", of_tasks={"b": {"retry": Retry(1, "2s")}})
    world.does("a", fails())
    world.does("b", fails())
    world.run_to(100)
    assert world.story() == (
        "completed_with_errors after 4 s: task a failed: boom (continue)\n"
        "a failed (boom) [1 failed 0-1: boom]\n"
        "b failed (boom) [1 failed 0-1: boom] [2 failed 3-4: boom] waits 2"
    )


@pytest.mark.spec("O8")
def test_what_is_being_stopped_beside_what_waits_to_retry_can_be_cancelled() -> None:
    """From `retrying` there is no way to `terminating`: it stays what it is, and ends."""
    world = World()
    world.job("etl", "a", "b", mode="parallel", failure="continue", task_timeout="5s", retry=Retry(1, "1h"))
    world.does("a", fails())
    world.does("b", hangs(stops_after=4))
    world.run_to(6)
    assert world.statuses == ["retrying"]
    world.cancel(by="anna")
    world.run_to(100)
    assert world.story() == (
        "cancelled after 9 s: anna (continue)\n"
        "a cancelled by anna [1 failed 0-1: boom]\n"
        "b timeout (over its time) [1 timeout 0-9: over its time]"
    )
    assert world.trail() == "prerun pending running retrying cancelled"
    world.at_rest()
