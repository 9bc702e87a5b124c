"""The checker of plain English finds what it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose


def found(tmp_path: Path, text: str, name: str = "page.md") -> list[str]:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    check = prose.check_python if name.endswith(".py") else prose.check_page
    return [f"{finding.line} {finding.rule}" for finding in check(path)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("A run ends. What runs finishes.", "a clause without a noun"),
        ("The state that nobody holds.", "an unnamed person"),
        ("Return so many rows.", "a vague quantity"),
        ("The result that comes of it.", "an old or vague phrase"),
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found_with_its_line(tmp_path: Path, text: str, rule: str) -> None:
    assert found(tmp_path, f"# Title\n\n{text}\n") == [f"3 {rule}"]


def test_a_docstring_that_begins_with_a_pronoun_is_found_and_a_page_may_do_so(tmp_path: Path) -> None:
    text = "It is recorded as skipped."
    assert found(tmp_path, f'def skip():\n    """{text}"""\n', "module.py") == ["2 a pronoun without its noun"]
    assert not found(tmp_path, f"The run does not start. {text}\n")


def test_code_quotations_and_questions_are_not_checked(tmp_path: Path) -> None:
    assert not found(tmp_path, '```\nnobody\n```\n\nThe user `nobody` asks: What runs now? The log says "told".\n')
