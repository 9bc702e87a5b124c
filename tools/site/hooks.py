"""What MkDocs does to our pages beyond its own: `python -m mkdocs build --strict`, from the root of the project.

Pages are written to be read anywhere Markdown is shown, so what the site needs is read off them, and not said twice:

    the menu        is read off docs/index.md, which lists every page: a heading is a group, a line of a list a page
    anchors         are those that other viewers make of a heading, so that one link works everywhere
    diagrams        are drawn: `sequences`, `states`
    the changelog   lies above docs/ and is a page of the site
    `a\\|b`          in a table, is `a|b`: a bar within code ends no cell here
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site.sequences import draw_sequence
from tools.site.states import draw_states

__all__ = ["menu", "on_config", "on_files", "on_page_markdown", "slug"]

_CHANGELOG: Final = "changelog.md"
_HEADING: Final = re.compile(r"(##+) ([^:]+)")
_LISTED: Final = re.compile(r"- \[([^\]]+)\]\(([^)]+\.md)\)")
_MERMAID: Final = re.compile(r"^```mermaid\n(\w\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK_TO_CHANGELOG: Final = re.compile(r"\]\((?:\.\./)+CHANGELOG\.md")
_TABLE_LINE: Final = re.compile(r"^\|.*$", re.MULTILINE)
_CODE: Final = re.compile(r"`[^`]+`")
_DRAWN_BY: Final = {"sequenceDiagram": draw_sequence, "stateDiagram-v2": draw_states}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = menu((Path(config.docs_dir) / "index.md").read_text("utf-8"))
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": False}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    changelog = Path(config.docs_dir).parent / "CHANGELOG.md"
    files.append(File.generated(config, _CHANGELOG, abs_src_path=str(changelog)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    markdown = _MERMAID.sub(lambda found: _DRAWN_BY[found[1]](found[2]), markdown)
    markdown = _LINK_TO_CHANGELOG.sub(f"]({up}{_CHANGELOG}", markdown)
    return _TABLE_LINE.sub(lambda line: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line[0]), markdown)


def slug(heading: str, _separator: str) -> str:
    """What a link may name after `#`, by the rule of GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def menu(index: str) -> list[Any]:
    """The pages that an index lists, as MkDocs wants them, in the groups of its headings."""
    whole: list[Any] = [{"Overview": "index.md"}]
    group, part = whole, whole
    for line in index.splitlines():
        if found := _HEADING.match(line):
            inner: list[Any] = []
            (whole if found[1] == "##" else part).append({found[2]: inner})
            group = inner
            part = inner if found[1] == "##" else part
        elif found := _LISTED.match(line):
            group.append({found[1]: _CHANGELOG if found[2] == "../CHANGELOG.md" else found[2]})
    return whole
