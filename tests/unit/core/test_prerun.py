"""Before the start (O2, R6): on time to the microsecond, with the configuration and the version that hold by then."""

from __future__ import annotations

import pytest

from itinerary.core.loop.commands import Claim, ReadRows, RebuildIndex, StartRuns
from itinerary.core.loop.events import OccurrenceStarted
from itinerary.core.loop.messages import ClaimsAnswered, ConfigurationUpdated, OccurrenceAsked
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import UnstartedDecision, UnstartedReconciler, VerdictKind
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, START, World, done
from tests.unit.core.scripted import hangs


@pytest.mark.spec("O2")
def test_it_exists_before_its_instant_and_starts_on_it_exactly() -> None:
    world = World()
    world.job("etl")
    world.run_to(-0.000_001)
    assert world.statuses == ["prerun"]
    assert world.scheduler.next_at == START, "not at the next tick"
    world.run_to(0.25)
    assert world.rows[0].started_at == START
    assert world.launches() == [("main", 1, 0)]
    assert [(news.due_at, news.started_at) for news in world.news if isinstance(news, OccurrenceStarted)] == [
        (START, START)
    ]


@pytest.mark.spec("S6", "jitter")
def test_jitter_delays_the_start_and_never_changes_the_instant() -> None:
    world = World()
    world.job("etl", schedule=every("1h", jitter="10s"))
    world.run_to(20)
    (row,) = world.rows
    assert row.instant == START
    assert START < row.due_at < START + 10 * SECOND
    assert row.started_at == row.due_at


@pytest.mark.spec("O2", "configuration")
@pytest.mark.parametrize("how", ["mail", "a message"])
def test_an_update_in_prerun_is_what_it_starts_with(how: str) -> None:
    world = World()
    world.job("etl", "a", "b", mode="sequential")
    world.run_to(-1.5)
    overrides = '{"mode":"parallel","task_timeout":"2s"}'
    world.adjust(world.ref, overrides)
    if how == "a message":
        answer = world.ask(ConfigurationUpdated(world.ref, overrides, 1, "asked"))
        assert (answer.done, answer.why) == (True, "")
    world.does("b", hangs())
    world.run_to(20)
    assert world.story() == (
        "failed after 2 s: task b timed out (fail_fast)\n"
        "a success [1 success 0-1]\n"
        "b timeout (over its time) [1 timeout 0-2: over its time]"
    )
    assert '"sources":{"mode":"occurrence","task_timeout":"occurrence"}' in (world.detail().config or "")


@pytest.mark.spec("O2", "configuration")
def test_an_update_that_the_start_did_not_know_of_is_read_and_counts() -> None:
    """ADJUSTED: the mail has not arrived, and the start is refused for that, once."""
    world = World(loop_interval=60 * SECOND)
    world.job("etl", "a", "b")
    world.run_to(-0.5)
    world.adjust(world.ref, '{"mode":"parallel"}')
    world.run_to(0.5)
    assert [command for command in world.commands if isinstance(command, ReadRows)]
    assert world.launches() == [("a", 1, 0), ("b", 1, 0)]


@pytest.mark.spec("L6")
def test_an_update_after_prerun_is_refused_and_says_why() -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.run_to(1)
    answer = world.ask(ConfigurationUpdated(world.ref, '{"mode":"parallel"}', 1, "asked"))
    assert (answer.done, answer.why) == (False, "it is past prerun: running")
    assert world.logged("request.refused")[0]["why"] == "it is past prerun: running"


@pytest.mark.spec("L6")
def test_an_older_update_does_not_undo_a_newer_one() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.run_to(-1)
    world.adjust(world.ref, '{"mode":"parallel"}')
    world.run_to(-0.5)
    assert world.ask(ConfigurationUpdated(world.ref, "{}", 0, "asked")).done
    world.run_to(0.5)
    assert len(world.launches()) == 2


@pytest.mark.spec("L6")
def test_overrides_that_make_no_sense_cost_this_one_occurrence_and_are_logged() -> None:
    world = World()
    world.job("etl")
    world.job("other")
    world.run_to(-1)
    answer = world.ask(ConfigurationUpdated(world.ref, '{"mode":"sideways"}', 1, "asked"))
    assert not answer.done
    assert "sideways" in answer.why or "cannot be read" in answer.why
    assert len(world.logged("occurrence.unstartable")) == 1
    world.run_to(30)
    assert world.statuses[1] == "completed"


@pytest.mark.spec("O2", "cancellation")
@pytest.mark.spec("O5")
def test_cancelled_in_prerun() -> None:
    world = World()
    world.job("etl")
    world.run_to(-1)
    assert world.cancel(by="anna: wrong data").done
    assert world.story() == "cancelled: anna: wrong data"
    assert world.trail() == "prerun cancelled"
    world.run_to(10)
    assert world.launches() == []
    world.at_rest()


@pytest.mark.spec("O2", "cancellation")
def test_a_cancellation_that_only_the_row_knows_of_stops_the_start() -> None:
    world = World(loop_interval=60 * SECOND)
    world.job("etl")
    world.run_to(-0.5)
    world.keep(StartRuns)
    world.run_to(0.5)
    answer = world.cancel(by="anna")
    assert answer.done
    world.let_go()
    assert world.statuses == ["cancelled"]
    assert world.launches() == []
    world.at_rest()


@pytest.mark.spec("O5")
def test_a_cancellation_that_comes_after_the_start_was_written_and_before_its_answer() -> None:
    world = World()
    world.job("etl")
    world.does("main", hangs())
    world.run_to(-0.5)
    world.keep(StartRuns)
    world.run_to(0.1)
    kept = world.kept.pop()
    world._carry_out(kept)  # it has started, and the loop has not heard of it
    answers, world.inbox = world.inbox, []
    assert world.cancel(by="anna").done
    world.send(*answers)
    world.run_to(1)
    assert world.statuses == ["cancelled"]
    assert world.trail() == "prerun pending running terminating cancelled"
    world.at_rest()


@pytest.mark.spec("N2", "never early")
def test_a_start_that_the_store_finds_too_early_is_asked_for_again() -> None:
    """A node's clock may be ahead by a little: nothing starts early, and nothing is lost."""
    world = World()
    world.job("etl")
    world.run_to(-1)
    ahead = 40_000
    asked = world.scheduler.iterate(START, [])
    assert any(isinstance(command, StartRuns) for command in asked)
    world._shared[0] = START - ahead
    for command in asked:
        world._carry_out(command)
    world.run_to(0.5)
    assert world.rows[0].started_at is not None
    assert 0 <= world.rows[0].started_at - START < 20_000


def keep_all(version: int) -> UnstartedReconciler:
    return lambda rows, _: [
        UnstartedDecision(row.ref, VerdictKind.KEEP, version, "kept") for row in rows if row.instant >= START
    ]


@pytest.mark.spec("R6")
@pytest.mark.parametrize("is_heard", [True, False], ids=["the index comes in time", "the start is refused first"])
def test_what_has_not_started_takes_the_new_version(is_heard: bool) -> None:
    world = World()
    world.job("etl", "a")
    world.run_to(-1)
    assert world.statuses == ["prerun"]
    world.job("etl", "a", "b", mode="parallel", judge=keep_all(2), is_heard=is_heard)
    world.run_to(20)
    assert world.story() == "completed after 1 s (fail_fast)\na success [1 success 0-1]\nb success [1 success 0-1]"
    assert world.rows[0].version == 2
    assert [one.facts.version for one in world.script.launched] == [2, 2]
    rebuilds = [command for command in world.commands if isinstance(command, RebuildIndex)]
    assert len(rebuilds) == 2


@pytest.mark.spec("R6")
def test_a_new_version_that_is_heard_of_while_the_start_is_on_its_way_counts() -> None:
    world = World()
    world.job("etl", "a")
    world.run_to(-1)
    world.job("etl", "b", judge=keep_all(2), is_heard=False)
    world.keep(StartRuns)
    world.run_to(0)
    world.rebuild()
    world.run_to(0.1)
    world.let_go()
    assert [(one.facts.task, one.facts.version) for one in world.script.launched] == [("b", 2)]


@pytest.mark.spec("R6")
def test_what_was_due_before_the_change_keeps_the_version_that_was_in_force() -> None:
    world = World()
    world.job("etl", "a")
    world.keep(StartRuns)
    world.run_to(0.1)
    world.job("etl", "b", judge=keep_all(2))
    world.let_go()
    world.run_to(20)
    assert [one.facts.version for one in world.script.launched] == [1]


@pytest.mark.spec("R6")
def test_what_runs_keeps_its_version() -> None:
    world = World()
    world.job("etl", "a", "b")
    world.does("a", hangs())
    world.run_to(0.5)
    world.job("etl", "c", judge=keep_all(2))
    world.does("a", hangs())
    world.run_to(1)
    world.cancel(by="anna")
    assert [task.name for task in world.detail().tasks] == ["a", "b"]


@pytest.mark.spec("R7")
def test_what_an_update_took_away_and_another_restored_runs_on_time() -> None:
    world = World()
    world.job("etl")
    world.run_to(-2)

    def withdraw(rows: object, entries: object) -> list[UnstartedDecision]:
        return [UnstartedDecision(world.ref, VerdictKind.WITHDRAW, 2, "not in version 2")]

    def restore(rows: object, entries: object) -> list[UnstartedDecision]:
        return [UnstartedDecision(world.ref, VerdictKind.RESTORE, 3, "again in version 3")]

    world.job("etl", schedule=every("7h"), judge=withdraw)
    world.run_to(-1.5)
    assert world.statuses == ["cancelled"]
    world.job("etl", judge=restore)
    world.run_to(3)
    assert world.trail() == "prerun cancelled prerun pending running completed"
    assert [one.facts.version for one in world.script.launched] == [3]


@pytest.mark.spec("R6")
def test_a_claim_by_an_older_timeline_is_refused_and_made_again_by_the_new_one() -> None:
    world = World()
    world.job("etl")
    world.keep(Claim)
    world.run_to(-2)
    world.job("other", schedule=every("7h"))
    world.let_go()
    world.run_to(3)
    assert world.statuses == ["completed"]


@pytest.mark.spec("R6", "protocol rule 4")
def test_what_an_old_index_wants_is_not_claimed_by_the_revision_of_one_that_comes_in_the_same_iteration() -> None:
    world = World(pre_schedule_interval=2 * SECOND)
    world.job("etl", schedule=every("10s"))
    world.run_to(3)
    old = world.scheduler._scheduler.revision
    world.keep(RebuildIndex)
    world.job("etl", schedule=every("7h"), is_heard=False)
    world.rebuild()
    world._shared[0] = START + 8 * SECOND + 1
    asked = world.turn()
    assert [(one.revision, len(one.wanted)) for one in asked if isinstance(one, Claim)] == [(old, 1)]
    assert world.scheduler._scheduler.revision > old
    world.keep()
    world.run_to(25)
    assert [row.instant for row in world.rows] == [START], "its second version is not due for hours"


@pytest.mark.spec("R6")
def test_what_was_claimed_takes_the_new_version_also_when_that_is_heard_of_before_the_claim_is_answered() -> None:
    world = World()
    world.job("etl", "a")
    world.keep(Claim)
    world.run_to(-2)
    (claim,) = world.kept
    assert isinstance(claim, Claim)
    answer = done(world.store.claim(world.node, claim.revision, claim.wanted))
    world.job("etl", "b", judge=keep_all(2))
    world.run_to(-1)
    world.kept.clear()
    world.keep()
    world.send(ClaimsAnswered(claim.wanted, answer))
    world.run_to(5)
    assert [(one.facts.task, one.facts.version) for one in world.script.launched] == [("b", 2)]
    assert not [one for one in world.commands if isinstance(one, Claim)][1:], "it was claimed once"


@pytest.mark.spec("O2")
def test_people_see_that_it_waits_for_its_instant() -> None:
    world = World()
    world.job("etl")
    world.run_to(-1)
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert (shown.state, shown.started_at, shown.misses, shown.waits_for) == (OccurrenceState.PRERUN, None, 0, "")
