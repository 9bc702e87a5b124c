"""The rules of the durable protocol are numbered on one page, and the code cites them by these numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "protocol.md"
_RULE = re.compile(r"^### (\d+)\. ", re.MULTILINE)
_CITATION = re.compile(r"[Pp]rotocol\s+rules?\s+((?:\d+|,|and|to|\s+)+)")
_ELSEWHERE = re.compile("PROTO" + r"COL \d|(?<![Pp]rotocol\s)\b[Rr]ules? \d")


def sources() -> list[Path]:
    return sorted(path for room in ("src", "tests", "bench", "tools") for path in (ROOT / room).rglob("*.py"))


def rules() -> list[int]:
    return [int(number) for number in _RULE.findall(PAGE.read_text())]


def cited_in(text: str) -> list[int]:
    """Return the numbers of a text's citations, with both ends of a range."""
    return [int(number) for found in _CITATION.findall(text) for number in re.findall(r"\d+", found)]


def test_each_rule_has_a_number_of_its_own() -> None:
    found = rules()
    assert sorted(found) == list(range(1, len(found) + 1))


def test_each_rule_says_what_goes_wrong_without_it() -> None:
    chapters = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert [chapter.split(".")[0] for chapter in chapters if "**Without it**: " not in chapter] == []


def test_each_citation_names_a_rule_that_exists() -> None:
    known = set(rules())
    cited = {path: cited_in(path.read_text()) for path in sources()}
    assert sum(map(len, cited.values())) > 100
    assert {path: missing for path, found in cited.items() if (missing := set(found) - known)} == {}


def test_no_source_cites_a_rule_by_its_number_alone() -> None:
    assert [path for path in sources() if path != Path(__file__) and _ELSEWHERE.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("(protocol rules 8 to 10, 17, 25)", [8, 10, 17, 25]), ("Protocol rule 6: a claim", [6]), ("the rules", [])],
)
def test_a_citation_is_recognised_in_each_form(text: str, numbers: list[int]) -> None:
    assert cited_in(text) == numbers
