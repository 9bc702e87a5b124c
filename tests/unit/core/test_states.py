"""The states that an occurrence goes through here (O1, O8): every way that the machine takes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from itinerary.core.loop.commands import Write
from itinerary.core.loop.events import OccurrenceEnded
from itinerary.core.loop.messages import OccurrenceAsked, WritesAnswered
from itinerary.model.attempts import AttemptKey, PodMoved
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.policies import Retry
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState
from itinerary.model.writes import Refusal, Refused
from itinerary.schedules import every
from tests.unit.core.bench import World
from tests.unit.core.scripted import Act, fails, hangs, says, works

CREATING, RUNNING = OccurrenceState.CONTAINER_CREATING, OccurrenceState.RUNNING
TERMINATING = OccurrenceState.TERMINATING
UNMET = "prerun pending condition_pending condition_running action_pending action_running"
READY = Requirement(python="app:ready", on_unmet=Unmet.WAIT, every="5s")


def plain(world: World) -> None:
    world.job("etl")


def queued(world: World) -> None:
    world.job("etl", schedule=every("3s"), overlap="queue")
    world.does("main", works(4))


def skipped(world: World) -> None:
    world.job("etl", schedule=every("3s"))
    world.does("main", works(4))


def requiring(answer: str) -> Callable[[World], None]:
    def notify(world: World) -> None:
        world.job("etl", requires=(READY,))
        world.does("python app:ready", says(answer), says("true"))

    return notify


def pod(act: Act) -> Callable[[World], None]:
    def notify(world: World) -> None:
        world.job("etl", retry=Retry(1, "2s"), task_timeout="5s")
        world.does("main", act, works())

    return notify


WAYS: list[tuple[str, Callable[[World], None], int, str]] = [
    ("completes", plain, 0, "prerun pending running completed"),
    ("waits in line", queued, 1, "prerun queued pending running completed"),
    ("is skipped", skipped, 1, "prerun skipped"),
    (
        "meets a requirement",
        requiring("true"),
        0,
        "prerun pending condition_pending condition_running running completed",
    ),
    (
        "waits for a requirement",
        requiring("false"),
        0,
        f"{UNMET} condition_pending condition_running running completed",
    ),
    (
        "is skipped by a requirement",
        requiring('"skip"'),
        0,
        f"{UNMET} skipped",
    ),
    (
        "is failed by a requirement",
        requiring('"fail"'),
        0,
        f"{UNMET} failed",
    ),
    (
        "a pod is created and runs",
        pod(works(3, moves=((0.5, CREATING), (2, RUNNING)))),
        0,
        "prerun pending running container_creating running completed",
    ),
    (
        "a pod is over before anybody saw it run",
        pod(works(3, moves=((0.5, CREATING),))),
        0,
        "prerun pending running container_creating running completed",
    ),
    (
        "a pod cannot be created",
        pod(fails(after=3, moves=((0.5, CREATING),))),
        0,
        "prerun pending running container_creating retrying pending running completed",
    ),
    (
        "a pod is ended while it is created",
        pod(hangs(1, moves=((0.5, CREATING),))),
        0,
        "prerun pending running container_creating terminating retrying pending running completed",
    ),
    (
        "a pod is being ended by itself",
        pod(works(3, moves=((0.5, CREATING), (1, RUNNING), (2, TERMINATING)))),
        0,
        "prerun pending running container_creating running terminating completed",
    ),
]


@pytest.mark.spec("O1")
@pytest.mark.spec("D3")
@pytest.mark.parametrize("way", WAYS, ids=[way[0] for way in WAYS])
def test_each_way_through_the_states(way: tuple[str, Callable[[World], None], int, str]) -> None:
    _, notify, place, trail = way
    world = World()
    notify(world)
    world.run_to(60)
    assert world.trail(world.rows[place].ref) == trail


@pytest.mark.spec("O1")
def test_the_ways_above_and_the_ends_below_use_every_state_that_a_live_node_can_reach() -> None:
    seen = {state for _, _, _, trail in WAYS for state in trail.split()}
    by_others = {"completed_with_errors", "failed_stale", "cancelled", "orphaned", "missed"}
    assert seen | by_others == {str(state) for state in OccurrenceState}


@pytest.mark.spec("O1")
@pytest.mark.parametrize("state", [state for state in OccurrenceState if state not in (CREATING, RUNNING, TERMINATING)])
def test_a_task_that_says_it_is_in_a_state_that_no_task_is_in_is_refused_and_logged(state: OccurrenceState) -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.run_to(1)
    world.report(PodMoved(AttemptKey(world.ref, 0, 1), state))
    assert [line["to"] for line in world.logged("transition.refused")] == [state]
    assert world.statuses == ["running"]


@pytest.mark.spec("O1")
def test_a_pod_that_goes_back_changes_nothing_that_the_table_has_no_way_for() -> None:
    world = World()
    world.job("etl")
    world.does("main", works(9, moves=((1, TERMINATING), (2, RUNNING), (3, CREATING))))
    world.run_to(60)
    assert world.trail() == "prerun pending running terminating completed"
    world.at_rest()


@pytest.mark.spec("O1")
def test_a_step_that_the_store_finds_illegal_ends_the_work_here_and_is_logged() -> None:
    """That would be a bug of ours: it costs this one occurrence, and nothing else."""
    world = World()
    world.job("etl", "a", "b", "c", mode="parallel")
    world.job("other")
    world.does("b", works(3))
    world.does("c", hangs())
    world.does("main", works(20))
    world.keep(Write)
    world.run_to(2)
    world.kept = []  # a write that never arrives: the next one is out of order
    world.keep()
    world.run_to(60)
    (line,) = world.logged("occurrence.lost")
    assert line["why"].startswith("illegal: write 3 came before write 2")
    assert world.script.killed == [AttemptKey(world.ref, 2, 1)]
    assert [row.status for row in world.rows if row.job == 2] == ["completed"]


@pytest.mark.spec("L7")
def test_one_that_the_store_had_to_fail_is_ended_here_and_told_of() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel")
    world.does("b", hangs())
    world.keep(Write)
    world.run_to(2)
    (kept,) = [command for command in world.kept if isinstance(command, Write)]
    world.kept = []
    world.send(WritesAnswered(kept.changes, [Refused(world.ref, Refusal.UNWRITABLE, "a write could not be stored")]))
    world.run_to(3)
    assert world.script.killed == [AttemptKey(world.ref, 1, 1)]
    (ended,) = [news for news in world.news if isinstance(news, OccurrenceEnded)]
    assert (ended.outcome, ended.why) == (OccurrenceState.FAILED, "a write could not be stored")
    world.at_rest()


@pytest.mark.spec("O1")
@pytest.mark.parametrize("end", sorted(FINAL))
def test_nothing_leaves_a_final_state(end: OccurrenceState) -> None:
    assert not TRANSITIONS[end]


@pytest.mark.spec("O8")
def test_several_tasks_show_as_running_then_creating_then_retrying() -> None:
    world = World()
    world.job("etl", "a", "b", "c", mode="parallel", failure="continue", of_tasks={"c": {"retry": Retry(1, "1m")}})
    world.does("a", works(4))
    world.does("b", works(8, moves=((1, CREATING),)))
    world.does("c", fails(after=2), works())
    seen = []
    for second in (1.5, 3, 5, 7, 9, 30):
        world.run_to(second)
        seen.append(str(world.ask(OccurrenceAsked(world.ref, "asked")).state))
    assert seen == ["running", "running", "container_creating", "container_creating", "retrying", "retrying"]
    world.run_to(100)
    assert world.trail() == "prerun pending running container_creating retrying pending running completed"


@pytest.mark.spec("O8")
def test_between_two_tasks_it_goes_on_running() -> None:
    world = World()
    world.job("etl", "a", "b", failure="continue", task_timeout="3s")
    world.does("a", hangs(stops_after=2))
    world.run_to(60)
    assert world.trail() == "prerun pending running completed_with_errors"
