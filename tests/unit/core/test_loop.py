"""The loop as a whole (L3, L6, L8 to L10): its order, its answers, its bounds, and that it is a function."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.events import AttemptEnded
from itinerary.core.loop.occurrence import NodeContext
from itinerary.core.loop.replies import LoopStatistics
from itinerary.core.loop.scheduler import Scheduler
from itinerary.model.attempts import AttemptKey, Ended, Succeeded
from itinerary.model.policies import Retry
from itinerary.model.queries import StatisticsQuery
from itinerary.model.rows import JobNumber, NodeNumber, Ref
from itinerary.model.settings import Settings
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World, done
from tests.unit.core.scripted import fails, hangs, works


@pytest.mark.spec("L3")
def test_what_comes_within_reach_is_claimed_before_messages_are_heard_and_time_is_looked_at_after() -> None:
    """In one iteration: the claim of the next one, the report of this one, and its end."""
    world = World(pre_schedule_interval=10 * SECOND)
    world.job("etl", schedule=every("12s"))
    world.does("main", hangs())
    world.run_to(2)
    world.script.report(Ended(AttemptKey(world.ref, 0, 1), Succeeded()))
    world._shared[0] = START + 2 * SECOND + 1
    world.inbox.append(m.AttemptsReported(world.script.due()))
    asked = world.turn()
    kinds = [type(command) for command in asked if isinstance(command, c.Write | c.Claim | c.Announce)]
    assert kinds == [c.Write, c.Claim, c.Announce]
    (told,) = [command for command in asked if isinstance(command, c.Announce)]
    assert [type(item) for item in told.news] == [AttemptEnded], "of its end only when that is written"
    (claim,) = [command for command in asked if isinstance(command, c.Claim)]
    assert [item.key.instant for item in claim.wanted] == [START + 12 * SECOND]


@pytest.mark.spec("L3")
def test_only_what_is_due_from_the_grace_period_on_is_claimed() -> None:
    world = World(grace_period=30 * SECOND, pre_schedule_interval=10 * SECOND)
    world.job("etl", schedule=every("1s"), overlap="allow")
    world.keep(c.RebuildIndex)
    world.run_to(100)
    world.keep()
    world.rebuild()
    world.turn()
    asked = world.turn()
    (claim,) = [command for command in asked if isinstance(command, c.Claim)]
    seconds = [(item.key.instant - START) // SECOND for item in claim.wanted]
    assert seconds == list(range(70, 110)), "[now - grace_period, now + pre_schedule_interval)"


@pytest.mark.spec("L3")
def test_what_grew_too_old_while_no_work_was_taken_is_left_to_the_sweep() -> None:
    world = World(grace_period=5 * SECOND, pre_schedule_interval=2 * SECOND)
    world.job("etl", schedule=every("1s"), overlap="allow")
    world.run_to(0.5)
    world.send(m.ClockDoubted(SECOND))
    world.run_to(20.5)
    before = max(row.instant for row in world.rows)
    world.send(m.ClockJumped(0, "a test"))
    world.run_to(21)
    later = [(row.instant - START) // SECOND for row in world.rows if row.instant > before]
    assert later[0] == 16


@pytest.mark.spec("L9")
def test_an_index_that_is_built_again_and_again_schedules_nothing_twice() -> None:
    world = World()
    world.job("etl", schedule=every("5s"), overlap="allow")
    world.does("main", works(7))
    for second in range(0, 400, 3):
        world.run_to(second / 10)
        world.rebuild()
    world.run_to(60)
    claimed = [item.key for command in world.commands if isinstance(command, c.Claim) for item in command.wanted]
    assert len(claimed) == len(set(claimed))
    launched = [one.facts.key.instant for one in world.script.launched]
    assert launched == [START + seconds * SECOND for seconds in range(0, 61, 5)]


@pytest.mark.spec("L9")
def test_an_index_built_at_the_very_moment_that_something_leaves_memory_does_not_bring_it_back() -> None:
    world = World(grace_period=30 * SECOND)
    world.job("etl")
    world.run_to(30)
    world.rebuild()
    world.run_to(30)
    world.rebuild()
    world.run_to(31)
    claims = [command for command in world.commands if isinstance(command, c.Claim)]
    assert len(claims) == 1


@pytest.mark.spec("L9")
@pytest.mark.spec("N1")
def test_two_nodes_share_the_instants_and_nobody_runs_one_twice() -> None:
    world = World()
    other = World(beside=world, name="b")
    world.job("etl", schedule=every("5s"), overlap="allow")
    world.run_to(63)
    started = [one.facts.key.instant for one in (*world.script.launched, *other.script.launched)]
    assert sorted(started) == [START + seconds * SECOND for seconds in range(0, 61, 5)]
    world.at_rest()
    other.at_rest()


@pytest.mark.spec("L10")
def test_statistics_are_one_row_per_interval() -> None:
    world = World(loop_interval=1 * SECOND)
    world.job("etl")
    world.does("main", hangs())
    world.run_to(5)
    rows = done(world.store.read(StatisticsQuery(world.node)))
    assert [row.at - START for row in rows] == [seconds * SECOND for seconds in range(-2, 6)]
    assert rows[-1].active == 1
    assert rows[-1].index_size == 1
    assert all(row.iterations >= 1 for row in rows)
    assert sum(row.messages for row in rows) >= 3, "an index, a claim, a start"
    assert all(row.total_us >= row.iterations for row in rows), "each took one, by somebody's clock"


@pytest.mark.spec("L6", "questions")
def test_the_loop_answers_questions() -> None:
    world = World(max_concurrent_jobs=1)
    number = world.job("etl", priority=1)
    world.job("late")
    world.does("main", hangs())
    world.run_to(12)
    first = world.ask(m.OccurrenceAsked(world.rows[0].ref, "asked"))
    assert (first.job, first.state, first.started_at, first.misses) == ("etl", "running", START, 0)
    assert first.last_heartbeat_at > START
    active = world.ask(m.ActiveAsked("asked"))
    assert [(one.job, one.state, one.waits_for) for one in active] == [
        ("etl", "running", ""),
        ("late", "pending", "a slot of node a, 1 in line"),
    ]
    status = world.ask(m.JobAsked(number, "asked"))
    assert (status.job, status.version, status.active) == ("etl", 1, (world.ask(m.ActiveAsked("asked"))[0],))
    statistics = world.ask(m.StatisticsAsked("asked"))
    assert isinstance(statistics, LoopStatistics)
    assert (statistics.active, statistics.index_size, statistics.waiting, statistics.free_slots) == (1, 2, 1, 0)
    assert statistics.iterations > 10


@pytest.mark.spec("L6", "questions")
def test_what_is_unknown_is_answered_with_nothing() -> None:
    world = World()
    world.job("etl", schedule=every("7h"))
    assert world.ask(m.OccurrenceAsked(Ref(99), "asked")) is None
    assert world.ask(m.JobAsked(JobNumber(99), "asked")) is None
    assert world.ask(m.ActiveAsked("asked")) == []


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    "request_", [m.CancelRequested(Ref(99), "anna", "asked"), m.ConfigurationUpdated(Ref(99), "{}", 1, "asked")]
)
def test_a_request_about_what_is_unknown_is_refused_logged_and_answered(request_: m.Message) -> None:
    world = World()
    answer = world.ask(request_)
    assert (answer.done, answer.why) == (False, "it is not known here")
    (line,) = world.logged("request.refused")
    assert line["request"] == type(request_).__name__


@pytest.mark.spec("L6")
def test_claims_that_no_store_can_take_are_logged_and_not_asked_for_again() -> None:
    world = World()
    world.job("etl")
    world.keep(c.Claim)
    world.run_to(-1)
    (claim,) = [command for command in world.kept if isinstance(command, c.Claim)]
    world.kept = []
    world.send(m.Unclaimable(claim.wanted, "a poisoned row"))
    world.run_to(20)
    assert world.logged("occurrences.unclaimable")[0]["jobs"] == ["etl"]
    assert not world.kept
    world.at_rest()


# -- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L8")
def test_with_too_much_unwritten_no_new_work_is_taken_and_after_a_minute_the_node_stops() -> None:
    world = World(max_buffered_updates=2)
    for name in ("a", "b", "c"):
        world.job(name)
    world.job("next", "next", schedule=every("7s"))
    world.run_to(0.5)
    world.keep(c.Write)
    world.run_to(2)
    assert world.logged("node.takes_no_work")[0]["unwritten"] == 3
    launched = len(world.script.launched)
    world.run_to(60.5)
    assert len(world.script.launched) == launched
    assert world.exited is None
    world.run_to(62)
    assert world.exited is not None
    assert world.exited.error is not None
    assert "3 updates could not be written for 60 s, and 2 are allowed (max_buffered_updates)" in world.exited.error
    assert world.exited.unfinished == 3


@pytest.mark.spec("L8")
def test_when_it_is_written_after_all_work_is_taken_again() -> None:
    world = World(max_buffered_updates=2)
    for name in ("a", "b", "c"):
        world.job(name)
    world.job("next", "next", schedule=every("7s"))
    world.run_to(0.5)
    world.keep(c.Write)
    world.run_to(30)
    world.let_go()
    world.run_to(40)
    assert len(world.logged("node.takes_work_again")) == 1
    assert any(name == "next" and at >= 30 for name, _, at in world.launches())
    assert world.exited is None


# -- a function ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L2")
def test_the_same_inputs_give_the_same_commands() -> None:
    class Recorded(World):
        def turn(self, *messages: m.Message) -> list[c.Command]:
            self.inputs.append((self.now, [*self.inbox, *messages]))
            return super().turn(*messages)

        inputs: list[tuple[int, list[m.Message]]]

    world = Recorded(max_concurrent_jobs=2)
    world.inputs = []
    world.job("a", "x", "y", mode="parallel", schedule=every("3s"), overlap="queue", retry=Retry(2, "1s", jitter="2s"))
    world.job("b", schedule=every("4s"), overlap="replace")
    world.does("x", fails(), works())
    world.does("y", hangs(stops_after=2))
    world.does("main", works(5))
    world.run_to(20)
    world.cancel(by="anna")
    world.run_to(40)
    world.shut_down()
    world.run_to(80)
    node = NodeContext(NodeNumber(world.node), "a", world.settings.kill_grace, world.settings.late_for)
    again = Scheduler(Settings(max_concurrent_jobs=2), node)
    asked: list[Any] = []
    for now, messages in world.inputs:
        asked += again.iterate(now, messages, inbox_depth=0, took=1)
    assert len(asked) > 200
    assert [_plain(command) for command in asked] == [_plain(command) for command in world.commands]


def _plain(command: c.Command) -> Any:
    return msgspec.to_builtins(command, enc_hook=str) if not isinstance(command, c.Reply) else str(command)
