"""The documentation as data: pages, their code blocks, links, headings and tables.

Nothing here knows Markdown in general, only the part of it that our pages use: fences at the beginning of a line,
headings with `#`, tables with a header row. A block in any other form would escape its check, so a test refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
DOCS: Final = ROOT / "docs"
GENERATED: Final = frozenset({DOCS / "explanation/performance.md"})
"""Pages that a tool writes: until it has, a link to one of them leads nowhere, and that is no mistake of the page."""

_FENCE: Final = re.compile(r"^(?:<!-- needs: (\w+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")
_NAME: Final = re.compile(r"@?\w+(?:\.\w+)*")


@dataclass(frozen=True)
class Block:
    """A fenced piece of a page; `line` is the number of the line above its first."""

    language: str
    source: str
    line: int
    needs: str | None
    """A module that our tests do without: where it is not installed, the block is compiled and not run."""


@dataclass(frozen=True)
class Page:
    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        return [
            Block(found[2], found[3], self.text.count("\n", 0, found.start(2)) + 1, found[1])
            for found in _FENCE.finditer(self.text)
        ]

    @cached_property
    def prose(self) -> str:
        """The page without its blocks."""
        return _FENCE.sub("", self.text)

    @cached_property
    def links(self) -> list[str]:
        return _LINK.findall(_CODE.sub("", self.prose))

    @cached_property
    def headings(self) -> list[str]:
        return _HEADING.findall(self.prose)

    @cached_property
    def anchors(self) -> set[str]:
        """What a link may name after `#`, by the rule of GitHub."""
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings}

    @cached_property
    def tables(self) -> list[list[list[str]]]:
        """Each table as rows of cells, the header first."""
        found: list[list[list[str]]] = []
        inside = False
        for line in self.prose.splitlines():
            if not line.startswith("|"):
                inside = False
                continue
            if not inside:
                found.append([])
            inside = True
            if not line.startswith("|---"):
                found[-1].append([cell.strip() for cell in line.rstrip()[1:-1].split("|")])
        return found

    def table(self, *header: str) -> list[list[str]]:
        """The rows below this header, of all tables that have it."""
        rows = [row for table in self.tables if table[0] == list(header) for row in table[1:]]
        assert rows, f"{self} has no table with the header {' | '.join(header)}"
        return rows

    @cached_property
    def documented(self) -> set[str]:
        """The names that it is about: in code, in a heading or at the beginning of a row."""
        places = self.headings + [row[0] for table in self.tables for row in table[1:]]
        return {name[0] for place in places for code in _CODE.findall(place) if (name := _NAME.match(code))}


def code(cell: str) -> str:
    """What stands in a cell, without the marks of code."""
    return cell.replace("`", "")


def docs_pages() -> list[Page]:
    return [Page(path) for path in sorted(DOCS.rglob("*.md"))]


def pages_with_examples() -> list[Page]:
    return [Page(ROOT / "README.md"), *docs_pages()]


def reference(name: str) -> Page:
    return Page(DOCS / "reference" / f"{name}.md")


def documented_in_the_reference() -> set[str]:
    return {name for page in docs_pages() if page.path.parent.name == "reference" for name in page.documented}
