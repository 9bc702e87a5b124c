"""Pictures of the dashboard for the docs: the example app runs for a while, and each page is looked at.

    make screenshots        writes docs/assets/dashboard-*.png

It needs Chromium. What a picture shows differs from run to run, since the example app is left to chance; which pages
there are does not.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from playwright.sync_api import Browser, Error, sync_playwright

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.cli.program import Program  # noqa: E402 - found through the line above
from tests.e2e.web.conftest import FLAGS, chromium  # noqa: E402

ASSETS: Final = ROOT / "docs" / "assets"
BUSY_FOR: Final = 150.0
"""Seconds that the example app runs before anybody looks."""
SIZE_MAX: Final = 150_000
"""The most bytes of a picture."""
ZONE: Final = "Europe/Lisbon"


class Picture(NamedTuple):
    """A page, and how it is looked at."""

    name: str
    address: str
    scheme: Literal["dark", "light"] = "light"
    width: int = 1_200
    height: int = 800
    click: str | None = None
    """What is clicked on first: a link to go on from, a button."""
    until: str | None = None
    """What is waited for, if it comes soon."""


RUNNING: Final = '#running a[href^="/runs/"]'
PICTURES: Final = (
    Picture("now", "/", until=RUNNING),
    Picture("now-dark", "/", scheme="dark", until=RUNNING),
    Picture("now-phone", "/", width=380, height=760),
    Picture("timeline", "/timeline"),
    Picture("jobs", "/jobs"),
    Picture("job", "/jobs/weather"),
    Picture("occurrence", "/jobs/reports", click='main a[href^="/runs/"]'),
    Picture("records", "/records/orders"),
    Picture("audit", "/audit", click="form.audited button"),
    Picture("action", "/jobs/backup", click='a.operates[href^="/actions/pause"]', until="dialog form"),
)


def main() -> int:
    """Run the example, and take all pictures."""
    path = chromium()
    if path is None:
        print("no Chromium on this machine: install it, or name it in CHROMIUM", file=sys.stderr)
        return 1
    ASSETS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        store = f"sqlite:///{place}/example.db"
        example = str(ROOT / "examples" / "app.py")
        with Program(Path(place), "up", example, "--store", store, "--name", "laptop", web="127.0.0.1:0") as program:
            address = program.until(lambda line: "dashboard on" in line).split()[-1]
            time.sleep(BUSY_FOR)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
                too_large = [picture.name for picture in PICTURES if taken(browser, address, picture) > SIZE_MAX]
                browser.close()
    for name in too_large:
        print(f"{name} is larger than {SIZE_MAX} bytes", file=sys.stderr)
    return 1 if too_large else 0


def taken(browser: Browser, address: str, picture: Picture) -> int:
    """Take one. Returns how large it is."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme=picture.scheme,
        timezone_id=ZONE,
        reduced_motion="reduce",
        base_url=address,
    )
    page = context.new_page()
    page.goto(picture.address)
    if picture.click is not None:
        page.locator(picture.click).first.click()
    page.wait_for_timeout(2_000)
    if picture.until is not None:
        with suppress(Error):
            page.locator(picture.until).first.wait_for(timeout=20_000)
    path = ASSETS / f"dashboard-{picture.name}.png"
    page.screenshot(path=path)
    context.close()
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}  {size:,} bytes")
    return size


if __name__ == "__main__":
    raise SystemExit(main())
