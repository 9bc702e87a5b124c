"""Every page in a real browser: nothing goes wrong behind it, it fits a phone, and everybody can use it (U10, Q2)."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.web.looking import Look, is_wider_than_its_window, tripping_over
from tests.e2e.web.sights import Sight, forgotten, there

AXE = files("axe_playwright_python").joinpath("axe.min.js")
SERIOUS = ("serious", "critical")


def opened(page: Page, sight: Sight) -> Page:
    """The page, as soon as it is there and live."""
    address = sight.address.replace("{run}", run_that_failed(page)) if "{run}" in sight.address else sight.address
    answer = page.goto(address)
    assert answer is not None
    assert answer.status == 200, f"{sight.name}: {answer.status}"
    expect(page.locator("h1")).to_be_visible()
    return page


def run_that_failed(page: Page) -> str:
    """The number of an occurrence that has failed: a page of the job links to it."""
    page.goto("/jobs/failing")
    link = page.locator('a[href^="/runs/"]').first
    expect(link).to_be_visible()
    return str(link.get_attribute("href")).rpartition("/")[2]


@pytest.mark.spec("U10", "pages")
def test_no_page_is_forgotten() -> None:
    assert not forgotten(), "give it a line in sights.py"


@pytest.mark.spec("U10", "usable on a phone")
@pytest.mark.spec("Q2", "a strict content security policy")
@pytest.mark.parametrize("sight", there(), ids=lambda sight: sight.name)
def test_a_page_is_whole_fits_a_phone_and_can_be_used_by_everybody(sight: Sight, look: Look) -> None:
    page = opened(look.page(), sight)
    assert tripping_over(page) == []
    assert serious_faults(page) == []
    page.set_viewport_size({"width": 380, "height": 800})
    page.emulate_media(color_scheme="dark")
    assert not is_wider_than_its_window(page)
    assert tripping_over(page) == []


def serious_faults(page: Page) -> list[str]:
    """What axe-core finds."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: Any = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{fault['id']}: {[node['html'][:120] for node in fault['nodes'][:3]]}"
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
    ]


@pytest.mark.spec("U10", "live without reloading")
def test_a_page_changes_while_it_is_open(page: Page) -> None:
    page.goto("/records/orders")
    page.evaluate("window.stayed = true")
    events = page.locator("#events tbody tr td.number")
    expect(events.first).not_to_be_empty()
    first = events.first.inner_text()
    expect(events.first).not_to_have_text(first)
    assert page.evaluate("window.stayed")
    expect(page.locator("#live")).to_have_text("live")


def test_what_is_typed_is_left_alone_while_the_page_lives(page: Page) -> None:
    page.goto("/records/orders")
    page.locator("#record").fill("O-1")
    events = page.locator("#partitions tfoot td.number").first
    before = events.inner_text()
    expect(events).not_to_have_text(before)
    expect(page.locator("#record")).to_have_value("O-1")
    expect(page.locator("#record")).to_be_focused()


@pytest.mark.spec("U10", "dark")
def test_dark_is_what_the_system_says_until_somebody_chooses(look: Look) -> None:
    page = look.page(scheme="dark")
    page.goto("/audit")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == light


@pytest.mark.spec("U10", "by keyboard")
def test_the_first_key_offers_to_skip_what_is_the_same_on_each_page(page: Page) -> None:
    page.goto("/audit")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#from")).to_be_focused()


@pytest.mark.spec("U10", "by keyboard")
def test_keys_reach_every_page_in_the_order_in_which_they_stand(page: Page) -> None:
    page.goto("/audit")
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", f"nobody sees that {reached[-1]} has the focus"
    assert reached[1:7] == ["Itinerary", "Now", "Timeline", "Jobs", "Records", "Audit"]


@pytest.mark.spec("U10", "in the reader's zone")
def test_instants_are_shown_in_the_zone_of_who_reads(page: Page) -> None:
    page.goto("/audit")
    shown = page.locator("#changes time").first
    expect(shown).not_to_contain_text("UTC")
    expect(shown).to_have_attribute("title", re.compile("Asia/(Kolkata|Calcutta)"))
