"""A node with a dashboard, and a real browser that looks at it. Without Chromium these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.cli.program import Program
from tests.e2e.web.looking import PATIENCE, Look

LIVELY = Path(__file__).with_name("lively.py")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def chromium() -> str | None:
    """Where the system's browser is."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, for as long as tests of one module run: meanwhile its thread has an event loop that runs, and no test
    of another one could have a loop of its own."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: install it, or name it in CHROMIUM")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the dashboard of a node is, on which much happens."""
    place = tmp_path_factory.mktemp("lively")
    with Program(place, "up", str(LIVELY), "--store", f"sqlite:///{place}/lively.db", web="127.0.0.1:0") as program:
        line = program.until(lambda line: "dashboard on" in line)
        yield line.split()[-1].rstrip("/")


@pytest.fixture
def look(browser: Browser, address: str) -> Iterator[Look]:
    """Opens pages, and holds against them whatever went wrong behind them."""
    found = Look(browser, address)
    yield found
    found.close()
    assert not found.faults, "\n".join(found.faults)


@pytest.fixture
def page(look: Look) -> Page:
    """A page of an ordinary width."""
    return look.page()
