"""The documentation is true: its examples run, its links lead somewhere, its tables say what the program says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType

import pytest

import itinerary
from bench.harness import Result
from itinerary import core, errors, ports, schedules, stores
from itinerary.core.loop import commands as commands_of_the_core
from itinerary.core.loop import messages
from itinerary.errors import ScheduleError
from itinerary.model import (
    CREATED_AS,
    FINAL,
    LEAVES,
    TRANSITIONS,
    OccurrenceState,
    OverrideLevel,
    Settings,
    TaskState,
    events,
    ids,
    mermaid,
    queries,
    resolve,
    retention,
    sweeps,
    timeline,
    tokens,
    writes,
)
from itinerary.model import audit_queries as evidence
from itinerary.model import heartbeat as nodes
from itinerary.model.settings import LIVE
from itinerary.schedules import Cron, Schedule, cron, format_duration
from tests.docs.examples import failures
from tests.docs.pages import (
    DOCS,
    GENERATED,
    ROOT,
    Page,
    code,
    docs_pages,
    documented_in_the_reference,
    pages_with_examples,
    reference,
)
from tests.docs.terminal import is_terminal

LANGUAGES = {"console", "json", "mermaid", "pycon", "python", "text", "toml"}
LINKED_FROM = [*pages_with_examples(), Page(ROOT / "CONTRIBUTING.md"), Page(ROOT / "CHANGELOG.md")]
EVERYWHERE = {OccurrenceState.FAILED, OccurrenceState.CANCELLED, OccurrenceState.ORPHANED}


def missing(names: Collection[str], found: Collection[str]) -> list[str]:
    return [name for name in names if name not in found]


# -- examples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages_with_examples(), ids=str)
def test_every_example_of_a_page_does_what_the_page_says(page: Page, tmp_path: Path) -> None:
    complaints = failures(page, tmp_path)
    assert not complaints, "".join(complaints)


@pytest.mark.parametrize("page", pages_with_examples(), ids=str)
def test_every_block_of_code_names_a_language_so_that_none_escapes_its_check(page: Page) -> None:
    assert {block.language for block in page.blocks} <= LANGUAGES
    assert "```" not in page.prose


@pytest.mark.parametrize("page", pages_with_examples(), ids=str)
def test_data_in_a_page_can_be_read(page: Page) -> None:
    readers = {"json": json.loads, "toml": tomllib.loads}
    for block in page.blocks:
        if block.language in readers:
            assert readers[block.language](block.source)


def commands() -> list[list[str]]:
    lines = [
        line
        for page in pages_with_examples()
        for block in page.blocks
        if block.language == "console" and not is_terminal(block)
        for line in block.source.splitlines()
    ]
    return [line.partition("#")[0].split() for line in lines]


def test_every_command_in_a_page_names_something_that_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for command in commands():
        match command:
            case ["make", target]:
                assert target in targets
            case ["python", "-m", package, *_]:
                assert (ROOT / package / "__main__.py").is_file()
            case ["python", script, *_]:
                assert (ROOT / script).is_file()
            case _:
                pytest.fail(f"{' '.join(command)}: no test knows how to check this command")


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", LINKED_FROM, ids=str)
def test_every_link_inside_the_project_leads_somewhere(page: Page) -> None:
    for link in page.links:
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        assert target.exists() or target in GENERATED, f"{link}: no such file"
        if anchor:
            assert anchor in Page(target).anchors, f"{link}: no such heading"


def test_every_page_is_on_the_map() -> None:
    index = Page(DOCS / "index.md")
    linked = {(DOCS / link).resolve() for link in index.links}
    assert not [str(page) for page in docs_pages() if page.path not in {*linked, index.path}]


# -- names -------------------------------------------------------------------------------------------------------------


PUBLIC = [itinerary, schedules, errors, core, ports, stores]
OF_STORES = [writes, timeline, sweeps, queries, evidence, retention, events, nodes, tokens]


@pytest.mark.parametrize("module", [*PUBLIC, *OF_STORES], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module: ModuleType) -> None:
    assert not missing(module.__all__, documented_in_the_reference())


def test_every_exception_says_what_else_it_is() -> None:
    for name, also, *_ in reference("errors").table("Class", "Is also a", "When", "What to do"):
        kind = getattr(errors, code(name))
        assert code(also) in {base.__name__ for base in kind.__mro__[1:]}
        assert ("ValueError" in also or "ScheduleError" in also) == issubclass(kind, ValueError)


def test_every_kind_of_schedule_has_its_json_in_the_reference() -> None:
    kinds = [vars(schedules)[name] for name in schedules.__all__]
    ours = {
        kind.kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Schedule) and kind is not Schedule
    }
    assert len(ours) == 8
    assert not missing(ours, reference("json").documented)


# -- schedules ---------------------------------------------------------------------------------------------------------


def after_its_name(expression: str, error: ScheduleError) -> str:
    return str(error).removeprefix(f"cron {expression!r}").removeprefix(":").strip()


@pytest.mark.spec("S10", "words in the docs")
@pytest.mark.parametrize(("expression", "words"), reference("schedules").table("Expression", "Words"))
def test_the_words_in_the_reference_are_those_of_the_schedule(expression: str, words: str) -> None:
    assert str(cron(code(expression))) == words


@pytest.mark.spec("S1", "refused with a suggestion")
@pytest.mark.spec("S9", "errors")
@pytest.mark.parametrize(
    ("refused", "message", "instead"), reference("schedules").table("Refused", "The message goes on", "Write")
)
def test_what_the_reference_says_is_refused_is_and_what_it_says_to_write_is_not(
    refused: str, message: str, instead: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        cron(code(refused))
    assert after_its_name(code(refused), caught.value).startswith(message)
    assert is_accepted(code(instead))


@pytest.mark.spec("S1", "warned")
@pytest.mark.parametrize(("expression", "warning"), reference("schedules").table("Expression", "Warning"))
def test_what_the_reference_says_is_warned_about_is(expression: str, warning: str) -> None:
    schedule = cron(code(expression))
    assert isinstance(schedule, Cron)
    assert schedule.warnings == (warning,)


@pytest.mark.spec("S1", "nicknames")
@pytest.mark.parametrize(("nicknames", "expression"), reference("schedules").table("Nickname", "Stands for"))
def test_a_nickname_means_what_the_reference_says(nicknames: str, expression: str) -> None:
    for nickname in code(nicknames).split(", "):
        if nickname != "@reboot":
            assert str(cron(nickname)) == str(cron(code(expression)))


@pytest.mark.spec("S1", "items")
@pytest.mark.parametrize(("items", "meaning"), reference("schedules").table("Item", "Meaning"))
def test_every_item_of_the_grammar_is_accepted_where_it_may_stand(items: str, meaning: str) -> None:
    places = ["{} 0 * * *", "0 0 {} * *", "0 0 * * {}"]
    for item in code(items).split(", "):
        assert any(is_accepted(place.format(item)) for place in places), f"{item}: {meaning}"


def is_accepted(expression: str) -> bool:
    try:
        cron(expression)
    except ScheduleError:
        return False
    return True


# -- configuration and settings ----------------------------------------------------------------------------------------


def leaf_rows() -> dict[str, Sequence[str]]:
    rows = reference("configuration").table("Leaf", "Default", "Levels that may set it", "Meaning")
    return {code(key): rest for key, *rest in rows}


@pytest.mark.spec("X5", "documented")
def test_every_leaf_of_the_configuration_is_in_the_reference() -> None:
    assert list(leaf_rows()) == list(LEAVES)


@pytest.mark.spec("X5", "defaults")
def test_the_default_of_each_leaf_is_the_one_in_the_reference() -> None:
    assert {key: default for key, (default, *_) in leaf_rows().items()} == {
        row.key: row.value for row in resolve().rows()
    }


@pytest.mark.spec("X5", "levels")
def test_the_levels_of_each_leaf_are_those_in_the_reference() -> None:
    real = {key: [level for level in OverrideLevel if level in levels] for key, levels in LEAVES.items()}
    assert {key: ["default", *levels.split(", ")] for key, (_, levels, _) in leaf_rows().items()} == real


@pytest.mark.spec("X5", "documented")
def test_every_choice_of_the_configuration_is_in_the_reference() -> None:
    page, effective = reference("configuration"), resolve()
    for header, chosen in {
        "`failure`": effective.failure,
        "`overlap`": effective.overlap,
        "`recovery.strategy`": effective.recovery.strategy,
        "`on_orphan`": effective.on_orphan,
        "`on_shutdown`": effective.on_shutdown,
    }.items():
        assert [code(name) for name, _ in page.table(header, "Meaning")] == list(type(chosen))


@pytest.mark.spec("L4", "defaults")
def test_every_setting_is_in_the_reference_with_its_default() -> None:
    defaults = Settings()
    assert {code(name): default for name, default, *_ in setting_rows()} == {
        name: shown(name, getattr(defaults, name)) for name in Settings.__struct_fields__
    }


@pytest.mark.spec("U13", "documented")
def test_every_setting_says_in_the_reference_whether_a_running_node_takes_it_over() -> None:
    assert {code(name): changes for name, _, changes, _ in setting_rows()} == {
        name: "live" if name in LIVE else "restart" for name in Settings.__struct_fields__
    }


def setting_rows() -> list[list[str]]:
    return reference("settings").table("Setting", "Default", "Changes", "Meaning")


def shown(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, int):
        return "none"
    is_time = name.endswith(("_interval", "_window", "_period", "_timeout", "_after", "_grace", "_for"))
    return format_duration(value) if is_time else str(value)


# -- states and ids ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("O1", "states")
def test_every_state_is_in_the_reference_with_how_it_is_entered_and_left() -> None:
    rows = reference("states").table("State", "You enter it when", "You leave it")
    assert [code(name) for name, *_ in rows] == list(OccurrenceState)
    assert all(entered and left for _, entered, left in rows)
    assert [code(name) for name, _ in reference("states").table("State", "Meaning")] == list(TaskState)


@pytest.mark.spec("O1", "table")
def test_the_table_of_states_in_the_reference_is_the_one_in_the_program() -> None:
    rows = reference("states").table("State", "Entered from", "Left to")
    assert [[code(cell) for cell in row] for row in rows] == [
        [state, entered_from(state), left_to(state)] for state in OccurrenceState
    ]


def entered_from(state: OccurrenceState) -> str:
    if state in EVERYWHERE:
        return "everything that is not final"
    before = [earlier for earlier in OccurrenceState if state in TRANSITIONS[earlier]]
    restored = ["cancelled, by an update"] if state is OccurrenceState.PRERUN else []
    return ", ".join([*(["(created)"] if state in CREATED_AS else []), *before, *restored])


def left_to(state: OccurrenceState) -> str:
    if state is OccurrenceState.CANCELLED:
        return "prerun, by an update"
    following = [later for later in OccurrenceState if later in TRANSITIONS[state] - EVERYWHERE]
    return "final" if state in FINAL else ", ".join(following)


@pytest.mark.spec("O1", "picture")
def test_the_picture_of_the_states_is_the_one_that_the_program_draws() -> None:
    drawings = [block.source for block in reference("states").blocks if block.language == "mermaid"]
    assert drawings == [mermaid()]


@pytest.mark.spec("O1", "picture")
def test_the_pictures_of_the_state_machine_together_show_every_transition_and_no_other() -> None:
    pictures = [block.source for block in Page(DOCS / "explanation/state-machine.md").blocks]
    arrows = {tuple(arrow) for picture in pictures for arrow in re.findall(r"(\S+) --> (\S+)", picture)}
    table = {(str(before), str(after)) for before in TRANSITIONS for after in TRANSITIONS[before] - EVERYWHERE}
    everywhere = {("not_final", str(after)) for after in EVERYWHERE}
    assert arrows == table | everywhere | {("[*]", str(state)) for state in CREATED_AS} | {("cancelled", "prerun")}


@pytest.mark.spec("D1", "namespaces")
def test_the_namespaces_in_the_reference_are_those_of_the_program() -> None:
    for kind, namespace in reference("ids").table("Kind", "Namespace"):
        assert code(namespace) == str(getattr(ids, f"{kind.upper()}_NAMESPACE"))


# -- what is logged and sent -------------------------------------------------------------------------------------------


SOURCES = "".join(path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.py")))


def test_every_event_of_the_log_that_somebody_should_look_for_is_one() -> None:
    page = Page(DOCS / "how-to/troubleshooting.md")
    named = re.findall(r"`((?:clock|index|job|loop|store|sweep)\.[a-z_]+)`", page.prose)
    assert len(named) > 4
    assert not missing([f'"{event}"' for event in named], SOURCES)


def test_the_messages_in_the_life_of_an_occurrence_are_those_of_the_loop() -> None:
    pictures = [block.source for block in Page(DOCS / "explanation/life-of-an-occurrence.md").blocks]
    sent = {name for picture in pictures for name in re.findall(r"(?:->>|-->>)L: (\w+)", picture)}
    told = {name for picture in pictures for name in re.findall(r"L->>\w: (\w+)", picture)}
    assert not missing(sorted(sent), messages.__all__)
    assert not missing(sorted(told), commands_of_the_core.__all__)


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_the_reference_explains_every_key_of_a_benchmark_line() -> None:
    line = json.loads(Result("cron", "1h_ms", 1.0, "ms", "croniter", 2.0, differing=0).to_json())
    page = reference("benchmarks")
    assert [code(key) for key, _ in page.table("Key", "Meaning")] == list(line)
    assert [list(json.loads(block.source)) for block in page.blocks if block.language == "json"] == [list(line)]


def test_every_bench_is_in_the_reference_with_what_it_measures() -> None:
    benches = re.findall(r'^    "(\w+)": \(', (ROOT / "bench/__main__.py").read_text("utf-8"), re.MULTILINE)
    rows = reference("benchmarks").table("Bench", "Measure", "What is measured", "Peers")
    assert {code(bench) for bench, *_ in rows} == set(benches)


def test_the_architecture_page_names_every_forbidden_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    forbidden = next(one["forbidden_modules"] for one in contracts if "forbidden_modules" in one)
    assert not missing([f"`{module}`" for module in forbidden], Page(DOCS / "explanation/architecture.md").text)
