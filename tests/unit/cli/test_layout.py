"""Tables and lists at any width: what has no room goes below its row, and nothing is ever cut off (U3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from itinerary.cli.layout import Cell, TableColumn, laid_out, listed
from itinerary.cli.output import UNLIMITED, shown_state

COLUMNS = (
    TableColumn("job"),
    TableColumn("state"),
    TableColumn("runs", 1, is_number=True),
    TableColumn("schedule", 2, wraps_at=20),
    TableColumn("host", 3, is_extra=True),
)
ROWS: list[list[Cell]] = [
    ["nightly_report", shown_state("active"), 12_345, "At 05:00, Monday to Friday, America/New_York", "db-1"],
    ["etl", shown_state("paused"), 7, "Every 15 minutes", None],
]


def drawn(width: int, columns: tuple[TableColumn, ...] = COLUMNS, rows: list[list[Cell]] = ROWS) -> str:
    return "\n".join(line.plain for line in laid_out(columns, rows, width))


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
def test_a_pipe_has_one_line_a_row_with_everything() -> None:
    assert drawn(UNLIMITED) == (
        "job             state     runs  schedule                                      host\n"
        "nightly_report  active  12,345  At 05:00, Monday to Friday, America/New_York  db-1\n"
        "etl             paused       7  Every 15 minutes"
    )


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
def test_what_may_wrap_does_before_anything_leaves_its_column() -> None:
    assert drawn(70) == (
        "job             state     runs  schedule                          host\n"
        "nightly_report  active  12,345  At 05:00, Monday to Friday,       db-1\n"
        "                                America/New_York\n"
        "etl             paused       7  Every 15 minutes"
    )


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
def test_what_has_no_room_goes_below_its_row_and_what_is_left_out_is_said() -> None:
    assert drawn(40) == (
        "job             state     runs\n"
        "nightly_report  active  12,345\n"
        "    schedule At 05:00, Monday to Friday,\n"
        "    America/New_York\n"
        "etl             paused       7\n"
        "    schedule Every 15 minutes\n"
        "a wider terminal, or --json, has more:\n"
        "host"
    )


def test_a_name_that_is_wider_than_the_terminal_is_broken_and_not_cut() -> None:
    shown = drawn(30, (TableColumn("job"), TableColumn("state")), [["x" * 50, "active"]])
    assert shown.count("x") == 50
    assert max(map(len, shown.splitlines())) <= 30


def test_wide_characters_are_counted_by_the_cells_that_they_take() -> None:
    assert drawn(
        UNLIMITED, (TableColumn("job"), TableColumn("state")), [["夜間報告", "active"], ["etl", "paused"]]
    ) == ("job       state\n夜間報告  active\netl       paused")


def test_a_column_that_says_nothing_is_left_out_and_an_empty_table_is_empty() -> None:
    assert drawn(60, (TableColumn("job"), TableColumn("why")), [["etl", None]]) == "job\netl"
    assert drawn(60, COLUMNS, []) == ""


def test_facts_stand_below_each_other_and_go_on_beside_their_labels() -> None:
    facts: list[tuple[str, Cell]] = [
        ("schedule", "At 05:00, Monday to Friday, America/New_York"),
        ("reason", None),
        ("on", "db-1"),
    ]
    assert [line.plain for line in listed(facts, 40, indent=2)] == [
        "  schedule  At 05:00, Monday to Friday,",
        "            America/New_York",
        "  on        db-1",
    ]


WORDS = st.text(st.sampled_from("acdef \x07\n\t夜"), max_size=40)


@given(st.integers(30, 120), st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS), max_size=4))
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(
    width: int, rows: list[tuple[str, str, str, str, str]]
) -> None:
    columns = (
        TableColumn("P"),
        TableColumn("Q"),
        TableColumn("R", 1),
        TableColumn("S", 2, wraps_at=20),
        TableColumn("T", 3, wraps_at=8),
    )
    lines = laid_out(columns, rows, width)
    assert all(cell_len(line.plain) <= width for line in lines)
    shown = Text("\n").join(lines).plain
    for letter in "acdef夜":
        assert shown.count(letter) == sum(cell.count(letter) for row in rows for cell in row)
    assert "\x07" not in shown
