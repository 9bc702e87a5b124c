"""How commands print: colours, escapes, words for times (U3, Q7)."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from itinerary.cli.output import UNLIMITED, lines, one_line, say, screen, shown_state, told_at, told_for, width_of
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.schedules.durations import SECOND


@pytest.mark.spec("Q7", "output is text and never control")
def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert one_line("red \x1b[31m\x9b bell \x07 back \x08 nul \x00 turned \u202e") == (
        r"red \x1b[31m\x9b bell \x07 back \x08 nul \x00 turned \u202e"
    )
    assert one_line("two\nlines\r\nthree\ttab") == "two ⏎ lines ⏎ three tab"
    assert lines("first\x1b[2J\r\n\tsecond\rthird\n\n") == [r"first\x1b[2J", "        second", "third"]


@given(st.text(max_size=60))
@pytest.mark.spec("Q7", "output is text and never control")
def test_nothing_that_is_shown_can_move_a_cursor(text: str) -> None:
    for shown in (one_line(text), *lines(text)):
        assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in shown)
        shown.encode()


@pytest.mark.spec("U3", "no colour")
def test_colour_is_for_terminals_and_not_for_those_who_do_not_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*, is_terminal: bool) -> str:
        out = StringIO()
        console = Console(file=out, force_terminal=is_terminal, highlight=False, width=60)
        say(shown_state(OccurrenceState.FAILED), console)
        return out.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert shown(is_terminal=True) == "\x1b[1;31mfailed\x1b[0m\n"
    assert shown(is_terminal=False) == "failed\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31" not in shown(is_terminal=True)


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
def test_a_pipe_has_no_width_unless_somebody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width_of(screen()) == UNLIMITED
    monkeypatch.setenv("COLUMNS", "60")
    assert width_of(screen()) == 60
    monkeypatch.setenv("COLUMNS", "3")
    assert width_of(screen()) == 20


def test_every_state_has_its_word_and_markup_in_text_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    for state in (*OccurrenceState, *TaskState):
        assert shown_state(state).plain == state
    say("[bold]not bold[/bold] :smile:")
    assert capsys.readouterr().out == "[bold]not bold[/bold] :smile:\n"


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 ms"),
        (12_345, "12 ms"),
        (4_200_000, "4.2 s"),
        (59 * SECOND, "59 s"),
        (200 * SECOND, "3 min 20 s"),
        (7_800 * SECOND, "2 h 10 min"),
        (3_600 * SECOND, "1 h"),
        (100 * 3_600 * SECOND, "4 d 4 h"),
        (-90 * SECOND, "-1 min 30 s"),
    ],
)
def test_how_long_is_said_in_the_two_units_that_matter(microseconds: int, words: str) -> None:
    assert told_for(microseconds) == words


def test_a_moment_is_shown_on_the_wall_clock_that_is_meant() -> None:
    assert told_at(1_774_699_200 * SECOND) == "2026-03-28 12:00:00"
    assert told_at(1_774_699_200 * SECOND, -4 * 3_600) == "2026-03-28 08:00:00"
