"""The examples of a page, run in order in one namespace, as a reader would type them.

`python` blocks are run, `pycon` blocks are run and their output is compared. A failure names the page and its line. The
working directory is a scratch one, so an example may name a file as a reader would: `sqlite:///itinerary.db`. What its
jobs log goes to standard error, as with `itinerary up`: whether one of them happens to be due is not up to the page.
A block below `<!-- needs: fastapi -->` is run where that is installed, and compiled elsewhere.

A `console` block that begins with `$ ` is a terminal, `terminal.py`: each command is run, and what it prints is
compared with what stands below it. On a page with a terminal, a block that begins with `# jobs.toml` or `# crontab` is
that file.
"""

from __future__ import annotations

import doctest
import re
import runpy
import sys
from contextlib import chdir
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import structlog

from itinerary.config.log_setup import configure_logging
from tests.docs.terminal import Terminal, is_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.pages import Block, Page

_FILE: Final = re.compile(r"# (\w+\.toml|crontab)\n")


def failures(page: Page, scratch: Path) -> list[str]:
    """What the page says that is not so; `scratch` is a folder to run in."""
    configure_logging(stream=sys.stderr)
    try:
        with chdir(scratch):
            return _failures(page, scratch)
    finally:
        structlog.reset_defaults()


def _failures(page: Page, scratch: Path) -> list[str]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    complaints: list[str] = []
    with Terminal() as terminal:
        for block in page.blocks:
            complaints += _tried(page, block, scratch, namespace, terminal)
    return complaints


def has_terminal(page: Page) -> bool:
    return any(is_terminal(block) for block in page.blocks)


def _tried(page: Page, block: Block, scratch: Path, namespace: dict[str, Any], terminal: Terminal) -> list[str]:
    match block.language:
        case "console" if is_terminal(block):
            return terminal.complaints(page, block)
        case "toml" | "text" if has_terminal(page) and (named := _FILE.match(block.source)):
            (scratch / named[1]).write_text(block.source, "utf-8")
        case "python" if block.needs is not None and find_spec(block.needs) is None:
            compile("\n" * block.line + block.source, str(page), "exec")
        case "python":
            namespace |= _run(page, block, scratch, namespace)
        case "pycon":
            return _compare(page, block, namespace)
        case _:
            pass
    return []


def _run(page: Page, block: Block, scratch: Path, namespace: dict[str, Any]) -> dict[str, Any]:
    script = scratch / page.path.name
    script.write_text("\n" * block.line + block.source, "utf-8")  # so that a traceback has the page's line numbers
    return runpy.run_path(str(script), namespace, "__main__")


def _compare(page: Page, block: Block, namespace: dict[str, Any]) -> list[str]:
    test = doctest.DocTestParser().get_doctest(block.source, namespace, str(page), str(page), block.line)
    complaints: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=complaints.append, clear_globs=False)
    namespace |= test.globs
    return complaints
