"""Orchestrators that fall silent (O4), and clocks that jump (N6)."""

from __future__ import annotations

import pytest

from itinerary.core.loop.commands import Write
from itinerary.core.loop.messages import ClockDoubted, ClockJumped, OccurrenceAsked
from itinerary.model.attempts import AttemptKey, Ended, Succeeded
from itinerary.model.definition import Requirement
from itinerary.model.policies import Retry
from itinerary.model.report import OccurrenceReport
from itinerary.schedules import every
from itinerary.schedules.instants import from_seconds
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import fails, hangs, says, works


def hanging() -> World:
    world = World()
    world.job("etl", "a", "b", task_timeout="1h")
    world.does("a", hangs())
    world.run_to(1)
    return world


@pytest.mark.spec("O4")
def test_one_miss_per_whole_interval_and_any_heartbeat_resets() -> None:
    world = hanging()
    world.is_silent = True
    misses = []
    for second in (9.5, 10.5, 19.5, 20.5):
        world.run_to(second)
        misses.append(world.ask(OccurrenceAsked(world.ref, "asked")).misses)
    assert misses == [0, 1, 1, 2]
    world.is_silent = False
    world.run_to(29)
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert shown.misses == 0
    assert shown.last_heartbeat_at > START + 20 * SECOND
    world.is_silent = True
    world.run_to(45)
    assert world.statuses == ["running"]


@pytest.mark.spec("O4")
def test_after_the_allowed_misses_it_is_orphaned_and_says_when_it_was_last_seen() -> None:
    world = hanging()
    world.is_silent = True
    world.run_to(29)
    assert world.statuses == ["running"]
    world.run_to(36)
    why = f"no heartbeat since {START} (microseconds), "
    assert world.statuses == ["orphaned"]
    assert world.trail() == "prerun pending running orphaned"
    assert (world.rows[0].reason or "").startswith(why)
    a, b = world.detail().tasks
    assert (a.status, b.status) == ("failed", "skipped")
    assert world.detail().attempts[0].status == "failed"
    (line,) = world.logged("occurrence.orphaned")
    assert line["last_seen"] == START
    assert world.script.killed == [AttemptKey(world.ref, 0, 1)]
    world.at_rest()


@pytest.mark.spec("O4", "each miss is logged")
def test_each_missed_heartbeat_is_a_warning_with_the_count_and_the_limit() -> None:
    world = hanging()
    world.is_silent = True
    world.run_to(26)
    world.is_silent = False
    world.run_to(45)
    world.is_silent = True
    world.run_to(100)
    assert world.statuses == ["orphaned"]
    lines = world.logged("heartbeat.missed")
    assert [line["missed"] for line in lines] == [1, 2, 1, 2, 3], "a heartbeat starts the count anew"
    assert {line["max_missed_orchestrator_heartbeats"] for line in lines} == {3}
    assert {line["occurrence"] for line in lines} == {world.ref}
    assert lines[0]["run"] == f"etl:{START // SECOND}"


@pytest.mark.spec("X7", "orphaned")
@pytest.mark.parametrize("where", ["a task", "a wait to retry", "a requirement", "a hook"])
def test_hooks_hear_once_of_what_is_orphaned_by_missed_heartbeats(where: str) -> None:
    world = World()
    requires = (Requirement(python="app:ready", every="1h", deadline="2h"),) if where == "a requirement" else ()
    hooks = ("app:hello",) if where == "a hook" else ()
    world.job("etl", requires=requires, on_start=hooks, on_complete=("app:bye", "app:bye_too"), retry=Retry(1, "1h"))
    world.does("main", hangs() if where == "a task" else fails())
    world.does("python app:ready", says("false"))
    world.does("app:hello", hangs())
    world.is_silent = True
    world.run_to(120)
    assert world.statuses == ["orphaned"]
    told = [one for one in world.script.launched if one.facts.task.startswith("app:bye")]
    assert [one.facts.task for one in told] == ["app:bye", "app:bye_too"]
    assert all(isinstance(one.argument, OccurrenceReport) and one.argument.outcome == "orphaned" for one in told)
    assert isinstance(told[0].argument, OccurrenceReport)
    assert (told[0].argument.reason or "").startswith("no heartbeat since ")
    assert len(world.logged("occurrence.orphaned")) == 1
    world.at_rest()


@pytest.mark.spec("X7", "orphaned")
def test_silence_while_hooks_hear_of_an_end_changes_no_outcome() -> None:
    world = World()
    world.job("etl", on_complete=("app:bye",))
    world.does("app:bye", hangs())
    world.is_silent = True
    world.run_to(120)
    assert world.statuses == ["completed"]
    assert [name for name, _, _ in world.launches()] == ["main", "app:bye"]
    world.at_rest()


@pytest.mark.spec("O4")
def test_a_late_result_of_an_orphan_is_logged_and_changes_nothing() -> None:
    world = hanging()
    world.is_silent = True
    world.run_to(40)
    story, trail, before = world.story(), world.trail(), len(world.logged("attempt.late_report"))
    world.report(Ended(AttemptKey(world.ref, 0, 1), Succeeded('"late"')))
    assert len(world.logged("attempt.late_report")) == before + 1
    assert (world.story(), world.trail()) == (story, trail)


@pytest.mark.spec("O4")
def test_an_orphan_whose_next_task_was_about_to_begin_begins_nothing() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.run_to(0.5)
    world.keep(Write)
    world.is_silent = True
    world.run_to(40)
    world.let_go()
    world.run_to(50)
    assert world.statuses == ["orphaned"]
    assert world.launches() == [("a", 1, 0)]
    assert [task.status for task in world.detail().tasks] == ["success", "failed"]
    world.at_rest()


@pytest.mark.spec("O4")
@pytest.mark.parametrize("where", ["a wait to retry", "a requirement", "a hook"])
def test_it_may_be_orphaned_anywhere(where: str) -> None:
    world = World()
    requires = (Requirement(python="app:ready", every="1h", deadline="2h"),) if where == "a requirement" else ()
    hooks = ("app:hello",) if where == "a hook" else ()
    world.job("etl", requires=requires, on_start=hooks, retry=Retry(1, "1h"))
    world.does("main", fails())
    world.does("python app:ready", says("false"))
    world.does("app:hello", works(60))
    world.is_silent = True
    world.run_to(60)
    assert world.statuses == ["orphaned"]
    world.trail()
    world.at_rest()


@pytest.mark.spec("O4")
def test_a_loop_that_was_itself_away_gives_the_orchestrators_time_to_speak_again() -> None:
    """The machine slept, or somebody stopped the process: all of it was silent, and nobody is to blame."""
    world = hanging()
    world._shared[0] = START + 90 * SECOND
    world.turn()
    world.run(1)
    assert world.statuses == ["running"]
    world.is_silent = True
    world.run(36)
    assert world.statuses == ["orphaned"]


# -- jumps of the clock ----------------------------------------------------------------------------------------------


def jump(world: World, seconds: int) -> None:
    """The store's clock is set, and the node finds out."""
    world.send(ClockDoubted(seconds * SECOND))
    world.turn()
    world._shared[0] += seconds * SECOND
    world._ticks_at = world._beats_at = world.now
    world.script._events = [(at + seconds * SECOND, report) for at, report in world.script._events]
    world.send(ClockJumped(seconds * SECOND, "a test"))
    world.run()


@pytest.mark.spec("N6")
@pytest.mark.parametrize("seconds", [-1800, -50, 50, 1800])
def test_a_jump_ends_nothing_that_runs(seconds: int) -> None:
    world = World()
    world.job("etl", "a", "b", task_timeout="60s", execution_timeout="100s")
    world.does("a", works(30))
    world.does("b", hangs())
    world.run_to(10)
    jump(world, seconds)
    world.run(15)
    assert world.statuses[0] == "running"
    world.run(10)
    assert [name for name, _, _ in world.launches()][:2] == ["a", "b"]
    world.run(50)
    assert world.statuses[0] == "running"
    world.run(14)
    assert "execution timeout" in world.story() or "timed out" in world.story()


@pytest.mark.spec("N6")
@pytest.mark.parametrize("seconds", [-1800, 1800])
def test_a_wait_to_retry_is_as_long_as_it_was(seconds: int) -> None:
    world = World()
    world.job("etl", retry=Retry(1, "40s"))
    world.does("main", fails(), hangs())
    world.run_to(10)
    jump(world, seconds)
    world.run(30)
    assert len(world.script.launched) == 1
    world.run(2)
    assert len([one for one in world.script.launched if one.key.ref == world.script.launched[0].key.ref]) == 2


@pytest.mark.spec("N6")
def test_while_the_time_is_in_doubt_nothing_is_begun() -> None:
    world = World()
    world.job("etl")
    world.run_to(-1)
    world.send(ClockDoubted(10 * SECOND))
    world.run_to(5)
    assert world.launches() == []
    assert world.logged("clock.doubted")[0]["by_microseconds"] == 10 * SECOND
    world.send(ClockJumped(0, "a test"))
    world.run_to(6)
    assert world.launches() == [("main", 1, 5)]


@pytest.mark.spec("N6")
def test_what_lined_up_while_the_clock_was_ahead_waits_for_its_time_again() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("etl")
    world.does("main", works(30))
    world.job("late", "late", schedule=every("24h", start=from_seconds(START // SECOND + 8)))
    world.does("late", works())
    world.run_to(1)
    world._shared[0] += 8 * SECOND  # it is 9, as this node believes, and "late" waits for a slot
    world.run()
    assert len(world.scheduler._scheduler.line) == 1
    jump(world, -8)
    assert len(world.scheduler._scheduler.line) == 0
    world.run_to(60)
    assert [name for name, _, at in world.launches()] == ["main", "late"]
