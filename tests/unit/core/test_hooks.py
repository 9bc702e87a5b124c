"""Those who are told of starts and ends (X7): when, of what, and that nothing they do changes an outcome."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from itinerary.model.definition import Requirement, Unmet
from itinerary.model.occurrence import Occurrence
from itinerary.model.policies import Retry
from itinerary.model.report import OccurrenceReport
from itinerary.model.report_builder import report_of
from itinerary.model.states import OccurrenceState
from itinerary.schedules.instants import from_seconds
from tests.unit.core.bench import SECOND, START, World
from tests.unit.core.scripted import Act, fails, hangs, ignores, says, works
from tests.unit.core.stories import told


def hooked(**overrides: Any) -> World:
    world = World()
    world.job(
        "etl",
        "a",
        "b",
        on_start=("hooks:hello", "hooks:hello_too"),
        on_complete=("hooks:bye", "hooks:bye_too"),
        **overrides,
    )
    return world


def _at(seconds: int) -> datetime:
    return from_seconds(START // SECOND + seconds)


@pytest.mark.spec("X7")
def test_hooks_are_told_before_the_first_task_and_after_the_last() -> None:
    world = hooked()
    world.run_to(20)
    assert [(name, at) for name, _, at in world.launches()] == [
        ("hooks:hello", 0),
        ("hooks:hello_too", 1),
        ("a", 2),
        ("b", 3),
        ("hooks:bye", 4),
        ("hooks:bye_too", 5),
    ]
    assert world.story() == "completed after 6 s (fail_fast)\na success [1 success 2-3]\nb success [1 success 3-4]"
    world.at_rest()


@pytest.mark.spec("X7")
@pytest.mark.spec("X8")
def test_they_are_told_the_occurrence_and_its_report() -> None:
    world = hooked(retry=Retry(1, "2s"))
    world.does("a", fails(), works())
    world.run_to(20)
    hello, bye = (
        next(one for one in world.script.launched if one.facts.task == name) for name in ("hooks:hello", "hooks:bye")
    )
    assert isinstance(hello.argument, Occurrence)
    assert (hello.argument.instant, hello.argument.status, hello.argument.started_at) == (
        START,
        OccurrenceState.RUNNING,
        START,
    )
    assert isinstance(bye.argument, OccurrenceReport)
    stored = report_of("etl", world.detail())
    assert bye.argument.occurrence == stored.occurrence
    assert bye.argument.tasks == stored.tasks
    a, b = bye.argument.tasks
    assert (a.started_at, a.ended_at, a.duration) == (_at(2), _at(6), timedelta(seconds=4)), "with its wait to retry"
    assert (b.started_at, b.ended_at, b.duration) == (_at(6), _at(7), timedelta(seconds=1))
    assert (bye.argument.outcome, bye.argument.reason) == (stored.outcome, stored.reason)
    assert told(bye.argument).splitlines()[0] == "completed after 7 s (fail_fast)"


@pytest.mark.spec("X7")
@pytest.mark.parametrize("how", ["failed", "cancelled", "over its time", "skipped by a requirement", "cancelled early"])
def test_whatever_becomes_of_one_that_started_its_end_is_told(how: str) -> None:
    requires = (Requirement(python="app:ready", on_unmet=Unmet.SKIP),) if "requirement" in how else ()
    world = hooked(requires=requires, execution_timeout="10s")
    world.does("python app:ready", says("false"))
    world.does("a", {"failed": fails(), "skipped by a requirement": works()}.get(how, hangs()))
    if how == "cancelled":
        world.run_to(3)
        world.cancel(by="anna")
    elif how == "cancelled early":
        world.run_to(0.5)
        world.cancel(by="anna")
    world.run_to(30)
    byes = [one.argument for one in world.script.launched if one.facts.task == "hooks:bye"]
    assert len(byes) == 1
    assert isinstance(byes[0], OccurrenceReport)
    assert byes[0].outcome == world.rows[0].status
    assert byes[0].outcome is not OccurrenceState.COMPLETED
    assert byes[0].tasks == report_of("etl", world.detail()).tasks
    world.at_rest()


@pytest.mark.spec("X7")
@pytest.mark.parametrize("act", [fails("no"), hangs(), ignores()], ids=["raises", "hangs", "does not even hear"])
@pytest.mark.parametrize("hook", ["hooks:hello", "hooks:bye"])
def test_a_hook_that_raises_or_hangs_is_logged_and_changes_nothing(hook: str, act: Act) -> None:
    world = hooked()
    world.does(hook, act)
    world.run_to(120)
    assert world.statuses == ["completed"]
    (line,) = world.logged("errand.failed")
    assert line["what"] == f"{'on_start' if hook == 'hooks:hello' else 'on_complete'} {hook}"
    assert line["error"] == ("no" if act.outcome is not None else "it took too long")
    names = [name for name, _, _ in world.launches()]
    assert names == ["hooks:hello", "hooks:hello_too", "a", "b", "hooks:bye", "hooks:bye_too"]
    world.at_rest()


@pytest.mark.spec("X7", "time limit")
def test_a_hook_has_half_a_minute_and_then_kill_grace() -> None:
    world = hooked()
    world.does("hooks:hello", ignores())
    world.run_to(120)
    times = [at for name, _, at in world.launches()]
    assert times[:3] == [0, 40, 41]
    assert all(later >= earlier for earlier, later in pairwise(times))


@pytest.mark.spec("X7")
def test_a_late_word_of_a_hook_that_was_given_up_changes_nothing() -> None:
    world = hooked()
    world.does("hooks:hello", ignores(after=60))
    world.run_to(120)
    assert world.statuses == ["completed"]
    assert len(world.logged("attempt.late_report")) == 1


@pytest.mark.spec("X7")
def test_the_time_of_hooks_is_not_the_time_of_tasks() -> None:
    world = hooked(execution_timeout="10s")
    world.does("hooks:hello", works(20))
    world.does("hooks:bye", works(20))
    world.run_to(120)
    assert world.statuses == ["completed"]
    assert world.rows[0].expires_at is not None
    assert world.rows[0].expires_at > START + 50 * SECOND
