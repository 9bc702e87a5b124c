"""What must be so before an occurrence runs (O3): each answer, each way to go on, what it holds meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from itinerary.core.loop.commands import Write
from itinerary.core.loop.messages import OccurrenceAsked
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.queries import LimitUseQuery
from itinerary.model.states import OccurrenceState
from tests.unit.core.bench import SECOND, START, World, done
from tests.unit.core.scripted import Act, fails, hangs, says, works

READY = "python app:ready"
BEFORE = "prerun pending condition_pending condition_running"
UNMET = f"{BEFORE} action_pending action_running"


def requiring(*requires: Requirement, settings: dict[str, Any] | None = None, **overrides: Any) -> World:
    world = World(**(settings or {}))
    world.job("etl", requires=requires or (Requirement(python="app:ready", every="5s", deadline="20s"),), **overrides)
    return world


@pytest.mark.spec("O3")
@pytest.mark.parametrize("answer", ["true", '"run"'])
def test_met_at_once(answer: str) -> None:
    world = requiring()
    world.does(READY, says(answer, after=2))
    world.run_to(30)
    assert world.story() == ("completed after 3 s: its requirements are met (fail_fast)\nmain success [1 success 2-3]")
    assert world.trail() == f"{BEFORE} running completed"
    world.at_rest()


@pytest.mark.spec("O3")
@pytest.mark.parametrize("answer", ["false", "null", '"wait"'])
def test_it_waits_and_looks_again(answer: str) -> None:
    world = requiring()
    world.does(READY, says(answer), says(answer), says("true"))
    world.run_to(3)
    shown = world.ask(OccurrenceAsked(world.ref, "asked"))
    assert shown.state is OccurrenceState.CONDITION_PENDING
    assert shown.waits_for == f"requirement python app:ready, looked at again at {START + 5 * SECOND}"
    assert world.rows[0].reason == "requires python app:ready, which is not so: wait"
    world.run_to(30)
    again = "condition_pending condition_running"
    assert world.story().startswith("completed after 11 s")
    assert world.trail() == f"{UNMET} {again} running completed"
    assert [at for name, _, at in world.launches() if name == READY] == [0, 5, 10]
    world.at_rest()


@pytest.mark.spec("O3", "a wait is written when it begins and when it ends")
@pytest.mark.parametrize("looks", [3, 40])
def test_a_wait_writes_when_it_begins_and_when_it_ends_however_often_it_looks(looks: int) -> None:
    world = requiring(Requirement(python="app:ready", every="5s", deadline="1h"))
    world.does(READY, *[says("false")] * (looks - 1), says("true"))
    world.run_to(2)
    written = len(world.detail().transitions)
    world.run_to(5 * (looks - 1) - 1)
    assert len(world.detail().transitions) == written, "the looks in between write nothing"
    world.run_to(5 * looks)
    assert [at for name, _, at in world.launches() if name == READY] == [5 * look for look in range(looks)]
    assert world.trail() == f"{UNMET} condition_pending condition_running running completed"
    world.at_rest()


@pytest.mark.spec("O3", "another job that has failed")
@pytest.mark.parametrize(
    ("on_unmet", "outcome"), [(Unmet.WAIT, "failed"), (Unmet.FAIL, "failed"), (Unmet.SKIP, "skipped")]
)
def test_another_job_that_has_failed_for_good_is_not_waited_for(on_unmet: Unmet, outcome: str) -> None:
    world = requiring(Requirement(job="import", on_unmet=on_unmet, every="5s", deadline="1h"))
    world.does("job import", says("false"), says('{"why": "import:7 is failed"}'))
    world.run_to(30)
    looks = 2 if on_unmet is Unmet.WAIT else 1
    assert [name for name, _, _ in world.launches()] == ["job import"] * looks
    assert world.statuses == [outcome]
    if on_unmet is Unmet.WAIT:
        assert world.rows[0].reason == "requires job import, which is not so: import:7 is failed"
    world.at_rest()


@pytest.mark.spec("O3", "deadline")
def test_a_requirement_that_is_not_met_in_time_fails_it() -> None:
    world = requiring(Requirement(python="app:ready", every="8s", deadline="20s"))
    world.does(READY, says("false"))
    world.run_to(60)
    assert world.story() == (
        "failed after 20 s: requires python app:ready, which was not so within 20s (fail_fast)\n"
        "main skipped (a requirement)"
    )
    assert [at for name, _, at in world.launches() if name == READY] == [0, 8, 16, 20]
    world.at_rest()


@pytest.mark.spec("O3")
@pytest.mark.parametrize("by", ["its answer", "on_unmet"])
def test_it_is_skipped(by: str) -> None:
    world = requiring(Requirement(python="app:ready", on_unmet=Unmet.SKIP if by == "on_unmet" else Unmet.WAIT))
    world.does(READY, says("false" if by == "on_unmet" else '"skip"'))
    world.run_to(30)
    assert world.story() == (
        "skipped after 0 s: requires python app:ready, which is not so (fail_fast)\nmain skipped (a requirement)"
    )
    assert world.trail() == f"{UNMET} skipped"
    world.at_rest()


@pytest.mark.spec("O3")
@pytest.mark.parametrize("by", ["its answer", "on_unmet"])
def test_it_is_failed(by: str) -> None:
    world = requiring(Requirement(python="app:ready", on_unmet=Unmet.FAIL if by == "on_unmet" else Unmet.WAIT))
    world.does(READY, says("false" if by == "on_unmet" else '"fail"'))
    world.run_to(30)
    assert world.story() == (
        "failed after 0 s: requires python app:ready, which is not so (fail_fast)\nmain skipped (a requirement)"
    )
    assert world.trail() == f"{UNMET} failed"


ACT = Requirement(python="app:ready", on_unmet=Unmet.ACT, action="app:mend", every="5s", deadline="20s")


@pytest.mark.spec("O3", "act")
def test_something_is_done_about_it_and_it_is_looked_at_again() -> None:
    world = requiring(ACT)
    world.does(READY, says("false"), says("true"))
    world.does("app:mend", works(2))
    world.run_to(30)
    assert world.launches() == [(READY, 1, 0), ("app:mend", 2, 0), (READY, 3, 7), ("main", 1, 7)]
    assert world.trail() == f"{UNMET} condition_pending condition_running running completed"


@pytest.mark.spec("O3", "act")
def test_if_nothing_can_be_done_about_it_it_fails() -> None:
    world = requiring(ACT)
    world.does(READY, says("false"))
    world.does("app:mend", fails())
    world.run_to(30)
    assert world.story().startswith("failed after 1 s: requires python app:ready, which is not so, and app:mend failed")


@pytest.mark.spec("O3")
@pytest.mark.parametrize("act", [fails("no"), says('"maybe"'), says("nonsense"), says("[1]")])
def test_what_cannot_be_found_out_fails_it(act: Act) -> None:
    world = requiring()
    world.does(READY, act)
    world.run_to(30)
    assert world.statuses == ["failed"]
    assert "requires python app:ready" in (world.rows[0].reason or "")
    world.at_rest()


@pytest.mark.spec("O3")
def test_a_look_that_takes_too_long_is_ended_and_fails_it() -> None:
    world = requiring(task_timeout="3s")
    world.does(READY, hangs())
    world.run_to(30)
    assert world.story().startswith("failed after 3 s: requires python app:ready: it could not be found out")


@pytest.mark.spec("O3")
def test_several_are_looked_at_one_after_another() -> None:
    world = requiring(
        Requirement(file="in.csv"), Requirement(http="https://example.org/ok"), Requirement(sql="select 1")
    )
    for title in ("file in.csv", "http https://example.org/ok", "sql select 1"):
        world.does(title, says("true", after=1))
    world.run_to(30)
    assert [(name, at) for name, _, at in world.launches()] == [
        ("file in.csv", 0),
        ("http https://example.org/ok", 1),
        ("sql select 1", 2),
        ("main", 3),
    ]
    assert [dict(one.run) for one in world.script.launched[:3]] == [
        {"requirement": {"file": "in.csv"}},
        {"requirement": {"http": "https://example.org/ok"}},
        {"requirement": {"sql": "select 1"}},
    ]
    assert world.trail() == f"{BEFORE} running completed"


@pytest.mark.spec("O3", "gated")
@pytest.mark.spec("N2")
def test_nothing_is_looked_at_before_it_is_written_that_it_is() -> None:
    world = requiring()
    world.does(READY, says("true"))
    world.keep(Write)
    world.run_to(3)
    assert world.launches() == []
    world.let_go()
    assert world.launches()[0] == (READY, 1, 3)


@pytest.mark.spec("O3", "slots")
def test_while_it_waits_it_gives_back_its_slot_of_the_node_and_its_shares() -> None:
    world = requiring(limits=("api",), settings={"max_concurrent_jobs": 1, "limits": {"api": 1}})
    world.job("other", "beside", limits=("api",))
    world.does(READY, says("false"), says("true"))
    world.does("beside", works(2))
    world.run_to(2)
    assert world.launches() == [(READY, 1, 0), ("beside", 1, 1)]
    assert done(world.store.read(LimitUseQuery("api"))) == [world.rows[1].ref]
    world.run_to(4)
    assert done(world.store.read(LimitUseQuery("api"))) == []
    world.run_to(5.5)
    assert done(world.store.read(LimitUseQuery("api"))) == [world.ref]
    assert world.launches()[2:] == [(READY, 2, 5), ("main", 1, 5)]
    world.run_to(30)
    assert world.statuses == ["completed", "completed"]
    world.at_rest()


@pytest.mark.spec("O3", "slots")
def test_one_that_gets_no_slot_to_look_again_fails_at_its_deadline() -> None:
    world = requiring(settings={"max_concurrent_jobs": 1})
    world.job("other", "beside")
    world.does(READY, says("false"))
    world.does("beside", works(100))
    world.run_to(200)
    assert world.story().startswith("failed after 20 s: a requirement was not met when it was last looked at")
    assert world.statuses == ["failed", "completed"]
    world.at_rest()


@pytest.mark.spec("O5")
@pytest.mark.parametrize("when", ["it is looked at", "it waits"])
def test_cancelled_while_a_requirement(when: str) -> None:
    world = requiring()
    world.does(READY, says("false", after=2))
    world.run_to(1 if when == "it is looked at" else 4)
    world.cancel(by="anna")
    assert (
        world.story()
        == f"cancelled after {1 if when == 'it is looked at' else 4} s: anna (fail_fast)\nmain skipped (anna)"
    )
    assert len(world.script.killed) == (1 if when == "it is looked at" else 0)
    world.run_to(30)
    assert [name for name, _, _ in world.launches()] == [READY]
    world.at_rest()
