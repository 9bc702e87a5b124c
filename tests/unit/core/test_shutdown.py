"""The end of a node (R9): what waits is given back, what runs is cancelled, and nothing on its way is left behind."""

from __future__ import annotations

import pytest

from itinerary.core import commands as c
from itinerary.core import messages as m
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, World
from tests.unit.core.scripted import hangs, ignores


@pytest.mark.spec("R9")
def test_a_shutdown_releases_what_waits_cancels_what_runs_and_ends_when_all_is_written() -> None:
    world = World()
    world.job("etl", schedule=every("6s"), overlap="allow")
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
    expected = ("prerun", None) if kept is c.Claim else ("cancelled", world.node)
    assert (row.status, row.owner) == expected
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
