"""The site that `make docs` makes: built without a warning, whole, and sufficient to itself."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import DOCS, ROOT, Page, docs_pages
from tools.site.hooks import menu
from tools.site.sequences import draw_sequence
from tools.site.states import draw_states

ASKS = {
    "img": "src",
    "script": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "embed": "src",
    "object": "data",
}
"""Elements that a browser fetches something for by itself, and the attribute that says what."""


@dataclass
class Built(HTMLParser):
    """What a page of the site holds, as far as it leads or asks anywhere."""

    path: Path
    names: set[str] = field(default_factory=set)
    tags: Counter[str] = field(default_factory=Counter)
    """How many of each there are in what the page itself says."""
    is_inside: bool = False
    links: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.is_inside = (self.is_inside or found.get("role") == "main") and found.get("class") != "around"
        self.tags[tag] += self.is_inside
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if ASKS.get(tag) in found:
            self.asked.append(found[ASKS[tag]])
        self.asked += re.findall(r"url\(([^)]*)\)", found.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own command
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    return made


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Built]:
    return {path: Built(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_and_anchor_within_the_site_leads_somewhere(site: Path, pages: dict[Path, Built]) -> None:
    assert not [f"{path.relative_to(site)}: {link}" for path, page in pages.items() for link in _astray(page, pages)]


def _astray(page: Built, pages: dict[Path, Built]) -> Iterator[str]:
    """Its links within the site that lead to nothing; a 404 page may be shown anywhere, so its links are absolute."""
    for link in page.links:
        found = urlsplit(link)
        if found.scheme or found.netloc or link.startswith("/"):
            continue
        target = (page.path.parent / unquote(found.path)).resolve() if found.path else page.path
        if not target.is_file() or (found.fragment and unquote(found.fragment) not in pages[target].names):
            yield link


def test_nothing_is_asked_of_another_host(site: Path, pages: dict[Path, Built]) -> None:
    asked = [asked for page in pages.values() for asked in page.asked]
    asked += [
        asked
        for sheet in site.rglob("*.css")
        for asked in re.findall(r"""(?:@import\s+|url\()["']?([^"')\s]+)""", sheet.read_text("utf-8"))
    ]
    assert len(asked) > 100
    assert not [address for address in asked if re.match(r"(?:[a-z]+:)?//", address)]


def test_the_site_has_every_page_with_all_its_headings_lists_tables_blocks_and_drawings(
    site: Path, pages: dict[Path, Built]
) -> None:
    for source in docs_pages():
        tags = pages[site / source.path.relative_to(DOCS).with_suffix(".html")].tags
        drawings = sum(block.language == "mermaid" for block in source.blocks)
        assert sum(tags[f"h{level}"] for level in range(1, 7)) == len(source.headings), source
        assert tags["tr"] == sum(map(len, source.tables)), source
        assert tags["li"] == len(re.findall(r"^ *(?:-|\d+\.) ", source.prose, re.MULTILINE)), source
        assert (tags["svg"], tags["pre"]) == (drawings, len(source.blocks) - drawings), source


def in_menu(entries: list[dict[str, object]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            yield from in_menu(value) if isinstance(value, list) else [str(value)]


def test_every_page_is_in_the_menu_once() -> None:
    listed = list(in_menu(menu((DOCS / "index.md").read_text("utf-8"))))
    ours = [page.path.relative_to(DOCS).as_posix() for page in docs_pages()]
    assert sorted(listed) == sorted([*ours, "changelog.md"])


# -- drawings ----------------------------------------------------------------------------------------------------------


def pictures() -> list[tuple[Page, str]]:
    return [(page, block.source) for page in docs_pages() for block in page.blocks if block.language == "mermaid"]


def test_every_arrow_and_every_word_of_a_diagram_is_drawn() -> None:
    assert len(pictures()) >= 8
    for page, source in pictures():
        kind, _, rest = source.partition("\n")
        arrows = [line for line in rest.splitlines() if "--> [*]" not in line and ("-->" in line or ">>" in line)]
        drawing = (draw_states if kind == "stateDiagram-v2" else draw_sequence)(rest)
        assert drawing.count('class="tip"') == len(arrows), page
        said = re.sub(r"<[^>]+>", " ", drawing)
        words = re.findall(
            r"[\w':,;^()]+", re.sub(r"not_final|participant \w+ as|Note over \w+:|\w+-?->>\w+:|>", " ", rest)
        )
        assert not [word for word in words if word.rstrip(":") not in html.unescape(said)], page


@pytest.mark.parametrize("draw", [draw_sequence, draw_states])
def test_a_line_that_cannot_be_drawn_is_an_error_and_not_left_out(draw: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match="'loop every minute', which is not drawn"):
        draw("    loop every minute\n")


def test_states_of_one_rank_do_not_cover_each_other() -> None:
    for _, source in pictures():
        kind, _, rest = source.partition("\n")
        if kind == "stateDiagram-v2":
            boxes = re.findall(r'<rect class="box[^"]*" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', draw_states(rest))
            places = sorted((int(y), float(x), float(x) + float(width)) for x, y, width in boxes)
            for (y, _, right), (next_y, left, _) in pairwise(places):
                assert y != next_y or left > right


def test_the_components_in_the_picture_of_a_node_are_those_that_it_has() -> None:
    drawn = (DOCS / "assets/architecture.svg").read_text("utf-8")
    for component in ("index builder", "claimer", "reaper", "rescuer", "sweeper", "syncer", "heartbeat"):
        assert re.search(rf">[^<]*\b{component}\b[^<]*</text>", drawn), component
        assert (ROOT / "src/itinerary/runtime" / f"{component.replace(' ', '_')}.py").is_file()
