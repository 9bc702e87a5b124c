"""What happens when an occurrence is due and the one before it still runs (X6), decided by the real ledger."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.core.loop.events import OccurrenceEnded
from itinerary.core.loop.messages import OccurrenceAsked
from itinerary.model.occurrence import Kind
from itinerary.model.rows import Key
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World, done
from tests.unit.core.scripted import hangs, works


def due_every_ten_seconds(overlap: str, seconds: float, **overrides: Any) -> World:
    """A job that is due each ten seconds, and takes so many of them."""
    world = World()
    world.job("etl", schedule=every("10s"), overlap=overlap, **overrides)
    world.does("main", works(seconds))
    return world


@pytest.mark.spec("X6", "skip")
def test_skip_is_recorded_and_names_the_one_in_the_way() -> None:
    world = due_every_ten_seconds("skip", 15)
    world.run_to(25)
    first, second, third = (row.ref for row in world.rows[:3])
    assert world.statuses[:3] == ["completed", "skipped", "running"]
    assert world.story(second) == f"skipped: overlaps occurrence {first}"
    assert world.trail(second) == "prerun skipped"
    assert [news.outcome for news in world.news if isinstance(news, OccurrenceEnded)] == ["skipped", "completed"]
    assert next(news.why for news in world.news if isinstance(news, OccurrenceEnded)) == f"overlaps occurrence {first}"
    assert [key.key.ref for key in world.script.launched] == [first, third]


@pytest.mark.spec("X6", "allow")
def test_allow_runs_both() -> None:
    world = due_every_ten_seconds("allow", 15)
    world.run_to(12)
    assert world.statuses[:2] == ["running", "running"]
    world.run_to(30.5)
    assert world.statuses[:4] == ["completed", "completed", "running", "running"]


@pytest.mark.spec("X6", "queue")
def test_queued_ones_run_in_order_and_the_next_wakes_when_one_ends() -> None:
    world = due_every_ten_seconds("queue", 25)
    world.run_to(29)
    refs = [row.ref for row in world.rows[:3]]
    assert world.statuses[:3] == ["completed", "running", "queued"]
    assert world.trail(refs[2]) == "prerun queued"
    world.run_to(80)
    assert [(one.key.ref, one.facts.started_at) for one in world.script.launched[:4]] == [
        (refs[0], START),
        (refs[1], START + 25 * SECOND),
        (refs[2], START + 50 * SECOND),
        (world.rows[3].ref, START + 75 * SECOND),
    ]
    assert world.story(refs[1]) == "~15 completed after 25 s (fail_fast)\nmain success [1 success 15-40]"
    assert world.trail(refs[1]) == "prerun queued pending running completed"


@pytest.mark.spec("X6", "queue")
def test_the_next_wakes_at_once_and_not_when_somebody_looks_around() -> None:
    world = World(loop_interval=60 * SECOND)
    world.job("etl", schedule=every("10s"), overlap="queue")
    world.does("main", works(12.3))
    world.run_to(20)
    assert world.launches() == [("main", 1, 0), ("main", 1, 12.3)]


@pytest.mark.spec("X6", "queue")
def test_a_queued_one_can_be_cancelled_and_the_one_behind_it_runs() -> None:
    world = due_every_ten_seconds("queue", 25)
    world.run_to(22)
    refs = [row.ref for row in world.rows[:3]]
    world.cancel(refs[1], by="anna")
    world.run_to(26)
    assert world.statuses[:3] == ["completed", "cancelled", "running"]


@pytest.mark.spec("X6", "queue")
@pytest.mark.spec("O6")
def test_one_that_comes_back_from_the_line_is_not_forgotten_with_its_first_stay() -> None:
    world = World(grace_period=30 * SECOND)
    world.job("etl", schedule=every("10s"), overlap="queue", max_queued=1)
    world.does("main", works(28))
    world.run_to(42)
    second = world.rows[1].ref
    assert world.ask(OccurrenceAsked(second, "asked")).state is OccurrenceState.RUNNING
    assert world.cancel(second, by="anna").done
    world.run_to(43)
    assert world.statuses[1] == "cancelled"


@pytest.mark.spec("X6", "queue with a bound")
def test_a_line_that_is_full_takes_no_more() -> None:
    world = due_every_ten_seconds("queue", 35, max_queued=1)
    world.run_to(25)
    refs = [row.ref for row in world.rows[:3]]
    assert world.statuses[:3] == ["running", "queued", "skipped"]
    assert world.story(refs[2]) == f"skipped: overlaps occurrence {refs[0]}, and 1 stand in line already"


@pytest.mark.spec("X6", "replace")
def test_replace_ends_the_one_that_runs_and_the_newest_follows() -> None:
    world = World()
    world.job("etl", schedule=every("10s"), overlap="replace")
    world.does("main", hangs(stops_after=2))
    world.run_to(15)
    first, second = (row.ref for row in world.rows[:2])
    assert world.story(first) == (
        f"cancelled after 13 s: replaced by occurrence {second} (fail_fast)\n"
        f"main cancelled by replaced by occurrence {second} (cancelled) [1 cancelled 0-13: cancelled]"
    )
    assert [one.key.ref for one in world.script.launched] == [first, second]
    assert world.trail(second) == "prerun queued pending running"


@pytest.mark.spec("X6", "replace")
def test_of_several_that_would_replace_only_the_newest_waits() -> None:
    world = World()
    world.job("etl", schedule=every("4s"), overlap="replace", task_timeout="1h")
    world.does("main", hangs(stops_after=9))
    world.run_to(12.5)
    refs = [row.ref for row in world.rows[:4]]
    assert world.statuses[:4] == ["terminating", "skipped", "skipped", "queued"]
    assert world.story(refs[1]) == f"skipped: replaced by occurrence {refs[2]}"
    world.run_to(15)
    assert world.statuses[:4] == ["cancelled", "skipped", "skipped", "running"]


@pytest.mark.spec("X6")
def test_another_job_is_not_in_the_way() -> None:
    world = World()
    world.job("one")
    world.job("two")
    world.does("main", hangs())
    world.run_to(1)
    assert world.statuses == ["running", "running"]


@pytest.mark.spec("R2")
@pytest.mark.parametrize("overlap", ["skip", "queue", "replace", "allow"])
def test_recovery_runs_go_one_after_another_unless_they_may_overlap(overlap: str) -> None:
    world = World()
    number = world.job("etl", overlap=overlap, schedule=every("7h"))
    world.does("main", works(10))
    instants = [START - seconds * SECOND for seconds in (3, 2, 1)]
    wanted = [ClaimRequest(Key(at, number, Kind.SCHEDULED), 1, at, is_recovery=True) for at in instants]
    done(world.store.claim(None, None, wanted))
    world.run_to(1)
    expected = ["running"] * 3 if overlap == "allow" else ["running", "queued", "queued"]
    assert world.statuses[:3] == expected
    world.run_to(40)
    assert world.statuses[:3] == ["completed"] * 3
    assert all(one.facts.is_recovery for one in world.script.launched[:3])


@pytest.mark.spec("L6")
def test_what_was_skipped_or_stands_in_line_can_be_asked_about() -> None:
    world = due_every_ten_seconds("skip", 15)
    world.run_to(12)
    assert world.ask(OccurrenceAsked(world.rows[1].ref, "asked")).state is OccurrenceState.SKIPPED
    world = due_every_ten_seconds("queue", 15)
    world.run_to(12)
    assert world.ask(OccurrenceAsked(world.rows[1].ref, "asked")).state is OccurrenceState.QUEUED
