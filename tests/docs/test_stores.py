"""What the reference says of stores is what they have: options, calls, answers, queries, limits, tables, errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from itinerary import errors
from itinerary.model import rows, text
from itinerary.model.queries import PAGE_MAX, Query
from itinerary.model.retention import Retention
from itinerary.model.rows import EntryKind, NodeNumber
from itinerary.model.timeline import EntryRefusal, VerdictKind
from itinerary.model.tokens import TOKENS_MAX
from itinerary.model.writes import BATCH_MAX, Refusal
from itinerary.ports import Store, TaskTransaction
from itinerary.schedules import format_duration
from itinerary.stores import group_commit as writer
from itinerary.stores import ledger, open_store, tables
from itinerary.stores import urls as opening
from itinerary.stores.ledger import history
from itinerary.stores.ledger import overlap_queue as lines
from itinerary.stores.ledger import unit_of_work as pages
from itinerary.stores.lmdb import LmdbEngine, layout
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.sqlite import SqliteEngine
from tests.docs.pages import DOCS, Page, code, reference

PLACES: dict[str, tuple[Callable[..., Any], str]] = {
    "SQLite": (SqliteEngine.__init__, "sqlite:///itinerary.db"),
    "PostgreSQL": (PostgresEngine.__init__, "postgresql://host/database"),
    "LMDB": (LmdbEngine.__init__, "lmdb:///itinerary"),
}
LIMITS = {
    "BATCH_MAX": BATCH_MAX,
    "PAGE_MAX": PAGE_MAX,
    "LINE_MAX": lines.LINE_MAX,
    "OUTPUT_MAX": pages.OUTPUT_MAX,
    "MESSAGE_MAX": text.MESSAGE_MAX,
    "GROUP_MAX": writer.GROUP_MAX,
    "TOKENS_MAX": TOKENS_MAX,
    "CHAPTER": history.CHAPTER,
}


def first_cells(page: Page, *header: str) -> list[str]:
    return [code(row[0]) for row in page.table(*header)]


def stores() -> Page:
    return reference("stores")


def schema() -> Page:
    return reference("schema")


# -- URLs --------------------------------------------------------------------------------------------------------------


def shown(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@pytest.mark.spec("D4", "options")
@pytest.mark.parametrize("kind", PLACES)
def test_every_option_of_a_url_is_in_the_reference_with_its_default(kind: str) -> None:
    build, url = PLACES[kind]
    options = {
        name: shown(parameter.default)
        for name, parameter in inspect.signature(build).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ("clock", "trust")
    }
    for name, default in options.items():
        open_store(f"{url}?{name}={default}")
    if "trust" in inspect.signature(build).parameters:
        options |= {"owner": "none", "group": "none"}
        open_store(f"{url}?owner=root&group=0")
    rows_of_page = stores().table(f"{kind} option", "Default", "Meaning")
    assert {code(name): code(default) for name, default, _ in rows_of_page} == options


@pytest.mark.spec("D4", "kinds")
def test_every_kind_of_store_is_in_the_reference_and_its_url_is_accepted() -> None:
    urls = first_cells(stores(), "URL", "Store", "Needs")
    for url in urls:
        open_store(url)
    named = stores().text
    assert not [scheme for scheme in opening._ENGINES if f"`{scheme}:" not in named]


# -- calls and answers -------------------------------------------------------------------------------------------------


def public(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


@pytest.mark.spec("D4", "documented")
def test_every_call_of_a_store_is_in_the_reference() -> None:
    assert first_cells(stores(), "Method", "What it does", "Answer") == public(Store)
    assert first_cells(stores(), "Method", "What it does") == public(TaskTransaction)


@pytest.mark.spec("D4", "documented")
@pytest.mark.parametrize(
    ("choices", "header"),
    [
        (Refusal, ("Refusal", "When", "What to do")),
        (EntryRefusal, ("EntryRefusal", "When", "What to do")),
        (EntryKind, ("Entry kind", "From then on")),
        (VerdictKind, ("Verdict kind", "Effect on the occurrence")),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_refusal_and_every_choice_is_in_the_reference(choices: type[StrEnum], header: tuple[str, ...]) -> None:
    assert first_cells(stores(), *header) == list(choices)
    assert all(all(row) for row in stores().table(*header))


@pytest.mark.spec("D4", "documented")
def test_every_query_is_in_the_reference_with_what_it_is_asked_with() -> None:
    documented = {code(name): code(asked) for name, asked, _ in stores().table("Query", "Asked with", "Answer")}
    assert documented == {query.__name__: asked_with(query) for query in Query.__subclasses__()}


def asked_with(query: type[Query[Any]]) -> str:
    required = len(query.__struct_fields__) - len(query.__struct_defaults__)
    defaults = [None] * required + [f"={default}" for default in query.__struct_defaults__]
    parts = [
        name if default is None or name == "states" else f"{name}{default}"
        for name, default in zip(query.__struct_fields__, defaults, strict=True)
    ]
    return ", ".join(parts)


@pytest.mark.spec("D8", "documented")
def test_every_rule_of_retention_is_in_the_reference_with_its_default() -> None:
    rules = Retention()
    assert {code(name): default for name, default, _ in stores().table("Rule", "Default", "Meaning")} == {
        name: str(rules.keep_max) if name == "keep_max" else format_duration(getattr(rules, name))
        for name in Retention.__struct_fields__
    }


def test_the_limits_in_the_reference_are_those_of_the_program() -> None:
    documented = {code(name): value for name, value, _ in stores().table("Limit", "Value", "Of what")}
    assert documented == {name: f"{value:,}" for name, value in LIMITS.items()}


def test_every_topic_is_in_the_reference() -> None:
    topics = [ledger.TIMELINE_TOPIC, ledger.mail_topic(NodeNumber(7)), ledger.stream_topic("calls")]
    documented = first_cells(stores(), "Topic", "Something has happened")
    assert [topic.replace("<node>", "7").replace("<stream>", "calls") for topic in documented] == topics


def test_every_error_of_a_store_says_what_to_do() -> None:
    table = reference("errors").table("Class", "Is also a", "When", "What to do")
    advice = {code(name): what_to_do for name, _, _, what_to_do in table}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.StoreError)]
    assert not [kind.__name__ for kind in kinds if not advice.get(kind.__name__)]


def test_the_explanation_has_every_durable_write_of_an_occurrence() -> None:
    page = Page(DOCS / "explanation/durability.md")
    writes = {"amend", "claim", "start", "write", "intervene", "control", "advance_sweep"}
    assert set(first_cells(page, "Write", "What it settles", "It is refused when")) == writes <= set(public(Store))


# -- the schema --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D2", "documented")
def test_every_table_is_in_the_reference_with_its_row_its_key_and_its_name() -> None:
    documented = [
        [code(cell) for cell in cells] for *cells, _ in schema().table("Table", "Row", "Key", "Name", "One row is")
    ]
    assert documented == [
        [table.title, table.row.__name__, ", ".join(table.key), ", ".join(table.name)] for table in tables.ALL
    ]


@pytest.mark.spec("D2", "documented")
def test_every_column_is_in_the_reference_with_its_type() -> None:
    documented = {code(title): code(columns) for title, columns in schema().table("Table", "Columns")}
    spelled_out = schema().table("Column", "Type", "Meaning")
    documented["occurrences"] = ", ".join(f"{code(name)} {kind}" for name, kind, _ in spelled_out)
    assert documented == {
        table.title: ", ".join(f"{column.name} {type_of(column)}" for column in table.columns) for table in tables.ALL
    }


def type_of(column: tables.Column) -> str:
    return column.type.__name__ + "?" * column.is_optional


@pytest.mark.spec("D2", "documented")
def test_every_public_name_of_the_rows_is_in_the_schema() -> None:
    named = set(re.findall(r"`(\w+)`", schema().prose))
    assert not [name for name in rows.__all__ if name not in named]


@pytest.mark.spec("D4", "keys")
def test_the_keys_of_lmdb_in_the_reference_are_those_of_the_program() -> None:
    documented = first_cells(schema(), "Key", "Holds")
    special = [layout.MARK.decode(), layout.COUNTER.decode() + "<table>", layout.REF.template, "name/<table>/…"]
    paths = {
        title: (layout.HOME.template if place.is_below else "") + place.path.template
        for title, place in layout.PLACES.items()
    }
    elsewhere = [path for title, path in paths.items() if not path.startswith(f"{title}/")]
    assert documented == [*special, *elsewhere, "<table>/…"]
    assert paths["active"] == "active/{job}/{ref}"
    (row,) = [holds for key, holds in schema().table("Key", "Holds") if code(key) == "name/<table>/…"]
    assert re.findall(r"`(\w+)`", row) == [place.table.title for place in layout.PLACES.values() if place.names]


@pytest.mark.spec("D4", "keys of the design")
def test_every_key_of_the_design_is_compared_with_the_key_of_the_lmdb_store() -> None:
    designed = [
        "job/<JobID>",
        "job/<JobID>/task/<TaskID>",
        "job/<JobID>/occurrence/<OccurID>",
        "job/<JobID>/occurrence/<OccurID>/task/<TaskID>/run",
        "job/<JobID>/occurrence/<OccurID>/task/<TaskID>/run/attempt/<AttemptID>",
    ]
    rows = reference("schema").table("Key of the design", "Key here", "Difference")
    assert [code(key) for key, *_ in rows] == designed
    kept = ["jobs", "entries", "occurrences", "tasks", "attempts"]
    places = [layout.PLACES[title] for title in kept]
    here = [(layout.HOME.template if place.is_below else "") + place.path.template for place in places]
    assert [code(key) for _, key, _ in rows] == here
    assert all(difference for *_, difference in rows)
