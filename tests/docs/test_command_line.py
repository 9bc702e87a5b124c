"""The reference of the command line has every command and every option, and says of them what is so (U3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from itinerary.cli.charts import LETTERS
from itinerary.cli.main import app
from itinerary.model.retention import Retention
from itinerary.read.jobs import JobState
from itinerary.schedules.durations import format_duration
from tests.docs.pages import Page, code, reference

_CODE = re.compile(r"`([^`]+)`")
_HELP = {"-h", "--help"}


def page() -> Page:
    return reference("command-line")


def commands(command: Any, *above: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be given, with its words."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*above, name), below
        yield from commands(below, *above, name)


COMMANDS = dict(commands(app))


def sections() -> list[str]:
    return re.split(r"^(?=## )", page().prose, flags=re.MULTILINE)


def section_of(words: tuple[str, ...]) -> str:
    """The part of the page that explains a command: in its heading, or at the beginning of a line of a table."""
    name = re.escape(" ".join(words))
    explained = re.compile(rf"^## .*`itinerary {name}[ `]|^\| `{name}[ `]", re.MULTILINE)
    found = [section for section in sections() if explained.search(section)]
    assert found, f"no part of {page()} explains `itinerary {' '.join(words)}`"
    return found[0]


def options_of(command: Any) -> list[str]:
    names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return [name for name in names if name.startswith("-")]


@pytest.mark.spec("U3", "documented")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_is_in_the_reference_with_every_option(words: tuple[str, ...]) -> None:
    said = " ".join(_CODE.findall(section_of(words)))
    named = set(re.findall(r"--?[a-z][a-z-]*", said))
    assert not [option for option in options_of(COMMANDS[words]) if option not in named | _HELP]


@pytest.mark.spec("U3", "documented")
def test_every_option_without_a_command_is_in_the_reference() -> None:
    assert not [option for option in options_of(app) if f"{option}`" not in page().text]


@pytest.mark.spec("U3", "documented")
def test_every_option_that_the_reference_names_is_one() -> None:
    known = {option for command in (*COMMANDS.values(), app) for option in options_of(command)}
    rows = [row for table in page().tables if table[0][0] == "Option" for row in table[1:]]
    assert len(rows) > 20
    named = {option for row in rows for option in re.findall(r"--?[a-z][a-z-]*", code(row[0]))}
    assert named <= known


@pytest.mark.spec("U3", "documented")
def test_states_letters_and_defaults_in_the_reference_are_those_of_the_program() -> None:
    letters = {code(letter): code(outcome) for letter, outcome in page().table("Letter", "Outcome")}
    assert letters == {letter: str(state) for state, letter in LETTERS.items()}
    section = section_of(("jobs",))
    assert not [state for state in JobState if f"`{state}`" not in section]
    rules = Retention()
    section = section_of(("prune",))
    for default in (format_duration(rules.keep_for), format_duration(rules.keep_failed_for)):
        assert f"`{default}`" in section
    assert f"; {rules.keep_max} |" in section


@pytest.mark.spec("U3", "exit codes")
def test_every_command_explains_itself() -> None:
    for words, command in COMMANDS.items():
        assert command.help, words
        assert all(parameter.help for parameter in command.params if parameter.param_type_name == "option"), words
