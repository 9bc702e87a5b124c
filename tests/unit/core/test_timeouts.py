"""Work that takes too long (X4): what is asked to end, what is given up, and what counts of what it says at last."""

from __future__ import annotations

import pytest

from itinerary.model.attempts import AttemptKey, Ended, Succeeded
from itinerary.model.policies import Retry
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import hangs, ignores, works


@pytest.mark.spec("X4")
def test_each_attempt_has_its_own_time() -> None:
    world = World()
    world.job("etl", "a", "b", task_timeout="5s", failure="continue")
    world.does("a", hangs())
    world.does("b", works(4))
    world.run_to(30)
    assert world.story() == (
        "completed_with_errors after 9 s: task a timed out (continue)\n"
        "a timeout (over its time) [1 timeout 0-5: over its time]\n"
        "b success [1 success 5-9]"
    )


@pytest.mark.spec("X4")
def test_a_task_may_have_a_time_of_its_own() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel", failure="continue", of_tasks={"b": {"task_timeout": "2s"}})
    world.does("a", works(4))
    world.does("b", hangs())
    world.run_to(30)
    assert world.story() == (
        "completed_with_errors after 4 s: task b timed out (continue)\n"
        "a success [1 success 0-4]\n"
        "b timeout (over its time) [1 timeout 0-2: over its time]"
    )


@pytest.mark.spec("X4")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_an_occurrence_over_its_time_has_failed_and_is_not_retried(mode: str) -> None:
    world = World()
    world.job("etl", "a", "b", mode=mode, execution_timeout="10s", retry=Retry(5, "1s"))
    world.does("a", hangs(stops_after=1))
    world.does("b", works(2))
    world.run_to(60)
    ended = "cancelled by execution timeout (cancelled) [1 cancelled 0-11: cancelled]"
    b = "skipped (execution timeout)" if mode == "sequential" else "success [1 success 0-2]"
    assert world.story() == (f"failed after 11 s: over its execution timeout of 10s (fail_fast)\na {ended}\nb {b}")
    assert world.trail() == "prerun pending running terminating failed"
    world.at_rest()


@pytest.mark.spec("X4")
def test_the_execution_timeout_also_ends_a_wait_to_retry() -> None:
    world = World()
    world.job("etl", execution_timeout="10s", retry=Retry(5, "1h"), task_timeout="1s")
    world.does("main", hangs())
    world.run_to(60)
    assert world.story() == (
        "failed after 10 s: over its execution timeout of 10s (fail_fast)\n"
        "main cancelled by execution timeout [1 timeout 0-1: over its time]"
    )


@pytest.mark.spec("X4")
def test_the_execution_timeout_ends_one_that_waits_for_a_slot_to_retry() -> None:
    """Without a slot time passes too."""
    world = World(max_concurrent_jobs=1)
    world.job("etl", execution_timeout="10s", retry=Retry(5, "3s"), task_timeout="1s", priority=5)
    world.job("hog", "hog")
    world.does("main", hangs())
    world.does("hog", works(100))
    world.run_to(200)
    assert world.story() == (
        "failed after 10 s: over its execution timeout of 10s (fail_fast)\n"
        "main cancelled by execution timeout [1 timeout 0-1: over its time]"
    )
    world.at_rest()


@pytest.mark.spec("X4")
def test_one_that_ignores_the_request_to_end_is_given_up_after_kill_grace() -> None:
    world = World(kill_grace=7 * SECOND)
    world.job("etl", task_timeout="5s", retry=Retry(1, "1s"))
    world.does("main", ignores(after=30), works())
    world.run_to(20)
    assert world.story() == (
        "completed after 14 s (fail_fast)\n"
        "main success [1 timeout 0-12: over its time, and was given up] [2 success 13-14] waits 1"
    )
    first = AttemptKey(world.ref, 0, 1)
    assert (world.script.stopped, world.script.killed) == ([first], [first])
    assert [line["attempt"] for line in world.logged("attempt.given_up")] == [1]
    world.at_rest()


@pytest.mark.spec("X4")
def test_what_one_that_was_given_up_says_at_last_changes_nothing() -> None:
    world = World()
    world.job("etl", task_timeout="5s")
    world.does("main", ignores(after=30))
    world.run_to(20)
    story, trail = world.story(), world.trail()
    assert story.startswith("failed after 15 s: task main timed out")
    world.run_to(60)
    assert [line["attempt"] for line in world.logged("attempt.late_report")] == [(world.ref, 0, 1)]
    assert (world.story(), world.trail()) == (story, trail)


@pytest.mark.spec("X4")
def test_a_late_result_of_an_earlier_attempt_is_not_taken_for_the_next_one() -> None:
    world = World()
    world.job("etl", task_timeout="5s", retry=Retry(1, "1s"))
    world.does("main", ignores(after=20), works(4.5))
    world.run_to(20.2)
    assert [line["attempt"] for line in world.logged("attempt.late_report")] == [(world.ref, 0, 1)]
    assert world.statuses == ["running"]


@pytest.mark.spec("X4")
@pytest.mark.parametrize("why", ["its own timeout", "a person"])
def test_a_success_that_races_with_the_request_to_end_is_a_success(why: str) -> None:
    world = World()
    world.job("etl", task_timeout="5s" if why == "its own timeout" else "1m")
    world.does("main", hangs(stops_after=1, stopped_as=Succeeded('"done"')))
    world.run_to(3)
    if why == "a person":
        world.cancel(by="anna")
    world.run_to(30)
    expected = {
        "its own timeout": "completed after 6 s (fail_fast)\nmain success [1 success 0-6]",
        "a person": "cancelled after 4 s: anna (fail_fast)\nmain success [1 success 0-4]",
    }
    assert world.story() == expected[why]
    assert world.detail().tasks[0].result == '"done"'
    world.at_rest()


@pytest.mark.spec("X4")
def test_a_result_in_the_very_iteration_of_the_timeout_counts() -> None:
    """Reports are heard before time is looked at: what it did in its time is done."""
    world = World()
    world.job("etl", task_timeout="5s")
    world.does("main", works(5))
    world.run_to(30)
    assert world.story() == "completed after 5 s (fail_fast)\nmain success [1 success 0-5]"


@pytest.mark.spec("X4")
def test_the_reaper_leaves_it_all_the_time_that_it_may_take() -> None:
    world = World(kill_grace=10 * SECOND)
    world.job("etl", execution_timeout="1m", on_start=("hooks:a",), on_complete=("hooks:b", "hooks:c"))
    world.run_to(1)
    assert world.rows[0].expires_at == START + (60 + 10 + 3 * (30 + 10)) * SECOND


@pytest.mark.spec("X4")
def test_a_second_end_of_the_same_attempt_changes_nothing() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.does("b", hangs())
    world.run_to(2)
    world.report(Ended(AttemptKey(world.ref, 0, 1), Succeeded('"again"')))
    assert len(world.logged("attempt.late_report")) == 1
    assert [task.result for task in world.detail().tasks] == [None, None]


@pytest.mark.spec("X5", "no task timeout of its own")
def test_without_a_task_timeout_only_the_execution_timeout_ends_an_attempt() -> None:
    world = World()
    world.job("etl", execution_timeout="20m", retry=Retry(3, "1s"))
    world.does("main", hangs())
    world.run_to(1_300)
    assert world.story() == (
        "failed after 1200 s: over its execution timeout of 20m (fail_fast)\n"
        "main cancelled by execution timeout (cancelled) [1 cancelled 0-1200: cancelled]"
    )
