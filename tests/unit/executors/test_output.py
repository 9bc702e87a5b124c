"""What a task printed is text, and of too much of it the end is kept."""

from __future__ import annotations

import asyncio
import re
import threading
import tracemalloc
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.executors import output
from itinerary.executors.output import OUTPUT_MAX, Tail, when_text_is_made
from itinerary.model.text import clean_text

LIMIT = 400


def tail(*chunks: bytes, limit: int = LIMIT) -> Tail:
    made = Tail(limit)
    for chunk in chunks:
        made.write(chunk)
    return made


@pytest.mark.spec("Q4", "output")
def test_the_limit_is_a_megabyte() -> None:
    assert OUTPUT_MAX == 1024 * 1024


@pytest.mark.parametrize(
    ("printed", "left"),
    [(b"bye\ngone", "bye\n"), (b"gone", None), (b"gone\n", "gone\n"), (b"gone\nbye", "gone\nbye"), (b"", None)],
)
def test_an_end_that_is_not_the_tasks_is_cut_off(printed: bytes, left: str | None) -> None:
    made = tail(printed)
    made.cut(re.compile(rb"gone\Z"))
    assert made.text() == left


def test_nothing_printed_is_no_output() -> None:
    assert tail().text() is None
    assert tail(b"").text() is None


def test_little_is_kept_as_it_is() -> None:
    assert tail(b"one\n", b"two\n").text() == "one\ntwo\n"


@pytest.mark.spec("Q4", "output")
def test_of_much_the_end_is_kept_with_a_note_how_much_is_missing() -> None:
    text = tail(*(b"%06d\n" % number for number in range(10_000))).text()
    assert text is not None
    note, *lines = text.splitlines()
    assert lines[-1] == "009999"
    missing = 70_000 - len("\n".join(lines)) - 1
    assert note == f"… {missing} bytes before this are not kept …"


def test_the_memory_for_output_is_bounded_however_much_a_task_prints() -> None:
    tracemalloc.start()
    try:
        tail = Tail(100_000)
        for _ in range(1_000):
            tail.write(b"x" * 10_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(tail) == 10_000_000


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_whatever_comes_is_text_within_the_limit(chunks: list[bytes]) -> None:
    made = tail(*chunks)
    assert len(made) == sum(map(len, chunks))
    assert len(made._kept) <= 2 * LIMIT
    text = made.text()
    assert text is None or len(text.encode()) <= LIMIT


@pytest.mark.spec("Q7", "output is text")
def test_what_a_terminal_would_obey_is_replaced() -> None:
    assert tail(b"\x1b[31mred\x07\0 \xff\r\nnext\t1\n").text() == "�[31mred�� �\nnext\t1\n"


@pytest.mark.spec("Q7", "secrets")
def test_a_secret_that_was_printed_is_shown_by_its_name() -> None:
    secrets = {"TOKEN": "hunter2", "LONGER": "hunter2hunter2"}
    assert tail(b"a hunter2hunter2 b hunt", b"er2 c").text(secrets) == "a [secret LONGER] b [secret TOKEN] c"


@pytest.mark.spec("Q7", "secrets")
def test_not_even_the_end_of_a_secret_is_left_where_output_was_cut() -> None:
    secret = "".join(chr(ord("a") + number % 26) for number in range(26))
    made = Tail(200)
    made._kept += secret.encode() + b"." * 150
    made._drop(13)
    text = made.text({"TOKEN": secret})
    assert text is not None
    assert "nopq" not in text
    assert "z." not in text


def test_an_empty_secret_hides_nothing() -> None:
    assert tail(b"abc").text({"TOKEN": ""}) == "abc"


@given(st.binary(max_size=60), st.integers(1, 9))
def test_text_that_is_made_in_blocks_is_the_same_as_in_one_piece(printed: bytes, block: int) -> None:
    whole = clean_text(printed.decode("utf-8", "replace"), 1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "_BLOCK", block)
        assert tail(printed).text() == (whole or None)


def test_long_output_is_made_text_of_in_a_thread_and_short_output_at_once() -> None:
    places: list[str] = []

    class Seen(Tail):
        def text(self, secrets: Mapping[str, str] | None = None) -> str | None:
            places.append(threading.current_thread().name)
            return super().text(secrets)

    async def main(printed: bytes) -> str | None:
        seen, made = Seen(), asyncio.get_running_loop().create_future()
        seen.write(printed)
        when_text_is_made(seen, {"TOKEN": "hunter2"}, made.set_result)
        return await asyncio.wait_for(made, 60)

    assert asyncio.run(main(b"a hunter2")) == "a [secret TOKEN]"
    assert asyncio.run(main(b"x" * OUTPUT_MAX)) == "x" * OUTPUT_MAX
    assert places[0] == threading.current_thread().name
    assert places[1] != places[0]
