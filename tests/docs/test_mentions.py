"""No page speaks of a command, an option, a variable or a setting that does not exist.

That every one of them is in the reference is proved elsewhere. This is the other direction, and it holds for all pages:
what a reader may copy is understood by the program.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary
from itinerary.cli.main import app
from itinerary.config.configuration import SETTING_KEYS, read_configuration
from itinerary.executors.definitions import TASK_KEYS
from itinerary.jobs.job_file.declarations import JOB_KEYS
from itinerary.model import LEAVES
from itinerary.model.definition import Requirement
from tests.docs.pages import ROOT, Page, pages_with_examples

PAGES = [*pages_with_examples(), Page(ROOT / "CONTRIBUTING.md"), Page(ROOT / "CHANGELOG.md")]
ITINERARY: Any = app
MODULES = ("bench/__main__.py", "tests/simulation/__main__.py", "tools/spec.py")
"""Programs of ours that are no command."""
NO_SETTINGS = {"ITINERARY_CONFIG", "ITINERARY_POSTGRES_PORT", "ITINERARY_TEST_POSTGRES"}
OF_POSTGRESQL = {"fsync", "full_page_writes", "synchronous_commit"}
OF_SCHEDULES = {"gap", "repeat"}

_SPAN = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"(?:^|[|/]\s*|\$ )itinerary (?=[a-z-])(.*)")
_OPTION = re.compile(r"--[a-z][a-z-]*|(?<!\S)-[a-z](?!\S)")
_VARIABLE = re.compile(r"\bITINERARY_[A-Z_]*[A-Z]")


def spans(page: Page) -> list[str]:
    return [span.replace(r"\|", "|") for span in _SPAN.findall(page.prose)]


def shown_commands(page: Page) -> Iterator[str]:
    """Everything after `itinerary` that somebody may type: in a sentence, or in a block of what a terminal shows."""
    lines = [
        line for block in page.blocks if block.language in {"text", "console"} for line in block.source.splitlines()
    ]
    for line in [*spans(page), *lines]:
        if found := _COMMAND.search(line):
            yield found[1]


def typed(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def complaint(given: list[str]) -> str | None:
    """What is wrong with the words after `itinerary`; an option may have any value."""
    command = ITINERARY
    while given and (below := getattr(command, "commands", {}).get(given[0])) is not None:
        command, given = below, given[1:]
    if command.name is None or (given and hasattr(command, "commands") and not given[0].startswith("-")):
        return f"there is no command {' '.join(given)!r}"
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.partition("=")[0] for word in given]
    unknown = [option for option in options if _OPTION.fullmatch(option) and option not in known]
    return f"`itinerary {command.name}` has no {', '.join(unknown)}" if unknown else None


@pytest.mark.spec("U3", "documented")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_that_a_page_shows_is_one_and_has_its_options(page: Page) -> None:
    wrong = [(command, why) for command in shown_commands(page) if (why := complaint(typed(command)))]
    assert not wrong


def test_a_command_or_an_option_that_does_not_exist_is_noticed() -> None:
    assert complaint(["up", "app.py", "--store", "memory:"]) is None
    assert complaint(["records", "show", "folio", "--json"]) is None
    assert complaint(["--version"]) is None
    assert complaint(["upp", "app.py"]) == "there is no command 'upp app.py'"
    assert complaint(["records", "sing", "folio"]) == "there is no command 'sing folio'"
    assert complaint(["up", "app.py", "--stor=x"]) == "`itinerary up` has no --stor"


@pytest.mark.spec("U3", "documented")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_option_that_a_page_names_by_itself_is_one_of_ours(page: Page) -> None:
    named = {option for span in spans(page) if span.startswith("-") for option in _OPTION.findall(span)}
    assert named <= known_options()


@cache
def known_options() -> set[str]:
    ours = {name for command in every_command() for parameter in command.params for name in _names(parameter)}
    sources = "".join((ROOT / module).read_text("utf-8") for module in MODULES)
    return ours | set(re.findall(r'"(--[a-z-]+)"', sources)) | {"--help"}


def every_command() -> Iterator[Any]:
    waiting = [ITINERARY]
    while waiting:
        command = waiting.pop()
        yield command
        waiting += getattr(command, "commands", {}).values()


def _names(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


@pytest.mark.spec("L4", "documented")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_variable_that_a_page_names_is_read(page: Page) -> None:
    lines = [block.source for block in page.blocks if block.language != "pycon"]  # those are run, mistakes included
    named = {name for text in [page.prose, *lines] for name in _VARIABLE.findall(text)}
    read = {f"ITINERARY_{key.upper()}" for key in SETTING_KEYS} | NO_SETTINGS
    assert not {name for name in named if not name.startswith("ITINERARY_SECRET")} - read


@pytest.mark.spec("L4", "documented")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_key_that_a_sentence_sets_as_a_file_does_is_one(page: Page) -> None:
    tasks = {key for keys in TASK_KEYS.values() for key in keys}
    leaves = {leaf.partition(".")[0] for leaf in LEAVES}
    known = {*SETTING_KEYS, *JOB_KEYS, *tasks, *leaves, *Requirement.__struct_fields__, *OF_POSTGRESQL, *OF_SCHEDULES}
    named = {found[1] for span in spans(page) if (found := re.match(r"([a-z_]+) = ", span))}
    assert named <= known


def files_of_ours() -> list[tuple[str, str]]:
    """Each block that is a job file, or settings, and where it stands."""
    return [
        (f"{page}:{block.line}", block.source)
        for page in PAGES
        for block in page.blocks
        if block.language == "toml" and "project" not in tomllib.loads(block.source)
    ]


@pytest.mark.spec("U2", "the examples of all pages")
@pytest.mark.parametrize(("place", "source"), files_of_ours(), ids=[place for place, _ in files_of_ours()])
def test_every_file_that_a_page_shows_is_read_without_a_mistake(place: str, source: str, tmp_path: Path) -> None:
    if {"jobs", "records"} & tomllib.loads(source).keys():
        (tmp_path / "jobs.toml").write_text(source, "utf-8")
        assert len(Itinerary(job_file=tmp_path / "jobs.toml")) >= 1
    else:
        (tmp_path / "itinerary.toml").write_text(source, "utf-8")
        assert read_configuration({}, {}, tmp_path).store
