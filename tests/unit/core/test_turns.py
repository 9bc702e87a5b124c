"""A node that stood still has several late instants of a job: they run one after another, and none is skipped."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from itinerary.core.loop import commands as c
from itinerary.core.loop.messages import OccurrenceAsked
from itinerary.core.loop.occurrence import Stage
from itinerary.core.loop.starts import _MARKS_A_SECOND
from itinerary.core.loop.timers import TimerQueue
from itinerary.core.loop.turns import WAIT_MAX, RunOrder
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import hangs, works

JOBS = 40
STOPPED_FOR = 10


def stopped(jobs: int = JOBS, takes: float = 0.01, slots: int = 1_000, **overrides: Any) -> World:
    """A node with so many jobs that are due each second has been stopped for ten seconds, and has just gone on."""
    world = World(max_concurrent_jobs=slots)
    for number in range(jobs):
        world.job(f"job {number}", schedule=every("1s"), is_heard=number == jobs - 1, **overrides)
    world.does("main", works(takes))
    world.run_to(12.5)
    world.commands.clear()
    world._shared[0] += STOPPED_FOR * SECOND
    return world


def started(world: World) -> dict[str, list[tuple[int, float]]]:
    """By job: which instant started when, in seconds."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for one in world.script.launched:
        instant = (one.facts.key.instant - START) // SECOND
        found[one.facts.job].append((instant, (one.facts.started_at - START) / SECOND))
    return found


@pytest.mark.spec("X6", "what is late together runs in order")
@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_after_a_stop_all_late_instants_run_in_order_and_none_is_skipped(overlap: str) -> None:
    world = stopped(overlap=overlap)
    world.run_to(30.5)
    assert {str(row.status) for row in world.rows if row.instant <= START + 30 * SECOND} == {"completed"}
    for runs in started(world).values():
        assert [instant for instant, _ in runs] == list(range(-3, 31)), "each instant once, and in order"
    assert not world.logged("occurrence.skipped")
    assert not world.logged("occurrence.queued")
    world.at_rest()


@pytest.mark.spec("P4", "what is late starts in bulk")
def test_late_runs_cost_a_batch_for_each_instant_and_not_a_decision_for_each_run() -> None:
    world = stopped()
    late = {row.ref for row in world.rows if row.started_at is None and row.due_at <= world.now}
    assert len(late) == JOBS * STOPPED_FOR
    world.run()
    world.run_to(23.4)
    batches = [[one for one in command.starts if one.ref in late] for command in world.commands
               if isinstance(command, c.StartRuns)]  # fmt: skip
    batches = [batch for batch in batches if batch]
    assert sum(map(len, batches)) == len(late), "each is asked for once"
    assert all(len({one.job for one in batch}) == len(batch) for batch in batches), "and has its job's slot for itself"
    assert len(batches) <= 3 * STOPPED_FOR
    assert all(world.trail(ref) == "prerun pending running completed" for ref in list(late)[:20])


@pytest.mark.spec("X6", "allow")
def test_where_runs_may_overlap_all_late_instants_start_at_once() -> None:
    world = stopped(jobs=2, takes=3.0, overlap="allow")
    now = (world.now - START) / SECOND
    world.run()
    for runs in started(world).values():
        assert [at for instant, at in runs if 12 < instant <= 22] == [now] * STOPPED_FOR


@pytest.mark.spec("X6", "what is late together runs in order")
def test_a_late_run_that_takes_long_makes_the_next_ones_queue_in_the_store() -> None:
    world = stopped(jobs=1, takes=5.0)
    world.run_to((world.now - START) / SECOND + WAIT_MAX / SECOND + 0.1)
    late = [row for row in world.rows if 13 <= (row.instant - START) // SECOND <= 22]
    assert late[0].status is OccurrenceState.RUNNING
    assert {row.status for row in late[1:]} == {OccurrenceState.QUEUED}, "explain says what they wait for"
    world.run_to(80)
    ran = [instant for instant, _ in started(world)["job 0"]]
    assert ran == sorted(ran)
    assert set(range(13, 23)) <= set(ran), "nothing ran when these were due"


@pytest.mark.spec("X6", "skip")
def test_a_run_that_is_on_time_is_skipped_at_once_for_one_that_began_in_time() -> None:
    world = World()
    world.job("slow", schedule=every("2s"))
    world.does("main", works(3.0))
    world.run_to(2.0)
    rows = {(row.instant - START) // SECOND: str(row.status) for row in world.rows}
    assert [rows[instant] for instant in (-2, 0)] == ["completed", "skipped"]


@pytest.mark.spec("O5")
def test_a_run_that_is_cancelled_while_it_waits_lets_the_next_one_pass() -> None:
    world = stopped(jobs=1, takes=0.5)
    world.run()
    second = next(row for row in world.rows if row.instant == START + 14 * SECOND)
    assert second.status is OccurrenceState.PRERUN
    shown = world.ask(OccurrenceAsked(second.ref, "asked"))
    assert shown.waits_for == "an earlier run of its job, which is late, too"
    world.cancel(second.ref)
    world.run_to(39.9)
    assert [instant for instant, _ in started(world)["job 0"] if instant < 20] == [*range(-3, 14), *range(15, 20)]
    world.at_rest()


@pytest.mark.spec("R6")
def test_a_start_that_is_refused_for_a_new_version_and_comes_back_blocks_nobody() -> None:
    world = stopped(jobs=1, takes=0.1, slots=1)
    world.job("hog", "hog", schedule=every("1h"))
    world.keep(c.StartRuns)
    world.run()
    world.job("job 0", schedule=every("1s"), is_heard=False)
    world.let_go()
    world.run_to(60.5)
    ran = [instant for instant, _ in started(world)["job 0"]]
    assert sorted(ran) == list(range(-3, 61)), "each ran, and once"
    world.at_rest()


@pytest.mark.spec("R9")
def test_a_node_that_shuts_down_gives_back_what_waits() -> None:
    world = stopped(jobs=2, takes=0.5)
    world.run()
    world.shut_down()
    world.run(5)
    waiting = [row for row in world.rows if row.started_at is None]
    assert len(waiting) >= 2 * (STOPPED_FOR - 1)
    assert {row.owner for row in waiting} == {None}


@pytest.mark.spec("X1")
def test_a_run_behind_one_that_lacks_a_slot_is_marked_pending_like_that_one() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("long", "long", priority=1)
    tick = world.job("tick", schedule=every("1s"))
    world.does("main", works(0.1))
    world.does("long", hangs())
    world.run_to(10.5)
    ticks = [row for row in world.rows if row.job == tick and START < row.due_at <= START + 7 * SECOND]
    assert [str(row.status) for row in ticks] == ["pending"] * 7


@pytest.mark.spec("X1")
def test_marks_of_runs_that_lack_a_slot_are_bounded() -> None:
    world = World(max_concurrent_jobs=1)
    for number in range(_MARKS_A_SECOND + 100):
        world.job(f"job {number}", is_heard=number == _MARKS_A_SECOND + 99)
    world.does("main", hangs())
    world.run_to(0.5)
    marks = [change for command in world.commands if isinstance(command, c.Write) for change in command.changes]
    assert len(marks) == _MARKS_A_SECOND
    world.run_to(3.5)
    marks = [change for command in world.commands if isinstance(command, c.Write) for change in command.changes]
    assert len(marks) == _MARKS_A_SECOND + 99, "the others follow"


@pytest.mark.spec("X6", "what is late together runs in order")
@pytest.mark.parametrize("stage", [Stage.CLAIMED, Stage.WAITING_FOR_SLOT])
def test_two_runs_never_wait_for_each_other(stage: Stage) -> None:
    """The turn has gone to a later run while an earlier one was refused or held, and the earlier one comes back."""
    world = stopped(jobs=1)
    turns, alarms, now = RunOrder(), TimerQueue(), world.now
    first, second, third = [one for one in world.scheduler._scheduler.known.values() if one.stage is Stage.CLAIMED][:3]
    assert turns.admit([first, second, third], now, alarms) == [first]
    turns.over(first, now, alarms)  # refused: it asks again
    assert turns.admit([second], now, alarms) == [second]
    assert turns.admit([first], now, alarms) == [], "the second may be about to start"
    alarms.due(now)
    second.stage = stage
    assert not turns.has_turn(second, now, alarms), "an earlier one is there, and goes first"
    second.stage = Stage.CLAIMED
    assert alarms.due(now) == [first]
    assert turns.admit([third, first], now, alarms) == [first]
    first.stage = Stage.DONE
    turns.over(first, now, alarms)
    admitted = turns.admit(alarms.due(now), now, alarms)
    assert [one for one in admitted if one.stage is Stage.CLAIMED] == [second]
