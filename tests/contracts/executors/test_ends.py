"""However a task ends by itself, there is one report of it, and it says what happened."""

from __future__ import annotations

import pytest

from itinerary.model.attempts import Failed, Succeeded
from tests.contracts.executors.benches import Bench, benches, told
from tests.contracts.executors.stage import Stage

pytestmark = pytest.mark.spec("X10", "contract")


@benches()
@told
async def test_a_task_that_does_what_it_should_has_succeeded(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin(bench.run("nothing", stage)))
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.output is None


@benches("result")
@told
async def test_what_a_function_returns_is_kept_as_json(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin(bench.run("succeed", stage), task="sum", attempt=2))
    assert outcome == Succeeded('{"task":"sum","attempt":2}')


@benches()
@told
async def test_a_task_that_fails_has_failed_with_something_to_read(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin(bench.run("fail", stage)))
    assert isinstance(outcome, Failed), outcome
    assert any(word in outcome.error for word in ("KeyError: 'no such thing'", "exit status 3", "500"))


@benches("result")
@told
async def test_an_error_shows_the_tasks_own_code_first_and_the_names_of_its_class(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin(bench.run("fail", stage)))
    assert isinstance(outcome, Failed), outcome
    first, where, *_ = outcome.error.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "tasks.py" in where
    assert outcome.names == ("KeyError", "LookupError", "Exception", "BaseException")


@benches("leave")
@pytest.mark.parametrize(("what", "name"), [("leave", "SystemExit"), ("interrupt", "KeyboardInterrupt")])
def test_not_even_an_exception_that_ends_programs_gets_out(bench: str, what: str, name: str, tmp_path: object) -> None:
    @told
    async def story(played: Bench, stage: Stage) -> None:
        outcome = await stage.outcome(stage.begin(played.run(what, stage)))
        assert isinstance(outcome, Failed), outcome
        assert outcome.names[0] == name
        after = await stage.outcome(stage.begin(played.run("nothing", stage)))
        assert isinstance(after, Succeeded), "and the next one runs"

    story(bench, tmp_path)  # type: ignore[arg-type]  # a Path, by the fixture


@benches("print_something")
@told
async def test_what_a_task_prints_is_its_output(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin(bench.run("print_something", stage)))
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.output == "to standard output\nto standard error\n"


@benches("die")
@told
async def test_a_worker_that_dies_fails_its_task_and_no_other(bench: Bench, stage: Stage) -> None:
    dead, *others = [stage.begin(bench.run(what, stage)) for what in ("die", "nothing", "nothing", "nothing")]
    outcome = await stage.outcome(dead)
    assert isinstance(outcome, Failed), outcome
    assert any(word in outcome.error for word in ("killed by SIGKILL", "disconnected"))
    for outcome in await stage.outcomes(others):
        assert isinstance(outcome, Succeeded), outcome


@benches()
@told
async def test_what_cannot_begin_has_failed_and_says_why(bench: Bench, stage: Stage) -> None:
    keys = [stage.begin(bench.run(what, stage)) for what in ("impossible", "nothing")]
    refused, other = await stage.outcomes(keys)
    assert isinstance(refused, Failed), refused
    assert any(word in refused.error for word in ("is not a name", "could not be started", "is not allowed"))
    assert isinstance(other, Succeeded), other


@benches()
@told
async def test_a_definition_with_an_unknown_key_cannot_begin(bench: Bench, stage: Stage) -> None:
    outcome = await stage.outcome(stage.begin({**bench.run("nothing", stage), "user": "root"}))
    assert isinstance(outcome, Failed), outcome
    assert outcome.error.startswith("user: unknown key")


@benches()
@told
async def test_many_at_once_end_once_each(bench: Bench, stage: Stage) -> None:
    keys = stage.begin_all([stage.assignment(bench.run("nothing", stage)) for _ in range(500)])
    for outcome in await stage.outcomes(keys):
        assert isinstance(outcome, Succeeded), outcome
