"""The reference of the log is complete: every event, how loud it is, and its fields (U9)."""

from __future__ import annotations

import re

import pytest

from tests.docs.log_events import logged
from tests.docs.pages import code, reference


def documented() -> dict[str, tuple[set[str], set[str]]]:
    rows = reference("log").table("Event", "Level", "Fields", "What it says")
    assert len(rows) == len({name for name, *_ in rows}), "each event has one row"
    assert all(meaning for *_, meaning in rows)
    return {
        code(name): (set(levels.split(", ")), set(code(fields).split(", ")) - {"none"})
        for name, levels, fields, _ in rows
    }


@pytest.mark.spec("U9", "documented")
def test_every_event_of_the_log_is_in_the_reference_with_its_level_and_fields() -> None:
    assert documented() == {name: (event.levels, event.fields) for name, event in logged().items()}


@pytest.mark.spec("U9", "one event name and its fields")
def test_the_name_of_an_event_says_what_it_is_about_and_what_happened() -> None:
    assert not [name for name in logged() if not re.fullmatch(r"[a-z_]+\.[a-z_]+", name)]
