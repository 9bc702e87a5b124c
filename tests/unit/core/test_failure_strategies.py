"""What a failure means for the other tasks (X2): every strategy in both modes, the report compared whole."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.model.policies import Retry
from tests.unit.core.bench import World
from tests.unit.core.scripted import fails, hangs, works

TABLE = """
fail_fast        sequential  a  nobody   !0-1 -    -
fail_fast        sequential  a  b        !0-1 +1-3 -
fail_fast        sequential  a  c        !0-1 -    +1-4
fail_fast        sequential  b  nobody   +0-1 !1-3 -
fail_fast        sequential  b  a        +0-1 !1-3 -
fail_fast        sequential  b  c        +0-1 !1-3 +3-6
fail_fast        sequential  c  nobody   +0-1 +1-3 !3-6
fail_fast        sequential  c  a        +0-1 +1-3 !3-6
fail_fast        parallel    a  nobody   !0-1 x0-1 x0-1
fail_fast        parallel    a  b        !0-1 +0-2 x0-1
fail_fast        parallel    a  c        !0-1 x0-1 +0-3
fail_fast        parallel    b  nobody   +0-1 !0-2 x0-2
fail_fast        parallel    b  a        +0-1 !0-2 x0-2
fail_fast        parallel    b  c        +0-1 !0-2 +0-3
fail_fast        parallel    c  nobody   +0-1 +0-2 !0-3
fail_fast        parallel    c  b        +0-1 +0-2 !0-3
continue         sequential  a  nobody   !0-1 +1-3 +3-6
continue         sequential  b  nobody   +0-1 !1-3 +3-6
continue         sequential  c  nobody   +0-1 +1-3 !3-6
continue         parallel    a  nobody   !0-1 +0-2 +0-3
continue         parallel    b  nobody   +0-1 !0-2 +0-3
continue         parallel    c  nobody   +0-1 +0-2 !0-3
retry_on_failure sequential  a  nobody   !0-1 -    -
retry_on_failure sequential  a  b        !0-1 +1-3 -
retry_on_failure sequential  a  c        !0-1 -    +1-4
retry_on_failure sequential  b  nobody   +0-1 !1-3 -
retry_on_failure sequential  b  c        +0-1 !1-3 +3-6
retry_on_failure sequential  c  nobody   +0-1 +1-3 !3-6
retry_on_failure parallel    a  nobody   !0-1 +0-2 +0-3
retry_on_failure parallel    b  nobody   +0-1 !0-2 +0-3
retry_on_failure parallel    c  a        +0-1 +0-2 !0-3
"""
"""The strategy, the mode, who fails, whose own strategy is `continue`, and what becomes of a, b and c, which take one,
two and three seconds: + succeeds, ! fails, x is cancelled, - is skipped."""

CASES = [tuple(line.split()) for line in TABLE.strip().splitlines()]


def expected(strategy: str, failing: str, marks: list[str], *, outcome: str = "") -> str:
    """The whole report that a row of the table stands for."""
    outcome = outcome or ("completed_with_errors" if strategy == "continue" else "failed")
    end = max(int(mark.split("-")[1]) for mark in marks if mark != "-")
    lines = [f"{outcome} after {end} s: task {failing} failed: boom ({strategy})"]
    for name, mark in zip("abc", marks, strict=True):
        kind, times = mark[0], mark[1:]
        lines.append(
            {
                "+": f"{name} success [1 success {times}]",
                "!": f"{name} failed (boom) [1 failed {times}: boom]",
                "x": f"{name} cancelled by task {failing} failed (cancelled) [1 cancelled {times}: cancelled]",
                "-": f"{name} skipped (task {failing} failed)",
            }[kind]
        )
    return "\n".join(lines)


@pytest.mark.spec("X2")
@pytest.mark.spec("X8")
@pytest.mark.parametrize("case", CASES, ids=[" ".join(case[:4]) for case in CASES])
def test_every_strategy_in_both_modes(case: tuple[str, ...]) -> None:
    strategy, mode, failing, spared, *marks = case
    own = {} if spared == "nobody" else {spared: {"failure": "continue"}}
    world = World()
    world.job("etl", "a", "b", "c", mode=mode, failure=strategy, of_tasks=own)
    for seconds, name in enumerate("abc", 1):
        world.does(name, fails(after=seconds) if name == failing else works(seconds))
    world.run_to(20)
    assert world.story() == expected(strategy, failing, marks)
    world.trail()
    world.at_rest()


OWN_TABLE = """
fail_fast        sequential  a  nobody   !0-1 -    -
fail_fast        sequential  a  c        !0-1 -    +1-4
fail_fast        sequential  b  nobody   +0-1 !1-3 -
fail_fast        parallel    a  nobody   !0-1 x0-1 x0-1
fail_fast        parallel    a  c        !0-1 x0-1 +0-3
fail_fast        parallel    b  nobody   +0-1 !0-2 x0-2
retry_on_failure sequential  a  nobody   !0-1 -    -
retry_on_failure sequential  a  b        !0-1 +1-3 -
retry_on_failure parallel    a  nobody   !0-1 +0-2 +0-3
"""
"""The columns of `TABLE`, in a job whose strategy is `continue`: the first is the failing task's own strategy."""

OWN_CASES = [tuple(line.split()) for line in OWN_TABLE.strip().splitlines()]


@pytest.mark.spec("X2")
@pytest.mark.parametrize("case", OWN_CASES, ids=[" ".join(case[:4]) for case in OWN_CASES])
def test_a_failing_task_with_its_own_strategy_ends_peers_that_only_inherit_continue(case: tuple[str, ...]) -> None:
    strategy, mode, failing, spared, *marks = case
    own = {failing: {"failure": strategy}}
    if spared != "nobody":
        own[spared] = {"failure": "continue"}
    world = World()
    world.job("etl", "a", "b", "c", mode=mode, failure="continue", of_tasks=own)
    for seconds, name in enumerate("abc", 1):
        world.does(name, fails(after=seconds) if name == failing else works(seconds))
    world.run_to(20)
    assert world.story() == expected("continue", failing, marks, outcome="failed")
    world.trail()
    world.at_rest()


@pytest.mark.spec("X2")
def test_a_task_that_only_inherits_continue_is_not_tried_again_after_a_peer_failed_fast() -> None:
    world = World()
    own: dict[str, dict[str, Any]] = {"a": {"retry": Retry(3, "1m")}, "b": {"failure": "fail_fast"}}
    world.job("etl", "a", "b", mode="parallel", failure="continue", of_tasks=own)
    world.does("a", fails())
    world.does("b", fails("bang", 2))
    world.run_to(20)
    assert world.story() == (
        "failed after 2 s: task b failed: bang (continue)\n"
        "a cancelled by task b failed [1 failed 0-1: boom]\n"
        "b failed (bang) [1 failed 0-2: bang]"
    )
    world.at_rest()


@pytest.mark.spec("X2")
def test_a_task_that_may_fail_leaves_the_others_alone_in_a_job_that_fails_fast() -> None:
    world = World()
    world.job("etl", "a", "b", of_tasks={"a": {"failure": "continue"}})
    world.does("a", fails())
    world.run_to(20)
    assert world.story() == (
        "completed_with_errors after 2 s: task a failed: boom (fail_fast)\n"
        "a failed (boom) [1 failed 0-1: boom]\n"
        "b success [1 success 1-2]"
    )


@pytest.mark.spec("X2")
def test_a_spared_task_that_fails_too_does_not_hide_the_failure_that_counts() -> None:
    world = World()
    world.job("etl", "a", "b", of_tasks={"b": {"failure": "continue"}})
    world.does("a", fails("boom"))
    world.does("b", fails("bang"))
    world.run_to(20)
    assert world.story() == (
        "failed after 2 s: task a failed: boom (fail_fast)\n"
        "a failed (boom) [1 failed 0-1: boom]\n"
        "b failed (bang) [1 failed 1-2: bang]"
    )


@pytest.mark.spec("X2")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_while_a_task_waits_to_retry_no_further_one_starts(mode: str) -> None:
    """In parallel all have begun by then, and what is in flight goes on."""
    world = World()
    world.job("etl", "a", "b", mode=mode, failure="retry_on_failure", retry=Retry(1, "5s"))
    world.does("a", fails(), works())
    world.does("b", works(3))
    world.run_to(20)
    b = {"sequential": "7-10", "parallel": "0-3"}[mode]
    took = {"sequential": 10, "parallel": 7}[mode]
    assert world.story() == (
        f"completed after {took} s (retry_on_failure)\n"
        "a success [1 failed 0-1: boom] [2 success 6-7] waits 5\n"
        f"b success [1 success {b}]"
    )
    world.at_rest()


@pytest.mark.spec("X2")
def test_when_its_retries_are_used_up_the_rest_is_skipped() -> None:
    world = World()
    world.job("etl", "a", "b", failure="retry_on_failure", retry=Retry(1, "5s"))
    world.does("a", fails())
    world.run_to(20)
    assert world.story() == (
        "failed after 7 s: task a failed after 2 attempts: boom (retry_on_failure)\n"
        "a failed (boom) [1 failed 0-1: boom] [2 failed 6-7: boom] waits 5\n"
        "b skipped (task a failed)"
    )


@pytest.mark.spec("X2")
def test_a_failing_peer_ends_the_wait_of_one_that_would_be_tried_again() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel", of_tasks={"a": {"retry": Retry(3, "1m")}})
    world.does("a", fails())
    world.does("b", fails("bang", 2))
    world.run_to(20)
    assert world.story() == (
        "failed after 2 s: task b failed: bang (fail_fast)\n"
        "a cancelled by task b failed [1 failed 0-1: boom]\n"
        "b failed (bang) [1 failed 0-2: bang]"
    )
    world.at_rest()


@pytest.mark.spec("X2")
def test_one_that_fails_while_it_is_being_cancelled_is_not_tried_again() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel", of_tasks={"a": {"retry": Retry(3, "1m")}})
    world.does("a", hangs(stops_after=2, stopped_as=fails("worse").outcome))
    world.does("b", fails())
    world.run_to(20)
    assert world.story() == (
        "failed after 3 s: task b failed: boom (fail_fast)\n"
        "a cancelled by task b failed (cancelled) [1 cancelled 0-3: cancelled]\n"
        "b failed (boom) [1 failed 0-1: boom]"
    )


SPARED = {"a": {"failure": "continue"}, "b": {"failure": "continue"}}


@pytest.mark.spec("X2")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize("how", ["a person", "the execution timeout", "a shutdown"])
def test_the_end_of_the_whole_spares_nobody(mode: str, how: str) -> None:
    world = World()
    world.job("etl", "a", "b", mode=mode, of_tasks=SPARED, execution_timeout="4s", on_shutdown="cancel")
    world.does("a", hangs())
    world.does("b", hangs())
    world.run_to(2)
    if how == "a person":
        world.cancel(by="anna")
        by, first = "anna", "cancelled after 2 s: anna (fail_fast)"
    elif how == "a shutdown":
        world.shut_down()
        by, first = "shutdown", "cancelled after 2 s: node a was shut down (fail_fast)"
    else:
        world.run_to(4)
        by, first = "execution timeout", "failed after 4 s: over its execution timeout of 4s (fail_fast)"
    world.run_to(20)
    end = 4 if how == "the execution timeout" else 2
    ended = f"cancelled by {by} (cancelled) [1 cancelled 0-{end}: cancelled]"
    if how == "a shutdown":
        ended = f"cancelled by {by} [1 cancelled 0-{end}: cancelled: node a was shut down]"
    b = f"b {ended}" if mode == "parallel" else f"b skipped ({by})"
    assert world.story() == f"{first}\na {ended}\n{b}"
    world.at_rest()
