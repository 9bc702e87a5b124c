"""Slots of a node (X1) and limits over all nodes (X11): who gets them, in which order, and what waits how."""

from __future__ import annotations

import pytest

from itinerary.core.loop.commands import StartRuns, Write
from itinerary.core.loop.messages import ActiveAsked, OccurrenceAsked, RowsRead, StartsAnswered, WorkOffered
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap, Retry
from itinerary.model.queries import ByRefQuery, LimitUseQuery
from itinerary.model.rows import Key, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import CancelRequest, ClaimRequest, Refusal, Refused, Started
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, World, done
from tests.unit.core.scripted import fails, hangs, works


@pytest.mark.spec("X1")
def test_no_more_run_than_there_are_slots_by_priority_then_instant() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("low", "low", priority=-5)
    world.job("plain", "plain")
    world.job("high", "high", priority=5)
    world.job("plain too", "plain too")
    world.run_to(20)
    assert world.launches() == [("high", 1, 0), ("plain", 1, 1), ("plain too", 1, 2), ("low", 1, 3)]
    world.at_rest()


@pytest.mark.spec("X1")
def test_of_the_same_priority_the_earlier_instant_comes_first() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("etl", schedule=every("4s"), overlap="allow")
    world.job("other", "other", schedule=every("9s"), overlap="allow")
    world.does("main", works(5))
    world.run_to(30)
    instants = [one.facts.key.instant for one in world.script.launched]
    assert instants == sorted(instants)


@pytest.mark.spec("X1")
def test_what_has_no_slot_is_marked_pending_and_another_node_may_start_it() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("etl")
    world.job("late", "late")
    world.does("main", works(20))
    world.run_to(1.5)
    ref = world.rows[1].ref
    assert world.trail(ref) == "prerun pending"
    assert world.rows[1].reason == "node a has no free slot"
    other = World(beside=world, name="b")
    other.rebuild()
    world.run_to(5)
    assert [one.facts.task for one in other.script.launched] == ["late"]
    world.run_to(30)
    assert world.statuses == ["completed", "completed"]
    assert [one.facts.task for one in world.script.launched] == ["main"]
    world.at_rest()
    other.at_rest()


@pytest.mark.spec("X1")
def test_the_mark_may_be_answered_after_the_start() -> None:
    """The mark waits for company, and the start does not: the slot came free in between."""
    world = World(max_concurrent_jobs=1)
    world.job("etl")
    world.job("late", "late", "later")
    world.does("main", works(0.2))
    world.run_to(0.5)
    assert ("late", 1, 0.2) in world.launches()
    world.run_to(20)
    assert world.statuses == ["completed", "completed"]
    assert [one.facts.task for one in world.script.launched] == ["main", "late", "later"]
    world.at_rest()


@pytest.mark.spec("X1")
def test_one_that_waits_to_retry_gives_its_slot_back_and_needs_it_again() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("etl", retry=Retry(1, "5s"), priority=5)
    world.job("late", "late")
    world.does("main", fails(), works())
    world.does("late", works(20))
    world.run_to(10)
    assert world.launches() == [("main", 1, 0), ("late", 1, 1)]
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert (shown.state, shown.waits_for) == (OccurrenceState.RETRYING, "a slot of node a, 1 in line")
    world.run_to(40)
    assert world.launches()[2:] == [("main", 2, 21)]
    world.at_rest()


@pytest.mark.spec("X1")
def test_while_a_peer_still_runs_the_slot_and_the_share_are_kept() -> None:
    world = World(max_concurrent_jobs=1, limits={"api": 1})
    world.job("etl", "a", "b", mode="parallel", limits=("api",), retry=Retry(1, "20s"), task_timeout="5s")
    world.does("a", fails(), works())
    world.does("b", hangs(stops_after=4), works())
    for second in (2, 6, 8):  # it runs, and is being ended, while the other waits to retry
        world.run_to(second)
        assert (world.scheduler._scheduler.line.free, holders(world, "api")) == (0, [world.ref])
    world.run_to(10)
    assert (world.scheduler._scheduler.line.free, holders(world, "api")) == (1, [])
    world.run_to(60)
    assert world.statuses == ["completed"]
    world.at_rest()


@pytest.mark.spec("X1")
@pytest.mark.spec("O5")
def test_cancelled_while_it_waits_for_a_slot_to_retry() -> None:
    world = World(max_concurrent_jobs=1)
    world.job("etl", retry=Retry(1, "5s"), priority=5)
    world.job("late", "late")
    world.does("main", fails(), works())
    world.does("late", works(20))
    world.run_to(10)
    assert len(world.scheduler._scheduler.line) == 1
    world.cancel(by="anna")
    assert world.statuses[0] == "cancelled"
    assert len(world.scheduler._scheduler.line) == 0
    world.run_to(40)
    assert len(world.launches()) == 2
    world.at_rest()


@pytest.mark.spec("X1")
def test_an_offered_one_that_cannot_be_started_here_is_not_tried_each_second() -> None:
    world = World()
    number = world.job("etl", schedule=every("7h"))
    at = world.now
    done(world.store.claim(None, None, [ClaimRequest(Key(at, number, Kind.TRIGGER, "now"), 1, at)]))
    world.keep(StartRuns)
    world.run_to(-2)
    (kept,) = [command for command in world.kept if isinstance(command, StartRuns)]
    world.kept = []
    world.send(StartsAnswered(kept.starts, [Refused(kept.starts[0].ref, Refusal.ILLEGAL, "a bug")]))
    world.run_to(5)
    assert not world.kept
    assert len(world.logged("occurrence.unstartable")) == 1
    world.at_rest()


@pytest.mark.spec("R4")
def test_what_was_asked_for_runs_at_the_version_it_was_asked_for_with() -> None:
    world = World()
    number = world.job("etl", "old", schedule=every("7h"))
    world.job("etl", "new", schedule=every("7h"))
    at = world.now
    done(world.store.claim(None, None, [ClaimRequest(Key(at, number, Kind.TRIGGER, "now"), 1, at)]))
    world.run_to(0)
    assert [(one.facts.task, one.facts.version) for one in world.script.launched] == [("old", 1)]


@pytest.mark.spec("R5")
def test_a_run_that_answers_for_a_window_is_told_of_it() -> None:
    world = World()
    number = world.job("etl", schedule=every("7h"))
    at, window = world.now, Window(world.now - 100 * SECOND, world.now + SECOND, 11)
    row = ClaimRequest(Key(at, number, Kind.SCHEDULED), 1, at, is_recovery=True, window=window)
    done(world.store.claim(None, None, [row]))
    world.run_to(0)
    (facts,) = [one.facts for one in world.script.launched]
    assert (facts.window, facts.is_recovery, facts.schedule) == (window, True, every("7h").to_json())


@pytest.mark.spec("O8")
def test_places_in_line_are_told_and_who_leaves_makes_room() -> None:
    world = World(max_concurrent_jobs=1)
    for name in ("a", "b", "c", "d"):
        world.job(name)
    world.does("main", hangs())
    world.run_to(2)

    def places() -> list[tuple[str, str]]:
        return [(one.job, one.waits_for) for one in world.ask(ActiveAsked("asked")) if one.waits_for]

    assert places() == [(name, f"a slot of node a, {place} in line") for place, name in enumerate("bcd", 1)]
    world.cancel(world.rows[2].ref)
    assert places() == [("b", "a slot of node a, 1 in line"), ("d", "a slot of node a, 2 in line")]
    assert world.scheduler._scheduler.line.free == 0


@pytest.mark.spec("X1")
def test_a_slot_is_given_back_when_a_start_is_refused() -> None:
    world = World(max_concurrent_jobs=2)
    world.job("etl", schedule=every("4s"))
    world.does("main", works(6))
    world.run_to(4.5)
    assert world.statuses[:2] == ["running", "skipped"]
    assert world.scheduler._scheduler.line.free == 1


# -- limits ----------------------------------------------------------------------------------------------------------


def holders(world: World, name: str) -> list[Ref]:
    return list(done(world.store.read(LimitUseQuery(name))))


@pytest.mark.spec("X11")
def test_a_start_without_a_share_waits_as_pending_and_is_told_for_what() -> None:
    world = World(limits={"api": 1})
    world.job("etl", limits=("api",))
    world.job("late", "late", limits=("api",))
    world.does("main", works(5))
    world.run_to(3)
    ref = world.rows[1].ref
    shown = world.ask(OccurrenceAsked(ref, "asked"))
    assert (shown.state, shown.waits_for) == (OccurrenceState.PENDING, "a share of limit api")
    assert world.trail(ref) == "prerun pending"
    assert world.scheduler._scheduler.line.free == world.settings.max_concurrent_jobs - 1
    assert holders(world, "api") == [world.ref]
    world.run_to(20)
    assert world.launches() == [("main", 1, 0), ("late", 1, 5)], "it asks as soon as the share is given back here"
    world.at_rest()
    assert holders(world, "api") == []


@pytest.mark.spec("X11")
def test_a_job_has_a_limit_of_its_own() -> None:
    world = World()
    number = world.job("etl", schedule=every("4s"), overlap="allow", max_active=2)
    world.does("main", works(10))
    world.run_to(9)
    assert world.statuses[:3] == ["running", "running", "pending"]
    assert len(holders(world, f"job/{number}")) == 2


@pytest.mark.spec("X11")
def test_a_share_is_given_back_while_it_waits_to_retry_and_asked_for_again() -> None:
    world = World(limits={"api": 1})
    world.job("etl", limits=("api",), retry=Retry(1, "5s"))
    world.job("late", "late", limits=("api",))
    world.does("main", fails(), works())
    world.does("late", works(10))
    world.run_to(3)
    assert holders(world, "api") == [world.rows[1].ref]
    world.run_to(8)
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert (shown.state, shown.waits_for) == (OccurrenceState.RETRYING, "a share of limit api")
    assert world.scheduler._scheduler.line.free == world.settings.max_concurrent_jobs - 1
    assert world.statuses[0] == "retrying"
    world.run_to(30)
    assert world.statuses == ["completed", "completed"]
    assert world.trail() == "prerun pending running retrying pending running completed"
    world.at_rest()
    assert holders(world, "api") == []


@pytest.mark.spec("X11")
@pytest.mark.spec("O5")
@pytest.mark.parametrize("is_answered", [True, False], ids=["refused", "on its way"])
def test_cancelled_while_it_waits_for_a_share(is_answered: bool) -> None:
    world = World(limits={"api": 1})
    world.job("etl", limits=("api",), retry=Retry(1, "5s"))
    world.job("late", "late", limits=("api",))
    world.does("main", fails(), works())
    world.does("late", works(100))
    world.run_to(5.5)
    if is_answered:
        world.run_to(8.5)
    else:
        world.keep(Write)
        world.run_to(6.5)
    world.cancel(by="anna")
    world.let_go()
    assert world.statuses[0] == "cancelled"
    assert world.story().splitlines()[1] == "main cancelled by anna (anna) [1 failed 0-1: boom]"
    assert world.trail() == "prerun pending running retrying cancelled"
    world.run_to(120)
    assert [one.facts.task for one in world.script.launched] == ["main", "late"]
    world.at_rest()


@pytest.mark.spec("X11")
def test_an_offered_one_that_lacks_a_share_is_asked_for_again() -> None:
    world = World(limits={"api": 1}, max_concurrent_jobs=1)
    world.job("etl", limits=("api",))
    world.job("late", "late", limits=("api",))
    world.does("main", works(6))
    world.run_to(2)
    other = World(beside=world, name="b", limits={"api": 1})
    other.rebuild()
    world.run_to(20)
    assert world.statuses == ["completed", "completed"]
    assert len(world.script.launched) + len(other.script.launched) == 2
    world.at_rest()
    other.at_rest()


@pytest.mark.spec("X1")
def test_what_was_offered_when_there_was_no_room_is_taken_as_soon_as_there_is() -> None:
    world = World(max_concurrent_jobs=1)
    number = world.job("etl", schedule=every("7h"), overlap=Overlap.ALLOW)
    world.does("main", *[works(0.01)] * 20)
    at = world.now
    wanted = [ClaimRequest(Key(at, number, Kind.TRIGGER, str(request)), 1, at) for request in range(20)]
    done(world.store.claim(None, None, wanted))
    world.run(2)
    assert len(world.script.launched) == 20, "and not one for each look at what there is"
    world.at_rest()


@pytest.mark.spec("X6")
def test_whose_turn_has_come_in_its_job_is_started_before_those_that_would_wait_for_it() -> None:
    world = World(max_concurrent_jobs=1)
    number = world.job("etl", schedule=every("7h"), overlap=Overlap.QUEUE)
    world.does("main", *[works()] * 3)
    at = world.now
    rows = [
        OccurrenceRow(
            Ref(ref), at - ref, number, Kind.TRIGGER, str(ref), 1, at - ref, False, 0, at, None, status, None, 1
        )
        for ref, status in ((1, OccurrenceState.PENDING), (2, OccurrenceState.PRERUN), (3, OccurrenceState.PRERUN))
    ]
    world.keep(StartRuns)
    world.rebuild()
    world.send(WorkOffered(rows))
    world.run()
    (asked,) = [command for command in world.kept if isinstance(command, StartRuns)]
    assert [start.ref for start in asked.starts] == [1]


@pytest.mark.spec("O5")
def test_a_start_that_was_given_up_and_arrives_after_all_is_not_forgotten_by_a_cancel() -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.keep(StartRuns)
    world.run_to(0.5)
    (kept,) = [command for command in world.kept if isinstance(command, StartRuns)]
    world.send(StartsAnswered(kept.starts, [Refused(kept.starts[0].ref, Refusal.EARLY, "an earlier try's answer")]))
    world.turn()
    (started,) = done(world.store.start(world.node, kept.revision, kept.starts, 2 * SECOND))
    assert isinstance(started, Started)
    done(world.store.control(None, [CancelRequest(started.ref, "anna")]))
    world.kept, world._keeps = [], ()
    world.send(RowsRead(list(done(world.store.read(ByRefQuery((started.ref,)))).values())))
    world.run_to(20)
    assert world.statuses[0] == "cancelled"
    assert world.scheduler._scheduler.live == {}
