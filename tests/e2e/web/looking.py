"""Somebody who looks at a dashboard, and notes whatever a page does that it should not."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

PATIENCE = 30_000
"""How long something that must happen may take, in milliseconds."""
_CHECK = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")


class Look:
    """Pages of one test. What is in `faults` at its end is wrong: errors on the console, in a script, of the content
    security policy; requests to anybody else."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser, self.address = browser, address
        self._contexts: list[BrowserContext] = []
        self.faults: list[str] = []

    def page(self, *, width: int = 1_280, scheme: Literal["dark", "light"] = "light", has_script: bool = True) -> Page:
        """A new browser window."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=has_script,
            timezone_id="Asia/Kolkata",
            reduced_motion="reduce",
            base_url=self.address,
        )
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(f"a script failed: {error}"))
        page.on("request", self._asked)
        return page

    def close(self) -> None:
        """Close them."""
        for context in self._contexts:
            context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"the console says: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "about:", "blob:")):
            self.faults.append(f"it asked somebody else: {request.url}")


def tripping_over(page: Page) -> list[str]:
    """What somebody with a keyboard, a screen reader or weak eyes would trip over."""
    found: list[str] = page.evaluate(_CHECK)
    return found


def is_wider_than_its_window(page: Page) -> bool:
    """Whether one has to scroll sideways."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return wide
