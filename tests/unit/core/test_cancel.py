"""Cancelling (O5) in every state that is not final, and what leaves memory when (O6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from itinerary.core.loop.commands import Kill, Launch, Stop, Write
from itinerary.core.loop.messages import CancelRequested, OccurrenceAsked
from itinerary.model.attempts import AttemptKey
from itinerary.model.definition import Requirement
from itinerary.model.policies import Retry
from itinerary.model.rows import Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import TakeoverWrite
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, World
from tests.unit.core.scripted import fails, hangs, ignores, says, works


def in_prerun(world: World) -> None:
    world.job("etl")
    world.run_to(-1)


def queued(world: World) -> None:
    world.job("etl", schedule=every("4s"), overlap="queue")
    world.does("main", hangs())
    world.run_to(5)


def without_a_slot(world: World) -> None:
    world.job("etl", priority=-1)
    world.job("hog", "hog")
    world.job("other hog", "hog")
    world.does("hog", hangs())
    world.run_to(2)


def waiting_for_a_requirement(world: World) -> None:
    world.job("etl", requires=(Requirement(python="app:ready"),))
    world.does("python app:ready", says("false"))
    world.run_to(5)


def checking_a_requirement(world: World) -> None:
    world.job("etl", requires=(Requirement(python="app:ready"),))
    world.does("python app:ready", hangs())
    world.run_to(5)


def creating_a_pod(world: World) -> None:
    world.job("etl")
    world.does("main", hangs(moves=((1, OccurrenceState.CONTAINER_CREATING),)))
    world.run_to(5)


def running(world: World) -> None:
    world.job("etl")
    world.does("main", hangs(stops_after=3))
    world.run_to(5)


def terminating(world: World) -> None:
    world.job("etl", task_timeout="4s", retry=Retry(3, "1m"))
    world.does("main", hangs(stops_after=3))
    world.run_to(5)


def retrying(world: World) -> None:
    world.job("etl", retry=Retry(3, "1m"))
    world.does("main", fails())
    world.run_to(5)


STATES: list[tuple[str, Callable[[World], None]]] = [
    ("prerun", in_prerun),
    ("queued", queued),
    ("pending", without_a_slot),
    ("condition_pending", waiting_for_a_requirement),
    ("condition_running", checking_a_requirement),
    ("container_creating", creating_a_pod),
    ("running", running),
    ("terminating", terminating),
    ("retrying", retrying),
]


@pytest.mark.spec("O5")
@pytest.mark.parametrize("case", STATES, ids=[state for state, _ in STATES])
def test_cancel_works_in_every_state_and_a_second_one_changes_nothing(
    case: tuple[str, Callable[[World], None]],
) -> None:
    state, prepare = case
    world = World(max_concurrent_jobs=2)
    prepare(world)
    (ref,) = [row.ref for row in world.rows if row.status == state][:1]
    assert world.cancel(ref, by="anna").done or state == "queued", "a queued one is nobody's: its row is cancelled"
    if state != "queued":
        assert world.cancel(ref, by="bert").done
    world.run(world.settings.kill_grace / SECOND)
    detail = world.detail(ref)
    assert (detail.row.status, detail.row.reason, detail.row.cancelled_by) == ("cancelled", "anna", "anna")
    story, trail = world.story(ref), world.trail(ref)
    world.run(20)
    assert (world.story(ref), world.trail(ref)) == (story, trail)


@pytest.mark.spec("O5")
def test_what_does_not_hear_is_given_up_within_kill_grace() -> None:
    world = World(kill_grace=10 * SECOND)
    world.job("etl", "a", "b", mode="parallel")
    world.does("a", ignores())
    world.does("b", ignores())
    world.run_to(5)
    world.cancel(by="anna")
    world.run_to(14.9)
    assert world.statuses == ["terminating"]
    world.run_to(15)
    given_up = "cancelled by anna (cancelled, and given up) [1 cancelled 0-15: cancelled, and given up]"
    assert world.story() == f"cancelled after 15 s: anna (fail_fast)\na {given_up}\nb {given_up}"
    world.at_rest()


@pytest.mark.spec("O5")
def test_what_begins_and_is_cancelled_in_one_iteration_hears_of_it_after_it_has_begun() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.does("b", hangs())
    world.keep(Write)
    world.run_to(2)
    world.let_go(settle=False)
    world.send(CancelRequested(world.ref, "anna"))
    asked = world.turn()
    kinds = [type(command) for command in asked if isinstance(command, Launch | Stop)]
    assert kinds == [Launch, Stop]
    world.run_to(3)
    assert world.story() == (
        "cancelled after 2 s: anna (fail_fast)\n"
        "a success [1 success 0-1]\n"
        "b cancelled by anna (cancelled) [1 cancelled 2-2: cancelled]"
    )


@pytest.mark.spec("O5")
def test_what_was_about_to_begin_does_not() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.keep(Write)
    world.run_to(2)
    world.send(CancelRequested(world.ref, "anna"))
    world.run_to(3)
    world.let_go()
    assert world.launches() == [("a", 1, 0)]
    assert world.story() == (
        "cancelled after 3 s: anna (fail_fast)\na success [1 success 0-1]\nb cancelled by anna [1 cancelled -3]"
    )
    world.at_rest()


@pytest.mark.spec("L6")
def test_an_occurrence_that_has_ended_or_is_unknown_cannot_be_cancelled() -> None:
    world = World()
    world.job("etl")
    world.run_to(5)
    answer = world.ask(CancelRequested(world.ref, "anna", "asked"))
    assert (answer.done, answer.why) == (False, "it is over: completed")
    answer = world.ask(CancelRequested(Ref(1000), "anna", "asked"))
    assert (answer.done, answer.why) == (False, "it is not known here")
    assert [line["why"] for line in world.logged("request.refused")] == [
        "it is over: completed",
        "it is not known here",
    ]


@pytest.mark.spec("L6")
def test_what_another_node_has_taken_cannot_be_cancelled_here() -> None:
    world = World(loop_interval=60 * SECOND)
    world.job("etl")
    world.run_to(-1)
    world.intervene(TakeoverWrite(world.ref, 1, OccurrenceState.CANCELLED, "somebody did"))
    world.run_to(1)
    answer = world.ask(CancelRequested(world.ref, "anna", "asked"))
    assert (answer.done, answer.why) == (False, "it is no longer this node's")
    assert world.ask(OccurrenceAsked(world.ref, "asked")) is None


@pytest.mark.spec("L6")
def test_when_its_end_is_decided_a_cancellation_is_refused_and_says_so() -> None:
    world = World()
    world.job("etl", on_complete=("app:tell",))
    world.does("app:tell", works(5))
    world.run_to(3)
    answer = world.ask(CancelRequested(world.ref, "anna", "asked"))
    assert (answer.done, answer.why) == (False, "its end is decided: completed")
    world.run_to(10)
    assert world.statuses == ["completed"]


@pytest.mark.spec("N2")
def test_what_somebody_else_has_ended_is_ended_here_too() -> None:
    world = World()
    world.job("etl", "a", "b", mode="parallel")
    world.does("a", hangs())
    world.does("b", works(5))
    world.run_to(1)
    row = world.rows[0]
    world.intervene(TakeoverWrite(row.ref, row.fence, OccurrenceState.FAILED_STALE, "reaped"))
    world.run_to(10)
    assert world.statuses == ["failed_stale"]
    assert world.script.killed == [AttemptKey(row.ref, 0, 1)]
    assert len(world.logged("occurrence.lost")) == 1
    world.at_rest()


@pytest.mark.spec("N2")
def test_a_row_that_is_seen_to_be_anothers_is_let_go_at_once() -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.run_to(1)
    row = world.rows[0]
    world.intervene(TakeoverWrite(row.ref, row.fence, OccurrenceState.ORPHANED, "taken for dead"))
    world.read(row.ref)
    world.run()
    assert [command.attempts for command in world.commands if isinstance(command, Kill)] == [
        [AttemptKey(row.ref, 0, 1)]
    ]
    world.at_rest()


# -- what leaves memory ----------------------------------------------------------------------------------------------


def is_known(world: World) -> bool:
    return world.ask(OccurrenceAsked(world.ref, "asked")) is not None


@pytest.mark.spec("O6")
def test_what_is_over_leaves_memory_after_its_grace_period_and_its_rows_stay() -> None:
    world = World(grace_period=30 * SECOND)
    world.job("etl")
    world.run_to(30)
    assert is_known(world)
    world.run_to(31)
    assert not is_known(world)
    assert world.statuses == ["completed"]
    assert not world.scheduler._scheduler.known


@pytest.mark.spec("O6")
def test_what_is_not_durable_stays_in_memory_however_old() -> None:
    world = World(grace_period=5 * SECOND, loop_interval=1 * SECOND)
    world.job("etl")
    world.run_to(0.5)
    world.keep(Write)
    world.run_to(25)
    assert is_known(world)
    world.let_go()
    world.run_to(26)
    assert not is_known(world)


@pytest.mark.spec("O6")
def test_what_is_not_over_stays_in_memory_however_old() -> None:
    world = World(grace_period=5 * SECOND)
    world.job("etl")
    world.does("main", hangs())
    world.run_to(60)
    assert is_known(world)
    assert world.rows[0].status not in FINAL
