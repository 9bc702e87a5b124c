"""The end of a node (R9): what waits is given back, what runs follows `on_shutdown`, and no run is lost."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.model.attempts import Stopped
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.policies import OnShutdown, Retry
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, World
from tests.unit.core.scripted import Act, fails, hangs, ignores, says, works


@pytest.mark.spec("R9")
def test_a_shutdown_releases_what_waits_cancels_what_runs_and_ends_when_all_is_written() -> None:
    world = World()
    world.job("etl", schedule=every("6s"), overlap="allow", on_shutdown="cancel")
    world.does("main", hangs(stops_after=2))
    world.run_to(1)
    assert world.statuses == ["running", "prerun"]
    world.shut_down()
    assert world.exited is None
    world.run_to(3)
    assert world.exited == c.Exit(0, None)
    assert world.story().startswith("cancelled after 3 s: node a was shut down")
    waiting = world.rows[1]
    assert (waiting.status, waiting.owner) == ("prerun", None)
    world.at_rest()


@pytest.mark.spec("R9")
def test_what_does_not_end_within_the_grace_period_is_left_and_counted() -> None:
    world = World(shutdown_grace_period=5 * SECOND, kill_grace=60 * SECOND)
    world.job("etl")
    world.does("main", ignores())
    world.run_to(1)
    world.shut_down()
    world.run_to(5.9)
    assert world.exited is None
    world.run_to(6)
    assert world.exited == c.Exit(1, None)


@pytest.mark.spec("R9")
@pytest.mark.parametrize("kept", [c.Claim, c.StartRuns])
def test_a_shutdown_waits_for_claims_and_starts_that_are_on_their_way(kept: type[c.Command]) -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.keep(kept)
    world.run_to(0.5)
    world.shut_down()
    world.run_to(2)
    assert world.exited is None
    world.let_go()
    world.run_to(5)
    assert world.exited == c.Exit(0, None)
    row = world.rows[0]
    assert (row.status, row.owner) == ("prerun" if kept is c.Claim else "retrying", None)
    assert world.launches() == []
    world.at_rest()


@pytest.mark.spec("R9")
def test_claims_of_the_very_iteration_that_hears_of_the_shutdown_are_waited_for() -> None:
    world = World()
    world.job("etl")
    world.keep(c.Claim)
    world.turn()
    world.turn()
    assert world.scheduler.next_at == 0, "there is an index to be gone through"
    asked = world.turn(m.ShutdownRequested("now"))
    assert any(isinstance(command, c.Claim) for command in asked)
    assert world.exited is None


@pytest.mark.spec("R9")
def test_a_second_shutdown_changes_nothing() -> None:
    world = World(shutdown_grace_period=5 * SECOND, kill_grace=60 * SECOND)
    world.job("etl")
    world.does("main", ignores())
    world.run_to(1)
    world.shut_down()
    world.run_to(4)
    world.shut_down()
    world.run_to(6)
    assert world.exited == c.Exit(1, None)
    assert len(world.logged("node.shutting_down")) == 1


# -- what runs follows its job ---------------------------------------------------------------------------------------

POLICIES = tuple(OnShutdown)
RUNS_AGAIN = "node a was shut down while it ran; another node, or the next start, runs it again"


def whys(world: World) -> list[str]:
    """Why the first occurrence went from state to state, where its trail says so."""
    return [f"{line.after}: {line.why}" for line in world.detail().transitions if line.why is not None]


def shut_down_at(world: World, seconds: float) -> None:
    """Shut a node down, and let it come to its end."""
    world.run_to(seconds)
    world.shut_down()
    world.run(40)
    assert world.exited == c.Exit(0, None)
    world.at_rest()


@pytest.mark.spec("R9", "finish")
def test_by_default_what_runs_may_finish_with_the_tasks_that_follow() -> None:
    world = World()
    world.job("etl", "a", "b", schedule=every("1h"))
    world.does("a", works(5))
    world.does("b", works(6))
    shut_down_at(world, 2)
    assert world.story() == "completed after 11 s (fail_fast)\na success [1 success 0-5]\nb success [1 success 5-11]"
    assert world.script.stopped == []


@pytest.mark.spec("R9", "finish")
def test_what_has_not_finished_when_the_grace_period_less_the_kill_grace_is_over_is_cancelled_then() -> None:
    world = World(shutdown_grace_period=20 * SECOND, kill_grace=5 * SECOND)
    world.job("etl", "a", "b")
    world.does("a", hangs(stops_after=1))
    world.run_to(2)
    world.shut_down()
    world.run_to(16.9)
    assert world.script.stopped == []
    world.run_to(17)
    assert len(world.script.stopped) == 1
    world.run_to(18)
    assert world.exited == c.Exit(0, None)
    assert world.story() == (
        "cancelled after 18 s: node a was shut down (fail_fast)\n"
        "a cancelled by shutdown [1 cancelled 0-18: cancelled: node a was shut down]\nb skipped (shutdown)"
    )
    assert "retrying" not in world.trail()


@pytest.mark.spec("R9", "cancel")
def test_what_shall_be_cancelled_is_cancelled_at_once() -> None:
    world = World()
    world.job("etl", on_shutdown="cancel", retry=Retry(3, "1s"))
    world.does("main", hangs())
    shut_down_at(world, 2)
    assert world.story() == (
        "cancelled after 2 s: node a was shut down (fail_fast)\n"
        "main cancelled by shutdown [1 cancelled 0-2: cancelled: node a was shut down]"
    )


@pytest.mark.spec("R9", "rerun")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_what_shall_run_again_is_interrupted_given_back_and_continued_by_another_node(mode: str) -> None:
    world = World()
    world.job("etl", "a", "b", on_shutdown="rerun", mode=mode, on_orphan="leave")
    world.does("a", works(1))
    world.does("b", hangs())
    shut_down_at(world, 3)
    row = world.rows[0]
    assert (row.status, row.owner, row.fence) == ("retrying", None, 2)
    assert whys(world)[-1] == f"retrying: {RUNS_AGAIN}"
    other = World(beside=world, name="b")
    other.job("spare", schedule=every("2h"))
    other.does("b", works(2))
    other.run(10)
    assert other.launches()[0][:2] == ("b", 2), "what was done is not done again"
    detail = other.detail(row.ref)
    assert [(one.place, one.status, one.error) for one in detail.attempts] == [
        (0, "success", None),
        (1, "cancelled", "cancelled: node a was shut down"),
        (1, "success", None),
    ]
    assert (detail.row.status, detail.row.owner) == ("completed", other.node)


@pytest.mark.spec("R9", "rerun")
def test_being_interrupted_costs_no_retry_however_often_it_happens() -> None:
    world = World()
    world.job("etl", on_shutdown="rerun", retry=Retry(1, "2s"))
    world.does("main", hangs())
    shut_down_at(world, 1)
    for number in range(12):
        other = World(beside=world, name=f"b{number}")
        other.job(f"spare {number}", schedule=every("2h"))
        other.does("main", hangs())
        other.run(2)
        shut_down_at(other, (other.now - world.rows[0].due_at) / SECOND)
    last = World(beside=world, name="last")
    last.job("spare", schedule=every("2h"))
    last.does("main", fails(after=1))
    last.run(10)
    detail = last.detail(world.rows[0].ref)
    assert [one.status for one in detail.attempts] == ["cancelled"] * 13 + ["failed"] * 2
    assert detail.row.status == "failed"


@pytest.mark.spec("R9", "rerun")
def test_what_succeeds_although_it_was_asked_to_end_is_done() -> None:
    world = World()
    world.job("etl", on_shutdown="rerun")
    world.does("main", hangs(stops_after=1, stopped_as=works().outcome))
    shut_down_at(world, 2)
    assert world.statuses == ["completed"]


@pytest.mark.spec("R9", "rerun")
def test_what_was_given_up_is_continued_only_when_its_node_has_left() -> None:
    """What does not listen may go on in the old process until that ends."""
    world = World(kill_grace=3 * SECOND)
    world.job("etl", on_shutdown="rerun")
    world.does("main", ignores())
    shut_down_at(world, 2)
    row = world.rows[0]
    assert (row.status, row.owner) == ("retrying", world.node)
    assert world.detail().attempts[0].error == "cancelled, and given up: node a was shut down"


# -- what does not run is given back, whatever its job says ----------------------------------------------------------

STAGES: dict[str, tuple[dict[str, Any], dict[str, Act], float]] = {
    "waits for a requirement": (
        {"requires": (Requirement(file="x", every="60s", deadline="1h"),)},
        {"file x": says("false")},
        2,
    ),
    "waits to retry": ({"retry": Retry(3, "60s")}, {"main": fails(after=1)}, 2),
    "its function was not called": ({}, {"main": hangs(stopped_as=Stopped(was_called=False))}, 2),
}
"""By stage: the job, what happens in it, and when the node is shut down."""


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stage", STAGES)
def test_an_occurrence_of_which_nothing_runs_is_given_back(stage: str, policy: OnShutdown) -> None:
    definition, acts, seconds = STAGES[stage]
    world = World()
    world.job("etl", on_shutdown=policy, **definition)
    for name, act in acts.items():
        world.does(name, act)
    shut_down_at(world, seconds)
    row = world.rows[0]
    assert row.owner is None
    assert row.status in ("retrying", "condition_pending")
    assert row.expires_at is not None
    assert row.expires_at > world.now + 365 * 86_400 * SECOND, "the next start may be far"
    other = World(beside=world, name="b")
    other.job("spare", schedule=every("2h"))
    other.does("file x", says("true"))
    other.run(100)
    detail = other.detail(row.ref)
    assert detail.row.status == "completed"
    assert detail.attempts[-1].status == "success"


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("policy", POLICIES)
def test_an_occurrence_whose_start_was_on_its_way_is_given_back_uncalled(policy: OnShutdown) -> None:
    world = World()
    world.job("etl", on_shutdown=policy, limits=("api",))
    world.keep(c.StartRuns)
    world.run_to(0.5)
    world.shut_down()
    world.let_go()
    assert world.exited == c.Exit(0, None)
    assert world.launches() == []
    (attempt,) = world.detail().attempts
    assert attempt.error == "cancelled before its function was called: node a was shut down"
    assert (world.rows[0].status, world.rows[0].owner, world.rows[0].holds) == ("retrying", None, None)
    world.at_rest()


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_task_whose_row_was_being_written_is_not_begun_unless_the_run_may_finish(policy: OnShutdown) -> None:
    world = World()
    world.job("etl", "a", "b", on_shutdown=policy)
    world.keep(c.Write)
    world.run_to(2)
    world.shut_down()
    world.let_go()
    world.run(30)
    assert world.exited == c.Exit(0, None)
    finishes = policy is OnShutdown.FINISH
    assert [task for task, *_ in world.launches()] == (["a", "b"] if finishes else ["a"])
    assert world.statuses == (["completed"] if finishes else ["retrying"])
    world.at_rest()


@pytest.mark.spec("R9", "release")
@pytest.mark.parametrize("policy", POLICIES)
def test_what_waits_for_a_share_of_a_limit_to_go_on_is_given_back(policy: OnShutdown) -> None:
    world = World(limits={"api": 1})
    world.job("etl", on_shutdown=policy, limits=("api",), retry=Retry(3, "2s"))
    world.does("main", fails(after=1))
    world.job("other", limits=("api",), schedule=every("1h", start="2027-01-15T08:00:02Z"), on_shutdown="cancel")
    world.run_to(1.5)
    world.does("main", hangs())
    world.run_to(8)
    assert world.detail(world.ref).row.status == "retrying"
    world.shut_down()
    world.run(40)
    row = next(row for row in world.rows if row.ref == world.ref)
    assert (row.status, row.owner, row.holds) == ("retrying", None, None)
    assert [one.error for one in world.detail(row.ref).attempts] == [
        "boom",
        "cancelled before its function was called: node a was shut down",
    ]
    assert len(world.launches()) == 2
    world.at_rest()


ACTS_ON_IT = (Requirement(python="app:ready", on_unmet=Unmet.ACT, action="app:act", deadline="1h"),)


@pytest.mark.spec("R9")
@pytest.mark.parametrize(
    ("policy", "outcome"),
    [(OnShutdown.FINISH, "cancelled"), (OnShutdown.CANCEL, "cancelled"), (OnShutdown.RERUN, "condition_pending")],
)
def test_what_is_done_about_a_requirement_runs_and_follows_the_policy(policy: OnShutdown, outcome: str) -> None:
    world = World()
    world.job("etl", requires=ACTS_ON_IT, on_shutdown=policy)
    world.does("python app:ready", says("false"))
    world.does("app:act", hangs())
    shut_down_at(world, 2)
    assert world.statuses == [outcome]


@pytest.mark.spec("R9")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("what", ["a requirement", "a hook"])
def test_a_question_or_a_hook_before_the_tasks_is_asked_again_elsewhere(what: str, policy: OnShutdown) -> None:
    world = World()
    if what == "a hook":
        world.job("etl", on_start=("app:hook",), on_shutdown=policy)
        world.does("app:hook", hangs())
    else:
        world.job("etl", requires=(Requirement(python="app:ready", deadline="1h"),), on_shutdown=policy)
        world.does("python app:ready", hangs())
    shut_down_at(world, 2)
    assert world.rows[0].owner is None
    other = World(beside=world, name="b")
    other.job("spare", schedule=every("2h"))
    other.does("python app:ready", says("true"))
    other.run(20)
    assert other.detail(world.rows[0].ref).row.status == "completed"


@pytest.mark.spec("R9")
@pytest.mark.parametrize("policy", POLICIES)
def test_hooks_of_the_end_are_told_before_the_node_leaves(policy: OnShutdown) -> None:
    world = World()
    world.job("etl", on_complete=("app:hook",), on_shutdown=policy)
    world.does("app:hook", works(8))
    shut_down_at(world, 2)
    assert world.statuses == ["completed"]
    assert [task for task, *_ in world.launches()] == ["main", "app:hook"]


@pytest.mark.spec("R9", "release")
def test_what_was_being_taken_over_when_the_shutdown_came_is_handed_on() -> None:
    world = World()
    world.job("etl", on_shutdown="rerun")
    world.does("main", hangs())
    shut_down_at(world, 1)
    other = World(beside=world, name="b")
    other.job("spare", schedule=every("2h"))
    other.keep(c.TakeUp)
    other.run(3)
    assert len(other.kept) == 1
    other.shut_down()
    other.let_go()
    other.run(5)
    assert other.exited == c.Exit(0, None)
    row = world.rows[0]
    assert (row.status, row.owner, row.fence) == ("retrying", None, 4)
    assert other.launches() == []
    other.at_rest()
