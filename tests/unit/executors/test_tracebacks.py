"""An exception becomes text at a cost that does not grow with it."""

from __future__ import annotations

import sys
import traceback
import tracemalloc
from collections.abc import Callable

import pytest

from itinerary.executors.outcomes import ERROR_MAX, failure
from itinerary.executors.tracebacks import traceback_text
from itinerary.model.exception_text import message_of

MEGABYTE = 1 << 20
HUGE = 50 * MEGABYTE


def caught(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - any, by design
        return error
    raise AssertionError("it should have raised")


class Counted:
    """Something that counts how often it is written out."""

    shown = 0

    def __repr__(self) -> str:
        type(self).shown += 1
        return "<counted>"


class Talkative(Exception):
    """Its message is made when it is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _chain(length: int) -> BaseException:
    error: BaseException = ValueError("the first of all")
    for number in range(length):
        later = RuntimeError(f"number {number}")
        later.__cause__, error = error, later
    return error


def _with_notes(count: int, note: str) -> BaseException:
    error = ValueError("noted")
    for _ in range(count):
        error.add_note(note)
    return error


def _nested_groups(depth: int) -> BaseException:
    group: Exception = ValueError("the innermost")
    for _ in range(depth):
        group = ExceptionGroup("level", [group])
    return group


HUGE_ERRORS: dict[str, Callable[[], BaseException]] = {
    "message": lambda: ValueError("x" * HUGE),
    "message of its own": lambda: Talkative("x" * HUGE),
    "bytes": lambda: ValueError(b"x" * HUGE),
    "two arguments": lambda: ValueError("x" * HUGE, 1),
    "list": lambda: ValueError([None] * 5_000_000),
    "key": lambda: KeyError("x" * HUGE),
    "file name": lambda: OSError(2, "no such file", "x" * HUGE),
    "encoding": lambda: caught((b"x" * HUGE + b"\xff").decode),
    "one note": lambda: _with_notes(1, "x" * HUGE),
    "many notes": lambda: _with_notes(100_000, "note"),
    "chain": lambda: _chain(50_000),
    "group": lambda: ExceptionGroup("many", [ValueError(number) for number in range(100_000)]),
    "group of groups": lambda: _nested_groups(200),
    "class name": lambda: type("X" * HUGE, (Exception,), {})("short"),
}


@pytest.mark.parametrize("make", HUGE_ERRORS.values(), ids=HUGE_ERRORS)
def test_a_huge_exception_is_written_out_in_part_without_a_copy(make: Callable[[], BaseException]) -> None:
    error = make()
    tracemalloc.start()
    try:
        failed = failure(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(failed.error) <= ERROR_MAX
    assert sum(map(len, failed.names)) < 1_000
    assert peak < 16 * MEGABYTE, "a walk along a chain remembers where it was; a copy would be 50 MB"


def test_arguments_are_not_written_out_one_by_one() -> None:
    Counted.shown = 0
    failed = failure(ValueError([Counted()] * 1_000_000))
    assert Counted.shown <= 100
    assert "in part" in failed.error


def test_a_deep_recursion_keeps_both_ends_of_its_stack() -> None:
    def inner(depth: int) -> None:
        if depth:
            inner(depth - 1)
        raise ValueError("at the bottom")

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5_000)
    try:
        failed = failure(caught(lambda: inner(3_000)))
    finally:
        sys.setrecursionlimit(before)
    assert "frames are left out" in failed.error
    assert failed.error.startswith("Traceback")
    assert failed.error.endswith("ValueError: at the bottom")


def test_of_a_long_chain_the_nearest_and_the_first_exceptions_are_kept() -> None:
    text = traceback_text(_chain(1_000), None)
    assert text.startswith("ValueError: the first of all")
    assert text.endswith("RuntimeError: number 999")
    assert "… 990 exceptions of this chain are left out …" in text
    assert text.count("direct cause") == 11


def test_a_chain_that_leads_back_to_itself_ends() -> None:
    first, second = ValueError("x" * 100_000), ValueError("second")
    first.__cause__, second.__context__ = second, first
    assert traceback_text(first, None).count("second") == 1


def test_of_a_large_group_some_parts_and_the_number_of_the_others_are_kept() -> None:
    text = traceback_text(ExceptionGroup("many", [ValueError(number) for number in range(1_000)]), None)
    assert "many (1000 sub-exceptions)" in text
    assert "ValueError: 9\n" in text
    assert "… 990 sub-exceptions are left out …" in text


def test_an_ordinary_exception_reads_as_python_writes_it() -> None:
    def work() -> None:
        try:
            int("missing")
        except ValueError as error:
            error.add_note("a note")
            raise ExceptionGroup("both", [ValueError("one"), OSError(2, "no such file", "x")]) from error

    error = caught(work)
    assert traceback_text(error, error.__traceback__) == "".join(traceback.format_exception(error)).rstrip()


def test_a_syntax_error_says_where_it_is() -> None:
    error = caught(lambda: compile("a b", "broken.py", "exec"))
    assert 'File "broken.py", line 1' in failure(error).error


def test_a_message_that_cannot_be_made_is_said_to_be_such() -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "cannot be shown: RuntimeError" in message_of(Nasty())


def test_a_decoding_error_keeps_its_short_message_though_it_holds_all_of_the_input() -> None:
    failed = failure(caught((b"x" * MEGABYTE + b"\xff").decode))
    assert "can't decode byte 0xff in position 1048576" in failed.error
