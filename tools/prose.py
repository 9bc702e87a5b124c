"""Find docstrings and pages that are not in plain English: `python tools/prose.py`.

CONTRIBUTING.md has the rules of plain English. This tool finds the sentences that break the rules most often:

    a clause without a noun       "What runs finishes."           write "A running task finishes."
    an unnamed person             "nobody", "whoever"             write "no node", "the caller"
    a pronoun without its noun    "It is recorded as skipped."    write "The run is recorded as skipped."
    a vague quantity              "so many at a time"             write "at most `limit` at a time"
    an old or vague phrase        "any more", "comes to", "told"  write "no longer", "results in", "receives"

Code blocks, quotations of the program's output and text in backticks are not checked.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
SENTENCE: Final = r"(?:^|(?<=[.:;]\s)|(?<=\n\n))\s*"
RULES: Final = {
    "a clause without a noun": re.compile(
        SENTENCE + r"(?:What|Who|Whose|Whatever|Those who|Those that|Others)\b(?![^.\n]*\?)"
    ),
    "an unnamed person": re.compile(r"\b(?:some|no|any|every)body\b|\bwho(?:m|ever)\b", re.IGNORECASE),
    "a vague quantity": re.compile(r"\bso (?:many|much|long|often|far)\b", re.IGNORECASE),
    "an old or vague phrase": re.compile(
        r"\b(?:by now|any more|no more|anew|for ever|meanwhile|as always|after all|(?:is|was|are|be|is not) so"
        r"|(?:come|comes|came|become|becomes|became) of|(?:come|comes|came) to|told|is said|said of|heard of)\b",
        re.IGNORECASE,
    ),
}
PRONOUN: Final = {
    "a pronoun without its noun": re.compile(r"^(?:It|They|These|Those|Each|One|Some|All|The same|Both|Such)\b"),
}
"""Only for docstrings: on a page, the noun is in the sentence before."""
BLOCK: Final = re.compile(r"```.*?```|<[^>]+>|`[^`\n]*`|\"[^\"\n]*\"|“[^”]*”|\]\([^)]*\)", re.DOTALL)


class Finding(NamedTuple):
    """A sentence that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {self.text!r}"


def check_python(path: Path) -> Iterator[Finding]:
    """Yield the findings in the docstrings of a module, and in the texts under its attributes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        body = getattr(node, "body", None)
        for item in body if isinstance(body, list) else ():
            if (
                isinstance(item, ast.Expr)
                and isinstance(item.value, ast.Constant)
                and isinstance(item.value.value, str)
            ):
                yield from _check(path, item.lineno, item.value.value, RULES | PRONOUN)


def check_page(path: Path) -> Iterator[Finding]:
    """Yield the findings on a Markdown page."""
    yield from _check(path, 1, path.read_text("utf-8"), RULES)


def _check(path: Path, line: int, text: str, rules: dict[str, re.Pattern[str]]) -> Iterator[Finding]:
    # A blank of the same length keeps the line numbers.
    shown = BLOCK.sub(lambda found: re.sub(r"[^\n]", "·", found.group()), text)
    for rule, pattern in rules.items():
        for found in pattern.finditer(shown):
            yield Finding(path, line + shown.count("\n", 0, found.start()), rule, found.group().strip())


def findings(root: Path = ROOT) -> list[Finding]:
    """Return all findings of the project."""
    modules = sorted((root / "src").rglob("*.py"))
    pages = [*sorted((root / "docs").rglob("*.md")), root / "README.md", root / "CONTRIBUTING.md"]
    found = [finding for path in modules for finding in check_python(path)]
    return found + [finding for path in pages for finding in check_page(path)]


def main() -> int:
    """Print the findings, and return 1 if there are any."""
    found = findings()
    for finding in found:
        print(finding)
    if found:
        print(f"{len(found)} sentences are not in plain English; CONTRIBUTING.md has the rules")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
