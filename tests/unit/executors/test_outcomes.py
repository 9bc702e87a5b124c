"""From what a function did to something that people can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from itinerary.errors import ConfigError
from itinerary.executors.cancellation import CancelFlags, TaskCancelled
from itinerary.executors.outcomes import ERROR_MAX, could_not_begin, failure, raised, returned
from itinerary.model.attempts import Failed, Stopped, Succeeded
from tests.contracts.executors.stage import facts


def caught(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - any, by design
        return error
    raise AssertionError("it should have raised")


@pytest.mark.spec("X10", "results")
@pytest.mark.parametrize(
    ("value", "result"), [(None, None), (0, "0"), ([1, "a"], '[1,"a"]'), ({"rows": 3}, '{"rows":3}'), ("x", '"x"')]
)
def test_what_is_json_is_kept(value: object, result: str | None) -> None:
    assert returned(value, facts()) == Succeeded(result)


@pytest.mark.spec("X10", "results")
@pytest.mark.parametrize(
    ("value", "why"), [(object(), "not JSON"), ("x" * 70_000, "must be under 65536"), ("a\0b", "NUL")]
)
def test_what_cannot_be_kept_is_a_success_all_the_same_and_the_log_says_so(value: object, why: str) -> None:
    with capture_logs() as logs:
        assert returned(value, facts(task="sum")) == Succeeded()
    (line,) = logs
    assert line["event"] == "task.result_not_kept"
    assert line["task"] == "sum"
    assert why in line["why"]


def test_a_coroutine_that_nobody_awaits_is_a_failure() -> None:
    async def work() -> None: ...

    outcome = returned(work(), facts())
    assert isinstance(outcome, Failed)
    assert "make it an async def" in outcome.error


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    def work() -> None:
        raise ValueError("x" * 100_000 + " the point")

    outcome = failure(caught(work))
    assert len(outcome.error) <= ERROR_MAX
    assert outcome.error.startswith("Traceback")
    assert outcome.error.endswith("the point")


def test_a_deep_recursion_is_shown_briefly() -> None:
    def work() -> None:
        work()

    outcome = failure(caught(work))
    assert outcome.names[0] == "RecursionError"
    assert "more times" in outcome.error


def test_an_error_that_cannot_be_shown_is_still_an_error() -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]  # nasty on purpose
            raise SystemError("no")

    outcome = failure(Nasty())
    assert outcome.names[0].endswith("Nasty")
    assert "Nasty, which cannot be shown: SystemError" in outcome.error


def test_an_error_has_no_control_characters_for_stores_and_terminals() -> None:
    assert "\0" not in failure(ValueError("a\0b\x1b[1m")).error


@pytest.mark.spec("X4", "cancellation")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), TaskCancelled("asked")])
def test_giving_in_to_a_stop_is_stopped_and_the_same_without_one_is_a_failure(error: BaseException) -> None:
    status = CancelFlags()
    assert isinstance(raised(error, status), Failed)
    status.is_stop_asked = True
    assert raised(error, status) == Stopped()
    assert isinstance(raised(ValueError("while cleaning up"), status), Failed)


def test_our_own_errors_say_all_there_is_to_say() -> None:
    assert could_not_begin(ConfigError("cwd: 3 is not a directory")).error == "cwd: 3 is not a directory"
    assert could_not_begin(RuntimeError("can't start new thread")).error.startswith("RuntimeError: can't")
