"""The threat model names an existing test for each of its statements."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.docs.pages import DOCS, ROOT, Page, code

PAGE = Page(DOCS / "explanation/threat-model.md")
HEADER = ["Statement", "Test"]


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    body = ast.parse(file.read_text("utf-8")).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


@pytest.mark.spec("Q1", "threat model")
@pytest.mark.parametrize(("statement", "test"), PAGE.table(*HEADER), ids=lambda cell: code(cell)[:60])
def test_each_statement_of_the_threat_model_names_a_test_that_exists(statement: str, test: str) -> None:
    path, between, name = code(test).partition("::")
    assert between, f"{statement} names no test: write tests/…/test_file.py::test_name"
    assert path.startswith("tests/")
    assert name in defined_in(path), f"{statement} There is no {name} in {path}"


def test_every_section_with_statements_is_a_table_of_statements_and_tests() -> None:
    others = [table[0] for table in PAGE.tables if table[0] != HEADER]
    assert others == [["Actor", "Trusted with"], ["Not defended", "What to do"]]
    statements = [row[0] for row in PAGE.table(*HEADER)]
    assert len(statements) == len(set(statements)), "each statement is made once"
    assert all(statement.endswith(".") for statement in statements)


def test_a_statement_without_a_test_is_noticed() -> None:
    assert "test_nothing_of_this_name" not in defined_in("tests/docs/test_threat_model.py")
    assert not defined_in("tests/nowhere.py")
    assert "test_a_statement_without_a_test_is_noticed" in defined_in("tests/docs/test_threat_model.py")
